"""What a layer accepts as input: dtype, rank, sizes of dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioexec import dtypes, shapes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.ops.control_flow.nesting import flatten


class InputSpec:
    """The dtype, shape, rank and sizes that an input must have; None accepts any.

    Args:
        shape: sizes, None for any size; it implies `ndim`.
        axes: size of each of some axes, None for any size.
    """

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: Mapping[int, int | None] | None = None,
    ) -> None:
        self.dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        self.shape = shape
        self.ndim = ndim if shape is None else len(shape)
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}

    def __repr__(self) -> str:
        words = [f"{name}={value}" for name, value in vars(self).items() if value]
        return f"InputSpec({', '.join(words)})"

    def check(self, tensor: Any, which: str) -> None:
        """Raise GraphValueError unless `tensor` may have this dtype and shape; `which` names the input in the message."""
        dims = tensor.dims
        if dims is None:
            if self.ndim is not None or self.max_ndim is not None or self.min_ndim is not None:
                raise GraphValueError(
                    f"{which} is incompatible with the layer: its rank is undefined, but the layer requires a defined rank."
                )
            self._check_dtype(tensor, which)
            return
        self._check_rank(dims, which)
        self._check_dtype(tensor, which)
        self._check_sizes(dims, which)

    def _check_rank(self, dims: tuple[int | None, ...], which: str) -> None:
        found = f"found ndim={len(dims)}. Full shape received: {list(dims)}"
        if self.ndim is not None and len(dims) != self.ndim:
            raise GraphValueError(
                f"{which} is incompatible with the layer: expected ndim={self.ndim}, {found}"
            )
        if self.max_ndim is not None and len(dims) > self.max_ndim:
            raise GraphValueError(
                f"{which} is incompatible with the layer: expected max_ndim={self.max_ndim}, {found}"
            )
        if self.min_ndim is not None and len(dims) < self.min_ndim:
            raise GraphValueError(
                f"{which} is incompatible with the layer: : expected min_ndim={self.min_ndim}, {found}"
            )

    def _check_dtype(self, tensor: Any, which: str) -> None:
        if self.dtype is not None and tensor.dtype.base_dtype.name != self.dtype:
            raise GraphValueError(
                f"{which} is incompatible with the layer: expected dtype={self.dtype}, "
                f"found dtype={tensor.dtype.base_dtype.name}"
            )

    def _check_sizes(self, dims: tuple[int | None, ...], which: str) -> None:
        for axis, size in self.axes.items():
            if size is not None and dims[axis] not in (size, None):
                raise GraphValueError(
                    f"{which} is incompatible with the layer: expected axis {axis} of input shape to have value {size} "
                    f"but received input with shape {list(dims)}"
                )
        if self.shape is not None and not shapes.compatible(shapes.as_dims(self.shape), dims):
            raise GraphValueError(
                f"{which} is incompatible with the layer: expected shape={list(shapes.as_dims(self.shape) or ())}, "
                f"found shape={list(dims)}"
            )


def check_inputs(specs: Any, inputs: Any, layer: str) -> None:
    """Check the inputs of a layer against its InputSpec, or a list of them, one for each input.

    Raises:
        GraphTypeError: an input is not a tensor.
        GraphValueError: an input does not match, or the numbers of inputs and specs differ.
    """
    if not specs:
        return
    tensors = flatten(inputs)
    wanted = flatten(specs)
    for tensor in tensors:
        if not hasattr(tensor, "dims"):
            raise GraphTypeError(f"Inputs to a layer should be tensors. Got: {tensor!r}")
    if len(tensors) != len(wanted):
        raise GraphValueError(
            f"Layer {layer} expects {len(wanted)} inputs, but it received {len(tensors)} input tensors: {tensors}"
        )
    for place, (tensor, spec) in enumerate(zip(tensors, wanted, strict=True)):
        if spec is not None:
            spec.check(tensor, f"Input {place} of layer {layer}")
