"""Batching of sparse tensors: they are stored in a map, and the queue takes their keys, as vectors of one element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.arrays import expand_dims, squeeze
from aioexec.ops.array.filling import ones
from aioexec.ops.array.gathering import gather
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.control_flow.smart_cond import smart_cond
from aioexec.ops.sparse.functions import sparse_retain
from aioexec.ops.sparse.tensors_maps import (
    add_many_sparse_to_tensors_map,
    add_sparse_to_tensors_map,
    take_many_sparse_from_tensors_map,
)

_ADDERS: Final = ("AddSparseToTensorsMap", "AddManySparseToTensorsMap")


@dataclass(frozen=True, slots=True)
class Stored:
    """A sparse component: the operation that adds to its map, and the rank of one example, if it is known."""

    map_op: Operation
    rank: int | None

    def fits(self, other: Stored | None) -> bool:
        return (
            other is not None
            and self.map_op is other.map_op
            and (self.rank is None or other.rank is None or self.rank == other.rank)
        )


Storage = list[Stored | None]
"""For each component of an example its `Stored`; None for a dense one."""


def store(
    tensors_list: Sequence[Sequence[Any]], enqueue_many: bool, keep_input: Tensor
) -> tuple[list[list[Tensor]], Storage]:
    """Store the sparse components of examples; returns the tensors to enqueue instead, and what `restore` needs.

    All examples store a component in the same map.

    Raises:
        GraphValueError: a component is sparse in one example and not in another, or of another rank.
    """
    stored: list[list[Tensor]] = []
    storage: Storage = [None] * len(tensors_list[0])
    for place, tensors in enumerate(tensors_list):
        columns, found = _store_one(tensors, enqueue_many, keep_input, storage)
        if place and not all(_fit(a, b) for a, b in zip(storage, found, strict=False)):
            raise GraphValueError(f"Inconsistent SparseTensors list: {tensors_list[0]} vs. {tensors}")
        stored.append(columns)
        storage = found if not place else storage
    return stored, storage


def _fit(one: Stored | None, other: Stored | None) -> bool:
    return other is None if one is None else one.fits(other)


def _store_one(
    tensors: Sequence[Any], enqueue_many: bool, keep_input: Tensor, shared: Storage
) -> tuple[list[Tensor], Storage]:
    shared = [*shared, *[None] * (len(tensors) - len(shared))]
    numbers = [
        _stored_key(tensor, enqueue_many, keep_input, None if known is None else known.map_op.name)
        if isinstance(tensor, SparseTensor)
        else None
        for tensor, known in zip(tensors, shared, strict=False)
    ]
    storage: Storage = [
        None
        if number is None
        else Stored(
            _find_adding_op(number) if known is None else known.map_op, _rank_of(tensor, enqueue_many)
        )
        for tensor, number, known in zip(tensors, numbers, shared, strict=False)
    ]
    columns = [
        tensor if number is None else expand_dims(number, [-1])
        for tensor, number in zip(tensors, numbers, strict=True)
    ]
    return columns, storage


def _stored_key(sparse: SparseTensor, enqueue_many: bool, keep_input: Tensor, map_name: str | None) -> Tensor:
    """The key of a sparse tensor, or those of several; -1 for an example that is not kept."""
    if keep_input.shape.ndims == 1:
        kept = sparse_retain(sparse, gather(keep_input, sparse.indices[:, 0]))
        return add_many_sparse_to_tensors_map(kept, shared_name=map_name)
    number: Tensor
    if not enqueue_many:
        number = smart_cond(
            keep_input,
            lambda: add_sparse_to_tensors_map(sparse, shared_name=map_name),
            lambda: convert_to_tensor(-1, dtypes.int64),
        )
        return number
    number = smart_cond(
        keep_input,
        lambda: add_many_sparse_to_tensors_map(sparse, shared_name=map_name),
        lambda: -1 * ones(shape(sparse)[0:1], dtypes.int64),
    )
    number.set_shape([None])
    return number


def _find_adding_op(number: Tensor) -> Operation:
    """The op that adds to the map, which may be in a branch of a conditional."""
    candidates = [number.op, *(tensor.op for tensor in number.op.inputs)]
    return next(op for op in candidates if op.type in _ADDERS)


def _rank_of(sparse: SparseTensor, enqueue_many: bool) -> int | None:
    rank: int | None = sparse.dense_shape.shape.with_rank(1).as_list()[0]
    return rank - 1 if rank is not None and enqueue_many else rank


def restore(dequeued: Any, storage: Storage) -> Any:
    """The dequeued tensors, with sparse components taken from their maps.

    Outputs wait until all are taken: each dequeue thus removes its examples from all maps.
    """
    if not any(storage):
        return dequeued
    columns = dequeued if isinstance(dequeued, list) else [dequeued]
    found = [
        column if stored is None else _take(column, stored)
        for column, stored in zip(columns, storage, strict=True)
    ]
    waited_for = [each.values if isinstance(each, SparseTensor) else each for each in found]

    def late(tensor: Tensor) -> Any:
        return with_dependencies(waited_for, tensor)

    def each_late(each: Any) -> Any:
        if not isinstance(each, SparseTensor):
            return late(each)
        return SparseTensor(late(each.indices), late(each.values), late(each.dense_shape))

    restored = [each_late(each) for each in found]
    return restored if isinstance(dequeued, list) else restored[0]


def _take(column: Tensor, stored: Stored) -> SparseTensor:
    rank = None if stored.rank is None else stored.rank + 1
    return take_many_sparse_from_tensors_map(stored.map_op, squeeze(column, [1]), rank)
