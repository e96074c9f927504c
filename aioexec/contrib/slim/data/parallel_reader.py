"""Several readers that put their records into one queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aioexec import dtypes as dt
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.files.operations import glob
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.containers.queue_class import FIFOQueue, QueueBase, RandomShuffleQueue
from aioexec.ops.math.arithmetic import add_n
from aioexec.train.input.input_producers import string_input_producer
from aioexec.train.input.queue_runner import QueueRunner, add_queue_runner
from aioexec.train.input.queue_summaries import summarize_share


class ParallelReader:
    """Reads files with several readers at once; the order of records of different files is not determined.

    Args:
        reader_class: the class of the readers, called with `reader_kwargs`.
        common_queue: a queue of two strings, key and value, for the records.

    Raises:
        GraphTypeError: the queue is for something else.
    """

    def __init__(
        self,
        reader_class: Any,
        common_queue: QueueBase,
        num_readers: int = 4,
        reader_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if [dtype.base_dtype for dtype in common_queue.dtypes] != [dt.string, dt.string]:
            raise GraphTypeError("common_queue.dtypes must be [tf.string, tf.string]")
        self._readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        self._common_queue = common_queue

    @property
    def num_readers(self) -> int:
        return len(self._readers)

    @property
    def common_queue(self) -> QueueBase:
        return self._common_queue

    def read(self, queue: Any, name: str | None = None) -> Any:
        """Return key and value of the next record of the files whose names are in a queue; a queue runner is added."""
        enqueues = [self._common_queue.enqueue(list(reader.read(queue))) for reader in self._readers]
        add_queue_runner(QueueRunner(self._common_queue, enqueues))
        return self._common_queue.dequeue(name=name)

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return the number of records that all readers have read."""
        return add_n([reader.num_records_produced() for reader in self._readers], name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return the number of files that all readers have finished."""
        return add_n([reader.num_work_units_completed() for reader in self._readers], name=name)


def parallel_read(
    data_sources: Any,
    reader_class: Any,
    num_epochs: int | None = None,
    num_readers: int = 4,
    reader_kwargs: Mapping[str, Any] | None = None,
    shuffle: bool = True,
    dtypes: Sequence[Any] | None = None,
    capacity: int = 256,
    min_after_dequeue: int = 128,
    seed: int | None = None,
    scope: str | None = None,
) -> Any:
    """Return key and value of the next record of files, read by several readers. Blocks while it looks for files.

    Args:
        data_sources: a file, a pattern, or a list of them.
        num_epochs: how often each file is read; None for no end.
        shuffle: whether files and records are shuffled.
        dtypes: of the parts of a record, by default strings.
        min_after_dequeue: the number of records that stay in the queue, which determines how well they are shuffled.

    Raises:
        GraphValueError: there are no files.
    """
    files = get_data_files(data_sources)
    with name_scope(scope, "parallel_read"):
        names = string_input_producer(
            files, num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames"
        )
        kinds = list(dtypes or [dt.string, dt.string])
        queue: QueueBase
        if shuffle:
            queue = RandomShuffleQueue(
                capacity, min_after_dequeue, dtypes=kinds, seed=seed, name="common_queue"
            )
        else:
            queue = FIFOQueue(capacity, dtypes=kinds, name="common_queue")
        summarize_share(f"fraction_of_{capacity}_full", queue.size(), capacity)
        reader = ParallelReader(reader_class, queue, num_readers, reader_kwargs)
        return reader.read(names, name=scope)


def single_pass_read(
    data_sources: Any,
    reader_class: Any,
    reader_kwargs: Mapping[str, Any] | None = None,
    scope: str | None = None,
) -> Any:
    """Return key and value of the next record of files, which are read once, in order; see `parallel_read`."""
    files = get_data_files(data_sources)
    with name_scope(scope, "single_pass_read"):
        names = string_input_producer(files, num_epochs=1, shuffle=False, capacity=1, name="filenames")
        return reader_class(**(reader_kwargs or {})).read(names, name=scope)


def get_data_files(data_sources: Any) -> list[str]:
    """Return the files of a name, a pattern, or a list of them. Blocks.

    Raises:
        GraphValueError: there are none.
    """
    if isinstance(data_sources, list | tuple):
        files = [name for source in data_sources for name in get_data_files(source)]
    elif any(sign in data_sources for sign in "*?["):
        files = glob(data_sources)
    else:
        files = [data_sources]
    if not files:
        raise GraphValueError(f"No data files found in {data_sources}")
    return files
