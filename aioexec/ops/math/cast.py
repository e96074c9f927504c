"""Dtype conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import UnimplementedError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import Alias, Attrs, Compute, KernelContext, Launches, Native, Spec
from aioexec.graph.kernels.launches import expression
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import register
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.common.elementwise import Array, named, op_scope, same_shape


def _kernel(context: KernelContext) -> Compute:
    source, target = context.input_dtypes[0].base_dtype, context.output_dtypes[0].base_dtype
    if not (source.is_numpy_compatible and target.is_numpy_compatible) or dtypes.string in (source, target):
        raise UnimplementedError(f"Cast {source.name} to {target.name} is not supported")
    wanted = target.numpy
    if source == target:
        return lambda x: x
    if target.is_integer and not source.is_integer and source != dtypes.bool_:
        return lambda x: _to_integer(x, wanted)
    if source.is_complex and not target.is_complex:
        return lambda x: np.asarray(x.real != 0 if target == dtypes.bool_ else x.real).astype(wanted)
    return lambda x: x.astype(wanted)


def _to_integer(x: Array, wanted: np.dtype[Any]) -> Array:
    """Truncate towards zero; out-of-range values saturate, NaN becomes 0."""
    real = np.asarray(x.real if x.dtype.kind == "c" else x)
    wide = real if real.dtype in (np.float32, np.float64) else real.astype(np.float32)
    limits = np.iinfo(wanted)
    low, high = wide.dtype.type(limits.min), wide.dtype.type(limits.max)
    inside = np.where((wide >= low) & (wide < high), wide, wide.dtype.type(0)).astype(wanted)
    result = np.where(
        wide >= high, wanted.type(limits.max), np.where(wide < low, wanted.type(limits.min), inside)
    )
    return result.astype(wanted, copy=False)


def _text(attrs: Attrs) -> str:
    return f"x: cast(x, {attrs['DstT'].numpy.name!r})"


def _gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    source, target = op.attrs["SrcT"].base_dtype, op.attrs["DstT"].base_dtype
    smooth = (source.is_floating or source.is_complex) and (target.is_floating or target.is_complex)
    return [apply_op("Cast", dy, DstT=source) if smooth else None]


_NATIVE = expression(_text)


def _bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    return Alias((0,), (0,)) if attrs["SrcT"] == attrs["DstT"] else _NATIVE.bind(attrs, inputs, outputs)


register(
    "Cast(x:SrcT) -> (y:DstT) [SrcT:type; DstT:type; Truncate:bool=false]",
    shape=same_shape,
    kernel=_kernel,
    gradient=_gradient,
    native=Native(_bind),
)


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Convert x to `dtype`; return x itself if it has that dtype. Of IndexedSlices and SparseTensors, convert the values.

    Floats are truncated to integers.
    """
    base = dtypes.as_dtype(dtype).base_dtype
    if isinstance(x, IndexedSlices):
        return IndexedSlices(cast(x.values, base, name), x.indices, x.dense_shape)
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, base, name), x.dense_shape)
    if isinstance(x, Tensor) and x.dtype.base_dtype == base:
        return x
    with op_scope(name, "Cast", x) as scope:
        tensor = convert_to_tensor(x, name="x")
        return tensor if tensor.dtype.base_dtype == base else apply_op("Cast", tensor, name=scope, DstT=base)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Convert x to `dtype`, clipping values to its range."""
    target = dtypes.as_dtype(dtype).base_dtype
    with op_scope(name, "saturate_cast", value) as scope:
        tensor = convert_to_tensor(value, name="value")
        held = tensor.dtype.base_dtype
        if held.min < target.min:
            tensor = apply_op("Maximum", tensor, convert_to_tensor(target.min, held), name="min")
        if held.max > target.max:
            tensor = apply_op("Minimum", tensor, convert_to_tensor(target.max, held), name="max")
        result = cast(tensor, target, name=scope)
        assert isinstance(result, Tensor)
        return result


def _to(dtype: dtypes.DType, name_of_node: str) -> Callable[..., Any]:
    def function(x: Any, name: str | None = name_of_node) -> Any:
        return cast(x, dtype, name)

    return named(function, f"to_{name_of_node[2:].lower()}", f"Convert x to {dtype.name}.")


to_float = _to(dtypes.float32, "ToFloat")
to_double = _to(dtypes.float64, "ToDouble")
to_int32 = _to(dtypes.int32, "ToInt32")
to_int64 = _to(dtypes.int64, "ToInt64")
to_bfloat16 = _to(dtypes.bfloat16, "ToBFloat16")
to_complex64 = _to(dtypes.complex64, "ToComplex64")
to_complex128 = _to(dtypes.complex128, "ToComplex128")
