"""Batches of similar examples: each bucket has a queue, from which whole batches go to the queue that a program reads."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import CancelledError, GraphTypeError, GraphValueError, OutOfRangeError
from aioexec.graph.convert import constant, convert_to_tensor, convert_to_tensor_or_indexed_slices
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.containers.queue_class import FIFOQueue, PaddingFIFOQueue
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.dependencies import group, no_op
from aioexec.ops.control_flow.smart_cond import smart_cond
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal, less, less_equal, logical_and, where
from aioexec.ops.reduction.reductions import reduce_min
from aioexec.train.input.queue_runner import QueueRunner, add_queue_runner
from aioexec.train.input.queue_summaries import summarize_share
from aioexec.train.input.sparse_batching import restore, store

_ENDS = (OutOfRangeError, CancelledError)
"""The errors by which a queue runner ends without failing."""


def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Tensor, Any]:
    """Batch examples by bucket; queue runners are added to the graph.

    Args:
        tensors: an example: a list of tensors, which may be sparse, or a dict of them.
        which_bucket: an int32 scalar, the bucket of the example.
        batch_size: of all buckets, or a list of one for each.
        num_threads: the number of tasks that compute and enqueue examples.
        capacity: of the queue of batches, in batches, and by default of each bucket, in examples.
        shapes: of the tensors of an example, if they are not known statically.
        dynamic_pad: examples may differ in dimensions that are None, and are padded to the largest of the batch.
        allow_smaller_final_batch: the remaining examples of a bucket form a smaller batch at the end.
        keep_input: a boolean scalar: whether the example is enqueued.
        shared_name: the name under which sessions share the queues.

    Returns:
        The bucket of a batch, and the batch in the structure of `tensors`.

    Raises:
        GraphValueError: there are no tensors, or the number of sizes or capacities is wrong.
    """
    sizes = _for_each(batch_size, num_buckets, "batch_size")
    capacities = _for_each(bucket_capacities or capacity, num_buckets, "bucket_capacities")
    example = _listed(tensors)
    if not example:
        raise GraphValueError("Expected at least one tensor in bucket().")
    with name_scope(name, "bucket", [each for each in example if isinstance(each, Tensor)]):
        keep = convert_to_tensor(keep_input)
        (columns,), storage = store([_converted(example)], False, keep)
        inner = [column.shape.as_list() for column in columns] if shapes is None else shapes
        types = [column.dtype.base_dtype for column in columns]
        make = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queues = [
            make(
                capacities[number],
                dtypes=types,
                shapes=inner,
                shared_name=None if shared_name is None else f"{shared_name}_{number}",
                name=f"bucket_queue_{number}",
            )
            for number in range(num_buckets)
        ]
        known = None if allow_smaller_final_batch or isinstance(batch_size, list | tuple) else batch_size
        size = constant_value(known) if isinstance(known, Tensor) else known
        top = PaddingFIFOQueue(
            capacity,
            dtypes=[dtypes.int32, *types],
            shapes=[[], *([None if size is None else int(size), *each] for each in inner)],
            shared_name=shared_name,
            name="top_queue",
        )
        place = convert_to_tensor(which_bucket, dtypes.int32, name="which_bucket")
        enqueue = smart_cond(keep, functools.partial(_enqueued, queues, place, columns), no_op)
        _add_runners(queues, top, sizes, [enqueue] * num_threads, allow_smaller_final_batch)
        summarize_share(f"fraction_of_{capacity}_full", top.size(), capacity)
        number, *dequeued = top.dequeue(name="dequeue_top")
        batch = restore(dequeued, storage)
        return number, dict(zip(sorted(tensors), batch, strict=True)) if isinstance(
            tensors, Mapping
        ) else batch


def _for_each(given: Any, num_buckets: int, called: str) -> list[Any]:
    if not isinstance(given, list | tuple):
        return [given] * num_buckets
    if len(given) != num_buckets:
        raise GraphValueError(
            f"The list {called} ({given}) must have exactly num_buckets ({num_buckets}) elements."
        )
    return list(given)


def _listed(tensors: Any) -> list[Any]:
    return [tensors[key] for key in sorted(tensors)] if isinstance(tensors, Mapping) else list(tensors)


def _converted(example: Sequence[Any]) -> list[Any]:
    return [
        each if isinstance(each, SparseTensor) else convert_to_tensor_or_indexed_slices(each)
        for each in example
    ]


def _enqueued(queues: Sequence[Any], place: Tensor, columns: list[Tensor]) -> Any:
    """A node that enqueues an example in its bucket."""
    return group(
        *(
            cond(equal(place, number), functools.partial(queue.enqueue, columns), no_op)
            for number, queue in enumerate(queues)
        ),
        name="group_enqueues",
    )


def _add_runners(queues: Sequence[Any], top: Any, sizes: list[Any], enqueues: list[Any], up_to: bool) -> None:
    """Add the runner that fills the buckets and closes them at the end, and the one that moves batches to the top queue.

    TensorFlow closes the top queue at the end of the input, and loses what is in the buckets.
    """
    moves = []
    for number, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
        dequeue = queue.dequeue_up_to if up_to else queue.dequeue_many
        batch = dequeue(size, name=f"read_bucket_{number}")
        columns = batch if isinstance(batch, list | tuple) else [batch]
        moves.append(top.enqueue([constant(number), *columns], name=f"enqueue_from_bucket_{number}"))
    add_queue_runner(QueueRunner(top, moves, queue_closed_exception_types=_ENDS))
    close = group(*(queue.close() for queue in queues))
    cancel = group(*(queue.close(cancel_pending_enqueues=True) for queue in queues))
    add_queue_runner(QueueRunner(queues[0], enqueues, close, cancel, queue_closed_exception_types=_ENDS))


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: Any,
    bucket_boundaries: Sequence[int],
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Tensor, Any]:
    """Batch examples of similar lengths; see `bucket`.

    Args:
        input_length: an int32 scalar.
        bucket_boundaries: increasing lengths; a bucket has the lengths from one boundary up to the next.

    Returns:
        The lengths of a batch [batch_size], and the batch in the structure of `tensors`.

    Raises:
        GraphTypeError: the boundaries are no list of integers.
        GraphValueError: there are none, or they do not increase.
    """
    _check_boundaries(bucket_boundaries)
    example = _listed(tensors)
    with name_scope(name, "bucket_by_sequence_length", [input_length]):
        length = convert_to_tensor(input_length, dtypes.int32, name="input_length")
        range_of = np.iinfo(np.int32)
        least = constant([range_of.min, *bucket_boundaries], dtypes.int32)
        most = constant([*bucket_boundaries, range_of.max], dtypes.int32)
        inside = logical_and(less_equal(least, length), less(length, most))
        _, (lengths, *batch) = bucket(
            [length, *example],
            cast(reduce_min(where(inside)), dtypes.int32),
            batch_size,
            len(bucket_boundaries) + 1,
            num_threads,
            capacity,
            bucket_capacities,
            None if shapes is None else [[], *shapes],
            dynamic_pad,
            allow_smaller_final_batch,
            keep_input,
            shared_name,
        )
        return lengths, dict(zip(sorted(tensors), batch, strict=True)) if isinstance(
            tensors, Mapping
        ) else batch


def _check_boundaries(boundaries: Any) -> None:
    if not isinstance(boundaries, list | tuple):
        raise GraphTypeError(f"bucket_boundaries must be a list or tuple, but received: {boundaries}")
    if not boundaries:
        raise GraphValueError("bucket_boundaries must not be empty")
    if not all(isinstance(each, int) for each in boundaries):
        raise GraphTypeError(f"bucket boundaries must be integers, but saw: {boundaries}")
    for low, high in itertools.pairwise(boundaries):
        if low >= high:
            raise GraphValueError(
                f"Buckets must contain sequential increasing lengths, but saw: {low} before {high}"
            )
