"""SparseTensorsMap ops: store sparse tensors under integer handles, which queues (of dense elements) can hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioexec import shapes
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.common.copies import copied
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.sparse.protos import Parts, check_batch, check_parts, joined, split_batch
from aioexec.resources.manager import place_of
from aioexec.resources.sparse_tensors_map import SparseTensorsMap
from aioexec.shapes import Dims

Held = tuple[DType, Parts]

_MOST_ADDED: Final = 1 << 24


def _map_of(context: KernelContext) -> Callable[[], SparseTensorsMap[Held]]:
    """Return the map named by a node's attributes, or by default by its own name, creating it if necessary."""
    place = place_of(context.attrs, context.node_name, shared_by_node_name=True)
    return lambda: context.resources.lookup_or_create(
        SparseTensorsMap, place.container, place.name, lambda: SparseTensorsMap(place.name)
    )


def _kept(parts: Parts, dtype: DType) -> Held:
    return dtype, Parts(*copied(parts))


def _add_kernel(context: KernelContext) -> Compute:
    find, dtype = _map_of(context), context.attrs["T"]

    def compute(indices: Array, values: Array, shape: Array) -> Array:
        check_parts(indices, values, shape)
        if indices.shape != (values.size, shape.size):
            raise InvalidArgumentError(
                f"Number of values must match first dimension of indices, and number of dimensions the second. Got "
                f"{values.size} values and {shape.size} dimensions, indices shape: {shown(indices.shape)}"
            )
        return np.array(find().add(_kept(Parts(indices, values, shape), dtype)), np.int64)

    return compute


def _add_many_kernel(context: KernelContext) -> Compute:
    find, dtype = _map_of(context), context.attrs["T"]

    def compute(indices: Array, values: Array, shape: Array) -> Array:
        check_parts(indices, values, shape)
        check_batch(indices, values, shape)
        count = int(shape[0])
        if count > _MOST_ADDED:
            raise ResourceExhaustedError(f"{count} sparse tensors are too many to store at once")
        empty, tensors = split_batch(Parts(indices, values, shape))
        held, without = find(), _kept(empty, dtype)
        numbers = np.full(count, -1, np.int64)
        for place, parts in tensors:
            numbers[place] = held.add(_kept(parts, dtype))
        rest = numbers < 0  # empty ones follow the others, as in TensorFlow
        numbers[rest] = [held.add(without) for _ in range(int(rest.sum()))]
        return numbers

    return compute


def _take_many_kernel(context: KernelContext) -> Compute:
    find, dtype = _map_of(context), context.attrs["dtype"]

    def compute(handles: Array) -> Parts:
        if handles.ndim != 1:
            raise InvalidArgumentError(
                f"sparse_handles should be a vector, got shape: {shown(handles.shape)}"
            )
        if not handles.size:
            raise InvalidArgumentError(
                "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows"
            )
        held = find()
        taken = [held.take(number) for number in handles.tolist()]
        for place, (kept, _) in enumerate(taken):
            if kept != dtype:
                raise InvalidArgumentError(
                    f"Requested SparseTensor of type {dtype.name} but SparseTensor[{place}].values.dtype() == {kept.name}"
                )
        return joined([parts for _, parts in taken], (len(taken),))

    return compute


def _added_shape(rank: int) -> Callable[[ShapeContext], Sequence[Dims]]:
    def shape(context: ShapeContext) -> Sequence[Dims]:
        for dims, expected in zip(context.inputs, (2, 1, 1), strict=True):
            shapes.with_rank(dims, expected)
        return [(None,) * rank]

    return shape


def _taken_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 1)
    return [(None, None), (None,), (None,)]


_INPUTS: Final = "(sparse_indices:int64, sparse_values:T, sparse_shape:int64)"
_PLACE: Final = "container:string=''; shared_name:string=''] {stateful}"

register(
    f"AddSparseToTensorsMap{_INPUTS} -> (sparse_handle:int64) [T:type; {_PLACE}",
    shape=_added_shape(0),
    kernel=_add_kernel,
    gradient=NOT_DIFFERENTIABLE,
)
register(
    f"AddManySparseToTensorsMap{_INPUTS} -> (sparse_handles:int64) [T:type; {_PLACE}",
    shape=_added_shape(1),
    kernel=_add_many_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)
register(
    "TakeManySparseFromTensorsMap(sparse_handles:int64) -> "
    f"(sparse_indices:int64, sparse_values:dtype, sparse_shape:int64) [dtype:type; {_PLACE}",
    shape=_taken_shape,
    kernel=_take_many_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)


def add_sparse_to_tensors_map(
    sp_input: SparseTensor,
    container: str | None = None,
    shared_name: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Store a sparse tensor; return its handle."""
    return _added("AddSparseToTensorsMap", sp_input, container, shared_name, name)


def add_many_sparse_to_tensors_map(
    sp_input: SparseTensor,
    container: str | None = None,
    shared_name: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Store each element along the first dimension of a sparse tensor; return their handles."""
    return _added("AddManySparseToTensorsMap", sp_input, container, shared_name, name)


def _added(
    op_type: str, sparse: SparseTensor, container: str | None, shared_name: str | None, name: str | None
) -> Tensor:
    parts = (sparse.indices, sparse.values, sparse.dense_shape)
    return apply_op(op_type, *parts, name=name, container=container, shared_name=shared_name)


def take_many_sparse_from_tensors_map(
    sparse_map_op: Operation, sparse_handles: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Take sparse tensors out, joined along a new first dimension.

    Args:
        sparse_map_op: an operation that stores into the map.
        rank: rank of the result, if known.
    """
    attrs = sparse_map_op.attrs
    with sparse_map_op.graph.colocate_with(sparse_map_op):
        indices, values, shape = apply_tuple_op(
            "TakeManySparseFromTensorsMap",
            sparse_handles,
            name=name,
            dtype=attrs["T"],
            container=attrs["container"],
            shared_name=attrs["shared_name"] or sparse_map_op.name,
        )
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)
