"""Unique: the distinct elements of a vector, or slices along an axis, in order of first appearance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.array.arrays import run_time
from aioexec.ops.common.elementwise import Array, shown
from aioexec.shapes import Dims


def _distinct(x: Array) -> tuple[Array, Array]:
    """Return the distinct elements, and the index of each element among them."""
    if x.ndim != 1:
        raise InvalidArgumentError(f"unique expects a 1D vector, got shape {shown(x.shape)}")
    if x.dtype == object or x.dtype.kind == "V":
        found: dict[Any, int] = {}
        places = np.array([found.setdefault(item, len(found)) for item in x.tolist()], np.int64)
        return x[np.unique(places, return_index=True)[1]], places
    _, first, inverse = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
    order = np.argsort(first, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return x[first[order]], rank[inverse.reshape(-1)]


def _unique(context: KernelContext) -> Compute:
    dtype = context.attrs["out_idx"].numpy

    def unique(x: Array) -> tuple[Array, Array]:
        y, places = _distinct(x)
        return y, places.astype(dtype)

    return unique


def _unique_with_counts(context: KernelContext) -> Compute:
    dtype = context.attrs["out_idx"].numpy

    def unique(x: Array) -> tuple[Array, Array, Array]:
        y, places = _distinct(x)
        return y, places.astype(dtype), np.bincount(places, minlength=len(y)).astype(dtype)

    return unique


def _unique_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 1)
    return [(None,), context.inputs[0]]


register(
    "Unique(x:T) -> (y:T, idx:out_idx) [T:type; out_idx:type{int32|int64}=int32]",
    shape=_unique_shape,
    kernel=_unique,
    gradient=undefined_gradient,
    dynamic_shape=True,
)

register(
    "UniqueWithCounts(x:T) -> (y:T, idx:out_idx, count:out_idx) [T:type; out_idx:type{int32|int64}=int32]",
    shape=lambda context: [*_unique_shape(context), (None,)],
    kernel=_unique_with_counts,
    gradient=undefined_gradient,
    dynamic_shape=True,
)


# Along an axis


def _axis(axis: Array, dims: Sequence[int | None]) -> int:
    """Return the axis; 0 for a vector without one.

    Raises:
        GraphValueError: the axis is out of range.
    """
    if axis.ndim != 1 or axis.size > 1:
        raise GraphValueError(f"axis expects a 1D vector of at most one number, got {axis.tolist()}")
    if not axis.size:
        if len(dims) != 1:
            raise GraphValueError(f"x expects a 1D vector, got rank {len(dims)}")
        return 0
    if not -len(dims) <= axis[0] < len(dims):
        raise GraphValueError(f"axis expects to be in the range [{-len(dims)}, {len(dims)}), got {axis[0]}")
    return int(axis[0]) % len(dims)


def _along_shape(context: ShapeContext) -> Sequence[Dims]:
    dims, axis = context.inputs[0], context.value(1)
    shapes.with_rank(context.inputs[1], 1)
    if dims is None or axis is None:
        return [None, (None,)]
    k = _axis(axis, dims)
    return [(None,) * len(dims), (dims[k],)]


@run_time
def _distinct_along(x: Array, axis: Array) -> tuple[Array, Array, Array]:
    """Return the distinct slices, the index of each slice among them, and their counts."""
    k = _axis(axis, x.shape)
    slices = np.moveaxis(x, k, 0)
    if slices.ndim == 1:
        y, places = _distinct(slices)
    else:
        found: dict[Any, int] = {}
        keys = [tuple(each.reshape(-1).tolist()) for each in slices]
        places = np.array([found.setdefault(key, len(found)) for key in keys], np.int64)
        firsts = np.unique(places, return_index=True)[1]
        y = np.moveaxis(slices[firsts], 0, k)
    return y, places, np.bincount(places, minlength=y.shape[k])


def _unique_along(outputs: int) -> Any:
    def bind(context: KernelContext) -> Compute:
        dtype = context.attrs["out_idx"].numpy

        def compute(x: Array, axis: Array) -> tuple[Array, ...]:
            y, *counts = _distinct_along(x, axis)
            return y, *(each.astype(dtype) for each in counts[: outputs - 1])

        return compute

    return bind


for _name, _more, _shape in (
    ("UniqueV2", (), _along_shape),
    ("UniqueWithCountsV2", (", count:out_idx",), lambda context: [*_along_shape(context), (None,)]),
):
    register(
        f"{_name}(x:T, axis:Taxis) -> (y:T, idx:out_idx{''.join(_more)}) "
        "[T:type; Taxis:type{int32|int64}=int64; out_idx:type{int32|int64}=int32]",
        shape=_shape,
        kernel=_unique_along(2 + len(_more)),
        gradient=undefined_gradient,
        dynamic_shape=True,
    )


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the distinct elements of the vector x in order of first appearance, and the index of each element among them."""
    y, idx = apply_tuple_op("Unique", x, out_idx=out_idx, name=name)
    return y, idx


def unique_with_counts(
    x: Any, out_idx: Any = dtypes.int32, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the results of `unique`, and the number of occurrences of each distinct element."""
    y, idx, count = apply_tuple_op("UniqueWithCounts", x, out_idx=out_idx, name=name)
    return y, idx, count
