"""Queues that tasks fill with rows of arrays, batch by batch.

Each task of a FeedingQueueRunner has a function that returns the feeds of its next enqueue. At the end of its input the
function raises OutOfRangeError, and the queue is closed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final

import numpy as np

from aioexec import dtypes
from aioexec.errors import CancelledError, OutOfRangeError
from aioexec.graph.graph import get_default_graph
from aioexec.ops.array.identity import placeholder
from aioexec.ops.containers.queue_class import FIFOQueue, QueueBase, RandomShuffleQueue
from aioexec.ops.io.summary_functions import scalar
from aioexec.ops.math.cast import cast
from aioexec.ops.math.extremes import maximum
from aioexec.sessions.session import Session
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.input.queue_runner import QueueRunner, add_queue_runner

logger = logging.getLogger(__name__)

Feeds = dict[Any, Any]

_IN_A_ROW: Final = 8
"""The enqueues of a task between two yields to the loop: an enqueue that finds room does not suspend."""


class FeedingQueueRunner(QueueRunner):
    """A QueueRunner whose enqueue operations are fed.

    Args:
        feed_fns: for each enqueue operation a function that returns its next feeds.
    """

    def __init__(
        self, queue: QueueBase, enqueue_ops: Sequence[Any], feed_fns: Sequence[Callable[[], Feeds]]
    ) -> None:
        super().__init__(queue, enqueue_ops, queue_closed_exception_types=(OutOfRangeError, CancelledError))
        self._feeds = dict(zip(enqueue_ops, feed_fns, strict=True))

    async def _enqueue(self, sess: Session, enqueue_op: Any, coord: Coordinator | None) -> bool:
        next_feeds = self._feeds[enqueue_op]
        for number in count(1):
            if coord is not None and coord.should_stop():
                break
            try:
                await sess.run(enqueue_op, next_feeds())
            except self.queue_closed_exception_types:
                return True
            if number % _IN_A_ROW == 0:
                await asyncio.sleep(0)
        return False

    def to_proto(self, export_scope: str | None = None) -> None:
        """None: a QueueRunnerDef cannot hold functions, so exported graphs have no such runner."""
        return


class RowFeeds:
    """The feeds of consecutive batches of rows: their numbers, and their values of each array.

    A batch that reaches the last row continues with the first one. The last batch ends with the last row of the last epoch.

    Args:
        placeholders: for the numbers, then for each array.
        arrays: of equal length, at least 1.
        batch_size: the rows of a batch.
        first: the row to start with.
        num_epochs: the number of passes; None: no end.

    Raises:
        OutOfRangeError: by a call after the last epoch.

    State: `_next` is the number of rows that were returned; the next row is `(_first + _next) % length`.
    """

    def __init__(
        self,
        placeholders: Sequence[Any],
        arrays: Sequence[Any],
        batch_size: int,
        first: int,
        num_epochs: int | None,
    ) -> None:
        self._placeholders = placeholders
        self._arrays = arrays
        self._batch_size = batch_size
        self._first = first
        self._length = len(arrays[0])
        self._total = None if num_epochs is None else num_epochs * self._length
        self._next = 0

    def __call__(self) -> Feeds:
        end = self._next + self._batch_size
        if self._total is not None:
            if self._next >= self._total:
                raise OutOfRangeError(f"Already emitted {self._total // self._length} epochs.")
            end = min(end, self._total)
        rows = (self._first + np.arange(self._next, end)) % self._length
        self._next = end
        values = [rows, *(array[rows] for array in self._arrays)]
        return dict(zip(self._placeholders, values, strict=True))


def enqueue_rows(
    arrays: Mapping[str, np.ndarray[Any, Any]],
    capacity: int,
    shuffle: bool,
    num_threads: int,
    enqueue_size: int,
    num_epochs: int | None,
    min_after_dequeue: int | None = None,
    seed: int | None = None,
    index: np.ndarray[Any, Any] | None = None,
    name: str = "enqueue_input",
) -> QueueBase:
    """Return a queue of rows, which a QueueRunner in the graph's collection fills.

    Args:
        arrays: of equal length; the components of the queue are the number of the row and an element of each.
        shuffle: take rows in random order, and start with a random row.
        num_threads: the tasks that enqueue, each all the epochs.
        enqueue_size: the rows of one enqueue.
        num_epochs: the passes over the rows, None: no end.
        min_after_dequeue: of a queue that shuffles; by default a quarter of its capacity.
        index: the numbers of the rows, by default 0, 1, ….
    """
    _warn_of_order(shuffle, num_threads, num_epochs)
    columns = list(arrays.values())
    numbers = np.arange(len(columns[0])) if index is None else index
    with get_default_graph().name_scope(name):
        kinds = [dtypes.as_dtype(column.dtype) for column in (numbers, *columns)]
        shapes = [(), *(column.shape[1:] for column in columns)]
        least = (capacity // 4 if min_after_dequeue is None else min_after_dequeue) if shuffle else 0
        queue: QueueBase = (
            RandomShuffleQueue(capacity, least, kinds, shapes, seed=seed)
            if shuffle
            else FIFOQueue(capacity, kinds, shapes)
        )
        enqueues, feeds = [], []
        for thread in range(num_threads):
            fed = [placeholder(kind) for kind in kinds]
            enqueues.append(queue.enqueue_many(fed))
            of_thread = random.Random(None if seed is None else (thread + 1) * seed)
            first = of_thread.randrange(len(numbers)) if shuffle else 0
            feeds.append(RowFeeds(fed, columns, enqueue_size, first, num_epochs))
        add_queue_runner(FeedingQueueRunner(queue, enqueues, feeds))
        _summarize_fullness(queue, capacity, least)
    return queue


def _summarize_fullness(queue: QueueBase, capacity: int, least: int) -> None:
    """Add a summary of the share of the capacity in use, beyond the rows that must stay."""
    full = cast(maximum(0, queue.size() - least), dtypes.float32) * (1.0 / (capacity - least))
    scalar(f"queue/{queue.name}fraction_over_{least}_of_{capacity - least}_full", full)


def _warn_of_order(shuffle: bool, num_threads: int, num_epochs: int | None) -> None:
    if num_threads > 1 and num_epochs is not None:
        logger.warning(
            "enqueue_data was called with num_epochs and num_threads > 1. num_epochs is applied per thread, so this will "
            "produce more epochs than you probably intend. If you want to limit epochs, use one thread."
        )
    if num_threads > 1 and not shuffle:
        logger.warning(
            "enqueue_data was called with shuffle=False and num_threads > 1. This will create multiple threads, all reading "
            "the array/dataframe in order. If you want examples read in order, use one thread; if you want multiple "
            "threads, enable shuffling."
        )
