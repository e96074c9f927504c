"""The second stage of an input pipeline: examples are enqueued one by one, and dequeued in batches.

All eight functions share one implementation with three options: whether one list of tensors is enqueued by several tasks or
each of several lists by one (`join`), whether the queue shuffles (`shuffle`), and whether examples may be left out (`maybe`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import graph_of
from aioexec.graph.convert import convert_to_tensor, convert_to_tensor_or_indexed_slices
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.partitioning import dynamic_partition
from aioexec.ops.containers.queue_class import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from aioexec.ops.control_flow.dependencies import no_op
from aioexec.ops.control_flow.smart_cond import smart_cond
from aioexec.ops.math.cast import cast
from aioexec.ops.math.extremes import maximum
from aioexec.train.input.queue_runner import QueueRunner, add_queue_runner
from aioexec.train.input.queue_summaries import summarize_share
from aioexec.train.input.sparse_batching import restore, store


@dataclass(frozen=True, slots=True)
class _Stage:
    """The arguments of a batching function, besides its tensors.

    Attributes:
        default_name: of its scope.
        queue: from dtypes and shapes, one for each component, to the queue.
        capacity: of the queue.
        at_least: the number of elements that the queue retains; None if it does not shuffle.
    """

    default_name: str
    queue: Callable[..., QueueBase]
    capacity: int
    at_least: int | None
    keep_input: Any
    batch_size: Any
    enqueue_many: bool
    shapes: Sequence[Any] | None
    allow_smaller_final_batch: bool
    name: str | None


def _batch(tensors_list: Sequence[Any], num_threads: int, stage: _Stage) -> Any:
    """Batches of examples, in the structure of the first one: a list (of a single tensor, that tensor), or a dict."""
    lists = _lists_of(tensors_list)
    symbolic = [*(tensor for each in lists for tensor in each), stage.keep_input]
    with (
        graph_of(symbolic).as_default() as graph,
        graph.name_scope(stage.name or stage.default_name) as scope,
    ):
        _check_mixing(stage)
        tensors = [[_convert(tensor) for tensor in each] for each in lists]
        if not tensors[0]:
            raise GraphValueError("Expected at least one tensor in batch().")
        keep_input = _check_keep_input(stage.keep_input, stage.enqueue_many)
        columns, storage = store(tensors, stage.enqueue_many, keep_input)
        types = _common_types(columns)
        shapes = _common_shapes(columns, stage.enqueue_many) if stage.shapes is None else stage.shapes
        queue = stage.queue(stage.capacity, dtypes=types, shapes=shapes)
        enqueues = [_enqueue(queue, each, keep_input, stage.enqueue_many) for each in columns]
        add_queue_runner(QueueRunner(queue, enqueues * num_threads))
        _summarize(queue, stage)
        dequeue = queue.dequeue_up_to if stage.allow_smaller_final_batch else queue.dequeue_many
        return _in_structure_of(tensors_list[0], restore(dequeue(stage.batch_size, name=scope), storage))


# Examples


def _lists_of(tensors_list: Sequence[Any]) -> list[Sequence[Any]]:
    """The tensors of each example; those of a dict in the order of its keys."""
    if not tensors_list:
        raise GraphValueError("Expected at least one set of tensors")
    if not isinstance(tensors_list[0], Mapping):
        return [list(each) for each in tensors_list]
    keys = sorted(tensors_list[0], key=str)
    if any(set(each) != set(keys) for each in tensors_list):
        raise GraphValueError("All dictionaries in tensors_list must have the same keys")
    return [[each[key] for key in keys] for each in tensors_list]


def _in_structure_of(example: Any, batch: Any) -> Any:
    if not isinstance(example, Mapping):
        return batch
    values = [batch] if len(example) == 1 else batch
    return dict(zip(sorted(example, key=str), values, strict=True))


def _convert(tensor: Any) -> Any:
    return tensor if isinstance(tensor, SparseTensor) else convert_to_tensor_or_indexed_slices(tensor)


def _common_types(lists: Sequence[Sequence[Tensor]]) -> list[dtypes.DType]:
    types = [tensor.dtype for tensor in lists[0]]
    for other in lists[1:]:
        others = [tensor.dtype for tensor in other]
        if others != types:
            raise GraphTypeError(
                f"Expected types to be consistent: {', '.join(each.name for each in types)} vs. "
                f"{', '.join(each.name for each in others)}."
            )
    return types


def _common_shapes(lists: Sequence[Sequence[Tensor]], enqueue_many: bool) -> list[Any]:
    """The shapes of the first example; those of the others must fit."""
    for tensor in (tensor for each in lists for tensor in each):
        if tensor.shape.ndims is None:
            raise GraphValueError(f"Cannot infer Tensor's rank: {tensor}")
    shapes = [[_of_one(tensor, enqueue_many) for tensor in each] for each in lists]
    for others in shapes[1:]:
        for first, other in zip(shapes[0], others, strict=True):
            first.assert_is_compatible_with(other)
    return [first.as_list() for first in shapes[0]]


def _of_one(tensor: Tensor, enqueue_many: bool) -> Any:
    return tensor.shape.with_rank_at_least(1)[1:] if enqueue_many else tensor.shape


# The queue


def _check_mixing(stage: _Stage) -> None:
    if stage.at_least is not None and stage.capacity <= stage.at_least:
        raise GraphValueError(
            f"capacity {stage.capacity} must be bigger than min_after_dequeue {stage.at_least}."
        )


def _check_keep_input(keep_input: Any, enqueue_many: bool) -> Tensor:
    keep = convert_to_tensor(keep_input)
    rank = keep.shape.ndims
    if rank is None:
        raise GraphValueError("`keep_input` dimensions must be known at graph construction.")
    if not enqueue_many and rank == 1:
        raise GraphValueError("`keep_input` cannot be a vector when `enqueue_many=False`.")
    if rank > 1:
        raise GraphValueError("`keep_input` must be 0 or 1 dimensions.")
    return keep


def _enqueue(queue: QueueBase, tensors: list[Tensor], keep_input: Tensor, enqueue_many: bool) -> Any:
    """The operation that enqueues an example, or with `enqueue_many` several, filtered by `keep_input`."""
    enqueue = queue.enqueue_many if enqueue_many else queue.enqueue
    if keep_input.shape.ndims == 1:
        part = cast(keep_input, dtypes.int32)
        return enqueue([dynamic_partition(tensor, part, num_partitions=2)[1] for tensor in tensors])
    return smart_cond(keep_input, lambda: enqueue(tensors), no_op)


def _summarize(queue: QueueBase, stage: _Stage) -> None:
    if stage.at_least is None:
        summarize_share(f"fraction_of_{stage.capacity}_full", queue.size(), stage.capacity)
        return
    room = stage.capacity - stage.at_least
    name = f"fraction_over_{stage.at_least}_of_{room}_full"
    summarize_share(name, maximum(0, queue.size() - stage.at_least), room)


# The kinds of queues


def _fifo_queue(dynamic_pad: bool, shared_name: str | None) -> Callable[..., QueueBase]:
    return partial(PaddingFIFOQueue if dynamic_pad else FIFOQueue, shared_name=shared_name)


def _shuffling_queue(at_least: int, seed: int | None, shared_name: str | None) -> Callable[..., QueueBase]:
    return partial(RandomShuffleQueue, min_after_dequeue=at_least, seed=seed, shared_name=shared_name)


# The public functions


def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of examples.

    Args:
        tensors: an example: a list of tensors, which may be sparse, or a dict of them.
        num_threads: the number of tasks that compute and enqueue examples.
        capacity: of the queue, in examples.
        enqueue_many: `tensors` are several examples, along their first dimension.
        shapes: of the tensors of an example, if they are not known statically.
        dynamic_pad: examples may differ in dimensions that are None, and are padded to the largest of the batch.
        allow_smaller_final_batch: the remaining examples at the end form a smaller batch.
        shared_name: the name under which sessions share the queue.

    Returns:
        Batches in the structure of `tensors`; a single tensor for a list of one.

    Raises:
        GraphValueError: there are no tensors, or their shapes are not known well enough.
    """
    queue, final = _fifo_queue(dynamic_pad, shared_name), allow_smaller_final_batch
    stage = _Stage("batch", queue, capacity, None, True, batch_size, enqueue_many, shapes, final, name)
    return _batch([tensors], num_threads, stage)


