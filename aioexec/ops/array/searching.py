"""Searching and indexing by order: bounds in sorted rows, the n-th smallest element, coordinates of flat indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, op_scope, shown
from aioexec.shapes import Dims

# Bounds in sorted rows


def _bound_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 2)
    if context.inputs[1] is None:
        return [None]
    return [shapes.with_rank(context.inputs[1], 2)]


def _bound(side: Any) -> Any:
    def bind(context: KernelContext) -> Compute:
        dtype = context.attrs["out_type"].numpy

        def compute(rows: Array, values: Array) -> Array:
            if rows.ndim != 2 or values.ndim != 2 or len(rows) != len(values):
                raise InvalidArgumentError(
                    f"expected matrices with the same number of rows, got {shown(rows.shape)} and {shown(values.shape)}"
                )
            found = [np.searchsorted(row, value, side) for row, value in zip(rows, values, strict=True)]
            return np.array(found, dtype).reshape(values.shape)

        return compute

    return bind


for _name, _side in (("LowerBound", "left"), ("UpperBound", "right")):
    register(
        f"{_name}(sorted_inputs:T, values:T) -> (output:out_type) [T:type; out_type:type{{int32|int64}}=int32]",
        shape=_bound_shape,
        kernel=_bound(_side),
        gradient=undefined_gradient,
    )

# The n-th element


def _nth_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = shapes.with_rank_at_least(context.inputs[0], 1)
    shapes.with_rank(context.inputs[1], 0)
    n = context.value(1)
    if n is not None and n < 0:
        raise GraphValueError(f"n must be non-negative but is {int(n)}")
    if dims is not None and n is not None and dims[-1] is not None and dims[-1] <= n:
        raise GraphValueError(f"Input must have last dimension > n = {int(n)} but is {dims[-1]}")
    return [None if dims is None else dims[:-1]]


def _nth_element(context: KernelContext) -> Compute:
    reverse = bool(context.attrs["reverse"])

    def compute(x: Array, n: Array) -> Array:
        if not x.ndim or n.ndim or not 0 <= n < x.shape[-1]:
            raise InvalidArgumentError(
                f"Input must have at least n + 1 columns, n = {n.tolist()}, got {shown(x.shape)}"
            )
        place = x.shape[-1] - 1 - int(n) if reverse else int(n)
        return np.sort(x, -1)[..., place]

    return compute


def _nth_gradient(op: Operation, dy: Tensor) -> list[Any]:
    """Divide the gradient equally among the elements equal to the n-th."""
    (x, _), (y,) = op.inputs, op.outputs
    last = convert_to_tensor(-1, dtypes.int32)
    hits = apply_op("Cast", apply_op("Equal", apply_op("ExpandDims", y, last), x), DstT=dy.dtype.base_dtype)
    count = apply_op("Sum", hits, last, keep_dims=True)
    return [hits / count * apply_op("ExpandDims", dy, last), None]


register(
    "NthElement(input:T, n:int32) -> (values:T) [reverse:bool=false; T:type@12]",
    shape=_nth_shape,
    kernel=_nth_element,
    gradient=_nth_gradient,
)

# Coordinates


def _unravel_shape(context: ShapeContext) -> Sequence[Dims]:
    indices, dims = shapes.with_rank_at_most(context.inputs[0], 1), shapes.with_rank(context.inputs[1], 1)
    return [None if indices is None else shapes.concatenate(dims, indices)]


def _unravel(indices: Array, dims: Array) -> Array:
    if indices.ndim > 1 or dims.ndim != 1 or (dims <= 0).any():
        raise InvalidArgumentError(
            f"expected at most a vector of indices into positive dims, got dims {dims.tolist()}"
        )
    if not indices.size:
        raise InvalidArgumentError("received empty tensor indices")
    if prod(dims.tolist()) > np.iinfo(dims.dtype).max:
        raise InvalidArgumentError(f"Input dims product is causing integer overflow: {dims.tolist()}")
    if (indices >= prod(dims.tolist())).any():
        raise InvalidArgumentError(f"index is out of bound as with dims {dims.tolist()}: {indices.tolist()}")
    found = [indices // step % dim for step, dim in zip(_steps(dims.tolist()), dims.tolist(), strict=True)]
    return np.array(found, indices.dtype).reshape(dims.size, *indices.shape)


def _steps(dims: Sequence[int]) -> list[int]:
    return [prod(dims[k + 1 :]) for k in range(len(dims))]


register(
    "UnravelIndex(indices:Tidx, dims:Tidx) -> (output:Tidx) [Tidx:type{int32|int64}=int32]",
    shape=_unravel_shape,
    kernel=plain(_unravel),
    gradient=undefined_gradient,
)

# Functions


def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Convert flat indices into a tensor of shape `dims` to coordinates, one column for each index."""
    return apply_op("UnravelIndex", indices, dims, name=name)


def _as_matrix(x: Tensor) -> Tensor:
    """Merge all dimensions but the last."""
    last = apply_op("StridedSlice", apply_op("Shape", x), [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    return apply_op("Reshape", x, apply_op("Pack", [-1, last]))


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Return the insertion points of values in sorted rows: before equal elements, or after them for side "right".

    Raises:
        GraphValueError: the side is unknown.
    """
    if side not in ("left", "right"):
        raise GraphValueError(f"side must be either 'right' or 'left', got {side!r}")
    with op_scope(name, "searchsorted", sorted_sequence, values) as scope:
        wanted = dtypes.as_dtype(out_type)
        rows, looked_up = convert_to_tensor(sorted_sequence), convert_to_tensor(values)
        op_type = "LowerBound" if side == "left" else "UpperBound"
        found = apply_op(op_type, _as_matrix(rows), _as_matrix(looked_up), out_type=wanted)
        return apply_op("Reshape", found, apply_op("Shape", looked_up), name=scope)
