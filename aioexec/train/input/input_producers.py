"""The first stage of an input pipeline: queues filled with the rows of a tensor, epoch after epoch.

Each producer makes a queue and adds the QueueRunner that fills it to the collection QUEUE_RUNNERS, whose runners
`start_queue_runners` and monitored sessions start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import graph_of
from aioexec.graph.convert import convert_to_tensor, convert_to_tensor_or_indexed_slices
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import range_
from aioexec.ops.array.gathering import gather
from aioexec.ops.array.identity import identity
from aioexec.ops.array.shapes_of import shape, size
from aioexec.ops.containers.queue_class import FIFOQueue, QueueBase
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.io.files import matching_files
from aioexec.ops.math.comparison import greater
from aioexec.ops.random.random_ops import random_shuffle
from aioexec.ops.state.variable import Variable
from aioexec.shapes import TensorShape
from aioexec.train.input.queue_runner import QueueRunner, add_queue_runner
from aioexec.train.input.queue_summaries import summarize_share

_NO_STRINGS = "string_input_producer requires a non-null input tensor"


def match_filenames_once(pattern: Any, name: str | None = None) -> Variable:
    """A local variable initialized with the names of the files that match a pattern, or one of a list of patterns."""
    with graph_of([pattern]).as_default() as graph, graph.name_scope(name or "matching_filenames") as scope:
        return Variable(
            name=scope,
            initial_value=matching_files(pattern),
            trainable=False,
            validate_shape=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """The tensor for `num_epochs` evaluations, then an OutOfRangeError. The local variable `epochs` counts them.

    Raises:
        GraphValueError: `num_epochs` is not positive.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise GraphValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with graph_of([tensor]).as_default() as graph, graph.name_scope(name or "limit_epochs") as scope:
        zero = convert_to_tensor(0, dtypes.int64)
        epochs = Variable(zero, name="epochs", trainable=False, collections=[GraphKeys.LOCAL_VARIABLES])
        counter = epochs.count_up_to(num_epochs)
        with graph.control_dependencies([counter]):
            return identity(tensor, name=scope)


def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """A queue of the rows of a tensor.

    Args:
        element_shape: of a row, if it is not known statically.
        num_epochs: how often each row is enqueued before the queue is closed; without limit by default.
        shuffle: shuffle each epoch anew.
        summary_name: of a summary of the fraction of the queue that is full; no summary by default.
        cancel_op: closes the queue and cancels enqueues.

    Raises:
        GraphValueError: the shape of a row is not known.
    """
    with graph_of([input_tensor]).as_default() as graph, graph.name_scope(name or "input_producer"):
        rows = convert_to_tensor(input_tensor, name="input_tensor")
        row_shape = _row_shape(rows, element_shape)
        if shuffle:
            rows = random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        dtype, queue_name = rows.dtype.base_dtype, name or "FIFOQueueV2"
        queue = FIFOQueue(capacity, [dtype], [row_shape], shared_name=shared_name, name=queue_name)
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        if summary_name is not None:
            summarize_share(summary_name, queue.size(), capacity)
    return queue


def _row_shape(rows: Tensor, element_shape: Any) -> TensorShape:
    row_shape = rows.shape[1:].merge_with(element_shape)
    if not row_shape.is_fully_defined():
        raise GraphValueError(
            "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified"
        )
    return row_shape


def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """A queue of strings, such as file names; the arguments are those of `input_producer`.

    Raises:
        GraphValueError: there are no strings. If that is known only in a step, the step raises InvalidArgumentError.
    """
    if not isinstance(string_tensor, Tensor | Variable) and not len(string_tensor):
        raise GraphValueError(_NO_STRINGS)
    with graph_of([string_tensor]).as_default() as graph, graph.name_scope(name or "input_producer") as scope:
        strings = convert_to_tensor(string_tensor, dtypes.string)
        with graph.control_dependencies([Assert(greater(size(strings), 0), [_NO_STRINGS])]):
            strings = identity(strings)
        return input_producer(
            strings,
            element_shape=[],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
            summary_name=f"fraction_of_{capacity}_full",
            name=scope,
            cancel_op=cancel_op,
        )


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """A queue of the integers from 0 to below `limit`; the other arguments are those of `input_producer`."""
    with graph_of([limit]).as_default() as graph, graph.name_scope(name or "input_producer") as scope:
        return input_producer(
            range_(limit),
            [],
            num_epochs,
            shuffle,
            seed,
            capacity,
            shared_name,
            f"fraction_of_{capacity}_full",
            scope,
        )


def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """The rows of several tensors at an index taken from a queue; the other arguments are those of `input_producer`.

    Raises:
        GraphValueError: there are no tensors.
    """
    if not tensor_list:
        raise GraphValueError("Expected at least one tensor in slice_input_producer().")
    with graph_of([tensor_list]).as_default() as graph, graph.name_scope(name or "input_producer"):
        tensors = [convert_to_tensor_or_indexed_slices(each) for each in tensor_list]
        queue = range_input_producer(shape(tensors[0])[0], num_epochs, shuffle, seed, capacity, shared_name)
        index = queue.dequeue()
        return [gather(tensor, index) for tensor in tensors]
