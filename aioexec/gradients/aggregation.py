"""Sums of the gradients that reach one tensor along several paths."""

from __future__ import annotations

import enum
from collections.abc import Sequence

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor

Gradient = Tensor | IndexedSlices


class AggregationMethod:
    """The method of summation: ADD_N waits for all gradients and adds them at once, EXPERIMENTAL_TREE adds two at a time."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


class UnconnectedGradients(enum.Enum):
    """The result of `gradients` for an x that no y depends on."""

    NONE = "none"
    ZERO = "zero"


def check_method(method: int | None) -> int:
    """The method, or the default for None.

    Raises:
        GraphValueError: there is no such method.
    """
    known = (
        AggregationMethod.ADD_N,
        AggregationMethod.EXPERIMENTAL_TREE,
        AggregationMethod.EXPERIMENTAL_ACCUMULATE_N,
    )
    chosen = AggregationMethod.DEFAULT if method is None else method
    if chosen not in known:
        raise GraphValueError(f"gradients: aggregation_method must be one of {known}, got {method!r}")
    return chosen


def aggregate(gradients: Sequence[Gradient], method: int) -> Gradient | None:
    """The sum; the result is IndexedSlices if all gradients are."""
    if len(gradients) < 2:
        return gradients[0] if gradients else None
    slices = [gradient for gradient in gradients if isinstance(gradient, IndexedSlices)]
    if len(slices) == len(gradients):
        return _concatenate(slices)
    tensors = [convert_to_tensor(gradient) for gradient in gradients]
    if method == AggregationMethod.EXPERIMENTAL_TREE:
        while len(tensors) > 2:
            pairs = [tensors[k : k + 2] for k in range(0, len(tensors), 2)]
            tensors = [_sum(pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return _sum(tensors)


def _sum(tensors: Sequence[Tensor]) -> Tensor:
    return apply_op("AddN", tensors)


def _concatenate(slices: Sequence[IndexedSlices]) -> IndexedSlices:
    """The concatenation of all slices: consumers of IndexedSlices add repeated rows."""
    indices = [part.indices for part in slices]
    if len({part.dtype.base_dtype for part in indices}) > 1:
        indices = [apply_op("Cast", part, DstT=dtypes.int64) for part in indices]
    return IndexedSlices(
        apply_op("ConcatV2", [part.values for part in slices], 0),
        apply_op("ConcatV2", indices, 0),
        slices[0].dense_shape,
    )
