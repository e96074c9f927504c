"""Writers of summaries, as resources of a graph: nodes of the graph write to them and flush them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Final

from aioexec.graph.defaults import get_default_session
from aioexec.graph.graph import get_default_graph
from aioexec.observability.summary_writer import FileWriter
from aioexec.ops.control_flow.dependencies import group, no_op
from aioexec.ops.functions.python import py_func

_WRITERS: Final = ("__summary_writers",)
"""The collection with the writers of a graph that have a file."""

_default: ContextVar[SummaryWriter | None] = ContextVar("summary_writer", default=None)


class SummaryWriter:
    """Writes what the summaries made in its block record: `with writer.as_default():`.

    Without a `file_writer` nothing is written. The file is opened by the first summary.
    """

    def __init__(self, file_writer: FileWriter | None) -> None:
        self.file_writer = file_writer

    @contextlib.contextmanager
    def as_default(self) -> Iterator[SummaryWriter]:
        """Make it the writer of the summaries that are made in a block."""
        token = _default.set(self)
        try:
            yield self
        finally:
            _default.reset(token)

    def set_as_default(self) -> None:
        """Make it the writer of the summaries that are made from now on, in the running context."""
        _default.set(self)

    def init(self) -> Any:
        """Return an operation that prepares the writer; there is nothing to do."""
        return no_op()

    def flush(self) -> Any:
        """Return an operation that ends when all summaries recorded before are on the disk."""
        writer = self.file_writer
        if writer is None:
            return no_op()

        async def flush_file() -> None:
            await writer.flush()

        return py_func(flush_file, [], [], name="flush_summary_writer")

    def close(self) -> Any:
        """Return an operation that flushes and closes the file."""
        writer = self.file_writer
        if writer is None:
            return no_op()

        async def close_file() -> None:
            await writer.close()

        return py_func(close_file, [], [], name="close_summary_writer")


def current_writer() -> FileWriter | None:
    """Return the file of the default writer; None if there is none."""
    writer = _default.get()
    return None if writer is None else writer.file_writer


def create_file_writer(
    logdir: str | None,
    max_queue: int | None = None,
    flush_millis: float | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
) -> SummaryWriter:
    """Return a writer of an event file in a directory; None: of nothing.

    Args:
        max_queue: accepted for compatibility and ignored, as by FileWriter.
        flush_millis: the most milliseconds until a summary is synced to the disk; by default two minutes.
        filename_suffix: appended to the file name, by default `.v2`.
        name: accepted for compatibility and ignored: each writer has its own file.
    """
    if logdir is None:
        return SummaryWriter(None)
    seconds = 120 if flush_millis is None else flush_millis / 1000
    suffix = ".v2" if filename_suffix is None else filename_suffix
    writer = SummaryWriter(FileWriter(logdir, flush_secs=seconds, filename_suffix=suffix))
    get_default_graph().get_collection_ref(_WRITERS).append(writer)
    return writer


create_summary_file_writer = create_file_writer


def summary_writer_initializer_op() -> list[Any]:
    """Return the operations that prepare the writers of the default graph."""
    return [writer.init() for writer in get_default_graph().get_collection(_WRITERS)]


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> Any:
    """Return an operation that flushes a writer, by default the default one."""
    writer = _default.get() if writer is None else writer
    return no_op(name=name) if writer is None else group(writer.flush(), name=name)


async def initialize(graph: Any = None, session: Any = None) -> None:
    """Prepare the writers of the default graph, and record a graph by the default writer if one is given.

    Args:
        session: by default the default session.
    """
    session = session or get_default_session()
    await session.run(summary_writer_initializer_op())
    writer = current_writer()
    if graph is not None and writer is not None:
        writer.add_graph(graph)