def maybe_batch(
    tensors: Any,
    keep_input: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`batch` of the examples for which `keep_input` is true: a boolean, or with `enqueue_many` a vector of them."""
    queue, final = _fifo_queue(dynamic_pad, shared_name), allow_smaller_final_batch
    stage = _Stage("batch", queue, capacity, None, keep_input, batch_size, enqueue_many, shapes, final, name)
    return _batch([tensors], num_threads, stage)


def batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`batch` of several examples, each computed and enqueued by a task of its own.

    Args:
        tensors_list: the examples, with equal numbers and dtypes of tensors.

    Raises:
        GraphTypeError: their dtypes differ.
    """
    queue, final = _fifo_queue(dynamic_pad, shared_name), allow_smaller_final_batch
    stage = _Stage("batch_join", queue, capacity, None, True, batch_size, enqueue_many, shapes, final, name)
    return _batch(tensors_list, 1, stage)


def maybe_batch_join(
    tensors_list: Sequence[Any],
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`batch_join` of the examples for which `keep_input` is true."""
    queue, final = _fifo_queue(dynamic_pad, shared_name), allow_smaller_final_batch
    stage = _Stage(
        "batch_join", queue, capacity, None, keep_input, batch_size, enqueue_many, shapes, final, name
    )
    return _batch(tensors_list, 1, stage)


def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`batch` of examples in random order.

    Args:
        min_after_dequeue: the number of examples that stay in the queue, which determines how well they are shuffled.
        seed: of the order, with the seed of the graph.

    Raises:
        GraphValueError: the capacity is not larger than `min_after_dequeue`.
    """
    least, final = min_after_dequeue, allow_smaller_final_batch
    queue = _shuffling_queue(least, seed, shared_name)
    stage = _Stage(
        "shuffle_batch", queue, capacity, least, True, batch_size, enqueue_many, shapes, final, name
    )
    return _batch([tensors], num_threads, stage)


def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`shuffle_batch` of the examples for which `keep_input` is true."""
    least, final = min_after_dequeue, allow_smaller_final_batch
    queue = _shuffling_queue(least, seed, shared_name)
    stage = _Stage(
        "shuffle_batch", queue, capacity, least, keep_input, batch_size, enqueue_many, shapes, final, name
    )
    return _batch([tensors], num_threads, stage)


def shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`shuffle_batch` of several examples, each computed and enqueued by a task of its own."""
    least, final = min_after_dequeue, allow_smaller_final_batch
    queue = _shuffling_queue(least, seed, shared_name)
    stage = _Stage(
        "shuffle_batch_join", queue, capacity, least, True, batch_size, enqueue_many, shapes, final, name
    )
    return _batch(tensors_list, 1, stage)


def maybe_shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """`shuffle_batch_join` of the examples for which `keep_input` is true."""
    least, final = min_after_dequeue, allow_smaller_final_batch
    queue = _shuffling_queue(least, seed, shared_name)
    stage = _Stage(
        "shuffle_batch_join",
        queue,
        capacity,
        least,
        keep_input,
        batch_size,
        enqueue_many,
        shapes,
        final,
        name,
    )
    return _batch(tensors_list, 1, stage)
