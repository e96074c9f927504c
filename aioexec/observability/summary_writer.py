"""FileWriter: writes the events of a program for TensorBoard to a file.

The `add_…` methods encode their arguments and return without waiting; they need no event loop. `flush` and `close` are
coroutines. The first event creates the file: the constructor touches neither the disk nor the loop.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Set
from functools import cache, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

import numpy as np

from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.formats.event_files import EventFile, What, encode_event, write_asset
from aioexec.formats.records import encode_record
from aioexec.observability.event_writer import EventWriter
from aioexec.observability.plugin_assets import all_plugin_assets
from aioexec.plain_with import refuse_plain_with

if TYPE_CHECKING:
    from aioexec.formats.protos import Event, MetaGraphDef, RunMetadata, SessionLog, Summary

_PLUGINS: Final = "plugins"
_METADATA_TAG: Final = b"\x4a"
"""The tag byte of the metadata in a serialized summary; a summary without this byte has none."""


class FileWriter:
    """Writes events to a file in `logdir`, from any thread.

    Args:
        graph: a graph to write first; older programs pass a GraphDef here or as `graph_def`.
        max_queue: accepted for compatibility and ignored; see `event_writer` for the bound.
        flush_secs: the most seconds until an event is synced to the disk; it is written much earlier.
        filename_suffix: appended to the file name.
        session: accepted for compatibility and ignored: this process writes the file.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        self._logdir = os.fsdecode(logdir)
        self._events = EventWriter(EventFile(self._logdir, filename_suffix or ""), flush_secs)
        self._described_tags = set[str]()  # their metadata is written only once
        self._run_tags = set[str]()
        if graph is not None or graph_def is not None:
            content = self._add_graph(graph, graph_def, None)
            self._add(What.META_GRAPH_DEF, _as_meta_graph(content), None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> NoReturn:
        refuse_plain_with(self)

    def __exit__(self, *error: object) -> None:
        """Never called: a `with` statement needs it to call `__enter__`, which raises."""

    def get_logdir(self) -> str:
        """The directory of the file."""
        return self._logdir

    def add_summary(self, summary: bytes | Summary | np.ndarray[Any, Any], global_step: Any = None) -> None:
        """Write a summary: a proto, or its bytes as returned by a summary op.

        Of each tag only the first metadata is written.

        Raises:
            InvalidArgumentError: the bytes are no summary.
            ResourceExhaustedError: too many bytes wait for the disk; use `await flush()`.
            OpError: earlier events could not be written. They still wait; this one was not added.
        """
        if isinstance(summary, np.ndarray) and not summary.ndim:
            summary = summary.item()
        content = summary if isinstance(summary, bytes) else _serialize(summary, "Summary", "summary")
        parsed = _parse(content)
        if _METADATA_TAG not in content:
            self._add(What.SUMMARY, content, global_step)
            return
        described = {value.tag for value in parsed.value if value.HasField("metadata")}
        if not described.isdisjoint(self._described_tags):
            content = _without_metadata(parsed, self._described_tags)
        self._add(What.SUMMARY, content, global_step)
        self._described_tags |= described

    def add_session_log(self, session_log: SessionLog, global_step: Any = None) -> None:
        """Write the start or stop of a session. At a START, TensorBoard discards later steps of earlier sessions."""
        self._add(What.SESSION_LOG, _serialize(session_log, "SessionLog", "session_log"), global_step)

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Write a graph with its static shapes, and the assets of its plugins; or a GraphDef as it is.

        Raises:
            GraphTypeError: it is neither.
            GraphValueError: both arguments are given.
        """
        self._add_graph(graph, graph_def, global_step)

    def add_meta_graph(self, meta_graph_def: MetaGraphDef, global_step: Any = None) -> None:
        """Write a graph with its collections and signatures, as a MetaGraphDef."""
        content = _serialize(meta_graph_def, "MetaGraphDef", "meta_graph_def")
        self._add(What.META_GRAPH_DEF, content, global_step)

    def add_run_metadata(self, run_metadata: RunMetadata, tag: str, global_step: Any = None) -> None:
        """Write the RunMetadata of a step, under a tag that TensorBoard shows beside the graph.

        Raises:
            GraphValueError: the tag was used before.
        """
        from aioexec.formats.protos import TaggedRunMetadata

        content = _serialize(run_metadata, "RunMetadata", "run_metadata")
        if tag in self._run_tags:
            raise GraphValueError(f"The provided tag was already used for this event type: {tag!r}")
        tagged = TaggedRunMetadata(tag=tag, run_metadata=content)
        self._add(What.TAGGED_RUN_METADATA, tagged.SerializeToString(), global_step)
        self._run_tags.add(tag)

    def add_event(self, event: Event) -> None:
        """Write an event as it is."""
        content = _serialize(event, "Event", "event")
        self._add_record(encode_record(content))

    async def flush(self) -> None:
        """Return when all events added before are on the disk.

        Raises:
            OpError: they could not be written. They still wait; a further flush tries again.
        """
        if self._events.is_closed:
            _warn_of_closed(stacklevel=3)
        await self._events.flush()

    async def close(self) -> None:
        """Flush, and close the file. Adding to a closed writer only warns.

        Raises:
            OpError: events could not be written, and are lost.
        """
        await self._events.close()

    def reopen(self) -> None:
        """Accept events again after `close`, for another file."""
        self._events.reopen()

    # Implementation

    def _add(self, what: What, content: bytes, global_step: Any) -> None:
        step = 0 if global_step is None else int(global_step)
        self._add_record(encode_record(encode_event(time.time(), step, what, content)))

    def _add_record(self, record: bytes) -> None:
        if self._events.is_closed:
            _warn_of_closed(stacklevel=5)
        else:
            self._events.add(record)

    def _add_graph(self, graph: Any, graph_def: Any, global_step: Any) -> bytes:
        if graph is not None and graph_def is not None:
            raise GraphValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        given = graph if graph_def is None else graph_def
        content: bytes = _graph_def_of(given).SerializeToString()
        if hasattr(given, "get_collection"):
            self._add_assets(given)
        self._add(What.GRAPH_DEF, content, global_step)
        return content

    def _add_assets(self, graph: Any) -> None:
        for asset in all_plugin_assets(graph):
            assert asset.plugin_name is not None, "the graph refuses others"
            folder = os.path.join(self._logdir, _PLUGINS, asset.plugin_name)
            for name, content in asset.assets().items():
                self._events.add(partial(write_asset, os.path.join(folder, name), content.encode()))


def _warn_of_closed(stacklevel: int) -> None:
    warnings.warn(
        "Attempting to use a closed FileWriter. The operation will be a noop unless the FileWriter is explicitly reopened.",
        stacklevel=stacklevel,
    )


def _parse(content: bytes) -> Summary:
    parse, failure = _find_parser()
    try:
        return parse(content)
    except failure as error:
        raise InvalidArgumentError(
            f"add_summary: expected a serialized Summary, got {len(content)} other bytes"
        ) from error


@cache
def _find_parser() -> tuple[Callable[[bytes], Summary], type[Exception]]:
    """The parser of summaries and its exception; cached, since each step may write summaries."""
    from google.protobuf.message import DecodeError

    from aioexec.formats.protos import Summary

    return Summary.FromString, DecodeError


def _without_metadata(summary: Summary, tags: Set[str]) -> bytes:
    for value in summary.value:
        if value.tag in tags:
            value.ClearField("metadata")
    return summary.SerializeToString()


def _graph_def_of(graph: Any) -> Any:
    if hasattr(graph, "as_graph_def"):
        return graph.as_graph_def(add_shapes=True)
    if not _is_message(graph, "GraphDef"):
        raise GraphTypeError(
            f"The passed graph must be an instance of `Graph` or the deprecated `GraphDef`, got {type(graph).__name__}"
        )
    return graph


def _as_meta_graph(graph_def: bytes) -> bytes:
    from aioexec.formats.protos import MetaGraphDef

    meta_graph_def = MetaGraphDef()
    meta_graph_def.graph_def.MergeFromString(graph_def)
    return meta_graph_def.SerializeToString()


def _is_message(value: Any, kind: str) -> bool:
    """Whether this is a proto of that name: ours, or TensorFlow's."""
    return getattr(getattr(value, "DESCRIPTOR", None), "name", None) == kind


def _serialize(message: Any, kind: str, argument: str) -> bytes:
    if not _is_message(message, kind):
        raise GraphTypeError(f"{argument} must be type {kind}, saw type: {type(message).__name__}")
    content: bytes = message.SerializeToString()
    return content
