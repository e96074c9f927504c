"""Session: what a program awaits.

    async with Session(graph=graph) as session:
        loss, _ = await session.run([loss, train_op], {images: batch})

A run is: the structure of fetches and feed keys, met before, gives an executor (`_prepare` the first time); the feeds become
arrays; the executor runs a step; the values go back into the structure.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from aioexec.errors import FailedPreconditionError, GraphTypeError, GraphValueError, SessionClosedError
from aioexec.execution import explain
from aioexec.execution.executor import Executor
from aioexec.graph.defaults import default_graphs, default_sessions
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.planning.subgraph import Signature
from aioexec.sessions.direct import DirectSession
from aioexec.sessions.feeds import FeedConverter, expand, feed_tensors, is_slow_to_convert
from aioexec.sessions.fetches import Build, FetchMapper, structure_key
from aioexec.sessions.options import SessionOptions

_MOST_PREPARED = 4096


class Prepared:
    """One structure of fetches and feed keys, made ready."""

    __slots__ = ("build", "converters", "executor")

    def __init__(self, executor: Executor, converters: tuple[FeedConverter, ...], build: Build) -> None:
        self.executor = executor
        self.converters = converters
        self.build = build


class Session:
    """Runs parts of a graph; belongs to one event loop.

    Args:
        target: "" for this process.
        graph: the graph to run, by default the default graph.
        config: a ConfigProto.

    State: `_direct` is None before the first use and after `close`; `_home` is the loop it was opened in, and `_loop` the same
    while runs are accepted; `_running` counts runs under way, and `close` waits for `_idle`, set when there are none left;
    `_prepared` remembers structures.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            raise GraphTypeError(f"Session: graph must be a Graph, got {graph!r}")
        self.graph = graph if graph is not None else get_default_graph()
        self._options = SessionOptions.from_config(target, config)
        if target:
            raise GraphValueError(f"Session: no session factory accepts the target {target!r}")
        self._direct: DirectSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._closed = False
        self._prepared: dict[Any, Prepared] = {}
        self._running = 0
        self._idle: asyncio.Event | None = None
        self._defaults = contextlib.ExitStack()

    @property
    def sess_str(self) -> str:
        return self._options.target

    # Life

    async def __aenter__(self) -> Session:
        self._open()
        self._defaults.enter_context(default_graphs.get_controller(self.graph))
        self._defaults.enter_context(default_sessions.get_controller(self))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._defaults.close()
        finally:
            await self.close()

    def as_default(self) -> contextlib.AbstractContextManager[Session]:
        """Make this the default session of the running context; leaving does not close it."""
        return default_sessions.get_controller(self)

    def _open(self) -> DirectSession:
        """The runtime, made in the running loop at first use.

        Raises:
            SessionClosedError: the session was closed.
            FailedPreconditionError: another loop or process than the one it was opened in.
        """
        if self._closed:
            raise SessionClosedError
        if self._direct is None:
            self._loop = self._home = asyncio.get_running_loop()
            self._process = os.getpid()
            self._direct = DirectSession(self.graph, self._options)
        else:
            self._check_place()
        return self._direct

    def _check_place(self) -> None:
        """Refuse another loop or process than the one the session was opened in."""
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():
            raise FailedPreconditionError(
                "Session: it was opened before fork(); open another in this process"
            )
        if self._home is not loop:
            raise FailedPreconditionError(
                f"Session: it belongs to the event loop {self._home!r}, used from {loop!r}; open one session a loop"
            )

    async def close(self) -> None:
        """Refuse further runs, wait for those under way, and give everything back. Closing twice is fine."""
        if self._direct is None:
            self._closed = True
            return
        self._check_place()
        self._closed = True
        self._loop = None
        self._direct.stop_building()
        while self._running:
            self._idle = self._idle or asyncio.Event()
            await self._idle.wait()
        direct, self._direct = self._direct, None
        self._prepared.clear()
        if direct is not None:
            await direct.close()

    def __del__(self) -> None:
        if getattr(self, "_direct", None) is not None and not self._closed:
            warnings.warn(f"unclosed {self!r}: close it, or use `async with`", ResourceWarning, stacklevel=2)

    # Running

    async def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Run what the fetches need and return their values, in the same nesting; operations give None.

        Args:
            fetches: a tensor, operation, name, or list, tuple, dict, named tuple or dataclass of these.
            feed_dict: values for tensors, by tensor or name.

        Raises:
            OpError: a node failed; the first error, with the node's name.
            GraphTypeError, GraphValueError, UnknownFetchError, UnknownFeedError: fetches or feeds that do not fit the graph.
            SessionClosedError: the session was closed.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._open()
        self._running += 1
        try:
            feeds: Mapping[Any, Any] = feed_dict or {}
            try:
                prepared = self._prepared.get((structure_key(fetches), *feeds))
            except TypeError:  # a key that does not hash, or a mapping that is none
                prepared = None
            if prepared is None:
                feeds = self._checked(feeds)
                prepared = await self._prepare(fetches, feeds)
            else:
                outputs = prepared.executor.run_at_once(feeds.values())
                if outputs is not None:
                    return prepared.build(outputs)
            values = await self._converted(prepared, list(feeds.values()))
            return prepared.build(await prepared.executor.step(values))
        finally:
            self._running -= 1
            if self._idle is not None and self._running == 0:
                self._idle.set()

    async def _converted(self, prepared: Prepared, given: list[Any]) -> list[Any]:
        """Fed values as arrays; what takes long is done on a worker."""
        pairs = list(zip(prepared.converters, given, strict=True))

        def convert() -> list[Any]:
            return [converter.convert(value) for converter, value in pairs]

        if any(is_slow_to_convert(value, converter.numpy) for converter, value in pairs):
            return await prepared.executor.engine.workers.submit(convert).result()
        return convert()

    def _checked(self, feeds: Any) -> Mapping[Any, Any]:
        if not isinstance(feeds, Mapping):
            raise GraphTypeError(f"feed_dict must be a mapping of tensors to values, got {feeds!r}")
        return expand(feeds)

    async def _prepare(self, fetches: Any, feeds: Mapping[Any, Any]) -> Prepared:
        """Plan a structure that is new, and remember it."""
        mapper = FetchMapper(self.graph, fetches)
        tensors = feed_tensors(self.graph, list(feeds))
        executor = await self._open_direct().executor(Signature(tensors, mapper.tensors, mapper.targets))
        prepared = Prepared(executor, tuple(FeedConverter(tensor) for tensor in tensors), mapper.build)
        key = structure_key(fetches)
        if key is not None:
            if len(self._prepared) >= _MOST_PREPARED:
                self._prepared.clear()
            with contextlib.suppress(TypeError):
                self._prepared[(key, *feeds)] = prepared
        return prepared

    def _open_direct(self) -> DirectSession:
        """The runtime while a run is under way: `close` waits for it."""
        if self._direct is None:
            raise SessionClosedError
        return self._direct

    # Looking inside

    async def explain(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> str:
        """How `run(fetches, feed_dict)` is executed, as text: items, programs, what broke a program and why, buffers.

        Programs are made per set of input shapes when runs need them, so run first what is to be explained.
        """
        return explain.explain(await self._executor(fetches, feed_dict))

    async def native_share(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> float:
        """The share of the nodes of `run(fetches, feed_dict)` that run inside native programs, from 0 to 1."""
        return explain.native_share(await self._executor(fetches, feed_dict))

    async def _executor(self, fetches: Any, feed_dict: Mapping[Any, Any] | None) -> Executor:
        self._open()
        with self._under_way():
            return (await self._prepare(fetches, self._checked(feed_dict or {}))).executor

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[None]:
        """Have `close` wait for what is done inside; `run` does the same in place, where a context would cost."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if self._idle is not None and self._running == 0:
                self._idle.set()


def eval_tensor(tensor: Any, feed_dict: Any = None, session: Session | None = None) -> Any:
    """`tensor.eval()`: an awaitable of its value in `session` or the default session."""
    return _session_for(tensor.graph, session, "evaluate tensor using `eval()`").run(tensor, feed_dict)


def run_operation(op: Any, feed_dict: Any = None, session: Session | None = None) -> Any:
    """`op.run()`: an awaitable that runs it in `session` or the default session."""
    return _session_for(op.graph, session, "execute operation using `run()`").run(op, feed_dict)


def _session_for(graph: Graph, session: Session | None, what: str) -> Session:
    found: Session | None = session if session is not None else default_sessions.top()
    if found is None:
        raise GraphValueError(
            f"Cannot {what}: No default session is registered; use `with sess.as_default()`"
        )
    if found.graph is not graph:
        raise GraphValueError(f"Cannot {what}: the session's graph is another than the one it belongs to")
    return found
