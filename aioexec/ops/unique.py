"""Unique: the distinct elements of a vector, in the order in which they first appear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.elementwise import Array, shown
from aioexec.shapes import Dims


def _distinct(x: Array) -> tuple[Array, Array]:
    """The distinct elements, and for each element which of them it is."""
    if x.ndim != 1:
        raise InvalidArgumentError(f"unique expects a 1D vector, got shape {shown(x.shape)}")
    if x.dtype == object or x.dtype.kind == "V":
        found: dict[Any, int] = {}
        places = np.array([found.setdefault(item, len(found)) for item in x.tolist()], np.int64)
        firsts = np.array([int(np.argmax(places == k)) for k in range(len(found))], np.int64)
        return x[firsts], places
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
    return [(None,), shapes.with_rank(context.inputs[0], 1)]


register(
    "Unique(x:T) -> (y:T, idx:out_idx) [T:type; out_idx:type{int32|int64}=int32]",
    shape=_unique_shape,
    kernel=_unique,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)

register(
    "UniqueWithCounts(x:T) -> (y:T, idx:out_idx, count:out_idx) [T:type; out_idx:type{int32|int64}=int32]",
    shape=lambda context: [*_unique_shape(context), (None,)],
    kernel=_unique_with_counts,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)


def unique(x: Any, out_idx: Any = dtypes.int32, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The distinct elements of a vector in order of appearance, and the place of each element among them."""
    y, idx = apply_op("Unique", x, out_idx=out_idx, name=name)
    return y, idx


def unique_with_counts(
    x: Any, out_idx: Any = dtypes.int32, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """As `unique`, and how often each distinct element is there."""
    y, idx, count = apply_op("UniqueWithCounts", x, out_idx=out_idx, name=name)
    return y, idx, count
