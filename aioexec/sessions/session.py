"""Session: the interface through which a program runs parts of a graph.

    async with Session(graph=graph) as session:
        loss, _ = await session.run([loss, train_op], {images: batch})

A run looks up the executor for the structure of fetches and feed keys (`_prepare` makes it the first time), converts the feeds
to arrays, runs a step of the executor, and returns the values in the structure of the fetches. The runtime behind a session
determines where steps run; the factory of the target makes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn

from aioexec.devices.device import DeviceAttributes
from aioexec.dtypes import DType
from aioexec.errors import FailedPreconditionError, GraphTypeError, UnimplementedError
from aioexec.execution import explain
from aioexec.execution.begun import NowaitResult, Pending
from aioexec.execution.executor import Executor
from aioexec.execution.explain import PlanReport
from aioexec.graph.defaults import default_graphs, default_sessions
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.node import BaseGraph
from aioexec.observability.metrics import SESSIONS, SESSIONS_OPEN, STEPS
from aioexec.ops.state.session_handles import TensorHandle
from aioexec.plain_with import refuse_plain_with
from aioexec.planning.subgraph import Signature
from aioexec.sessions import factory
from aioexec.sessions.callables import FetchCallable, SessionCallable, make_session_callable
from aioexec.sessions.feeds import FeedConverter, convert_feeds, expand, expand_keys, feed_tensors
from aioexec.sessions.fetches import Build, FetchMapper, WrapHandle, remembered_by, structure_key
from aioexec.sessions.lifecycle import State, closed_error
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.partial_runs.parts import PartsCache
from aioexec.sessions.run_options import DEFAULT, StepOptions
from aioexec.sessions.runtime import SessionRuntime, SignatureExecutor

_MOST_PREPARED = 4096


class Prepared:
    """The executor for one structure of fetches and feed keys, the `converters` of the feeds, and `build`, which makes the
    result."""

    __slots__ = ("build", "converters", "executor")

    def __init__(
        self, executor: SignatureExecutor, converters: tuple[FeedConverter, ...], build: Build
    ) -> None:
        self.executor = executor
        self.converters = converters
        self.build = build


class Session:
    """Runs parts of a graph; belongs to one event loop.

    Args:
        target: "" for this process; else a target that a registered session factory accepts.
        graph: the graph to run, by default the default graph.
        config: a ConfigProto.

    Raises:
        NotFoundError: no session factory accepts the target.

    State: `_runtime` is None before the first use and after `close`; `_home` is the loop it was opened in, and `_loop` the
    same while runs are accepted; `prepared` and `_parts` cache structures; `_owned` are tasks that `close` ends;
    `_runs_nowait` is whether steps may be run without suspending; `_closed` is set by `close`, never reset; `_process` is the
    process that opened it; `_defaults` holds the session and its graph on the default stacks while a `with` block runs.
    """

    def __init__(self, target: str = "", graph: BaseGraph | None = None, config: Any = None) -> None:
        if graph is not None and not isinstance(graph, Graph):
            raise GraphTypeError(f"Session: graph must be a Graph, got {graph!r}")
        self.graph = graph if graph is not None else get_default_graph()
        self._options = SessionOptions.from_config(target, config)
        self._factory = factory.get_factory(self._options)
        self._runtime: SessionRuntime | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._closed = False
        self._runs_nowait = False
        self.prepared: dict[Any, Prepared] = {}
        self._owned: set[asyncio.Task[Any]] = set()
        self._defaults = contextlib.ExitStack()
        self._wrap_handle = _handle_wrapper(weakref.ref(self))
        self._parts = PartsCache(self.graph, self._wrap_handle)

    @property
    def sess_str(self) -> str:
        return self._options.target

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef proto."""
        return self.graph.as_graph_def()

    # Life

    async def __aenter__(self) -> Session:
        await self._load_and_open()
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

    def __enter__(self) -> NoReturn:
        refuse_plain_with(self)

    def __exit__(self, *error: object) -> None:
        """Never called: a `with` statement needs it to call `__enter__`, which raises."""

    def as_default(self) -> contextlib.AbstractContextManager[Session]:
        """Make this the default session of the running context; leaving the context does not close it."""
        return default_sessions.get_controller(self)

    def _open(self) -> SessionRuntime:
        """The runtime, made in the running loop at first use.

        Raises:
            SessionClosedError: the session was closed.
            FailedPreconditionError: another loop or process than the one it was opened in.
            OpError: the session cannot be made.
        """
        if self._runtime is not None and asyncio.get_running_loop() is self._loop:
            return self._runtime
        if self._closed:
            raise closed_error()
        if self._runtime is None:
            runtime = self._factory.new_session(self._options)
            runtime.attach(self.graph)
            runtime.on_closing = weakref.WeakMethod(self._refuse)
            self._loop = self._home = asyncio.get_running_loop()
            self._process = os.getpid()
            self._runs_nowait = runtime.runs_nowait
            self._runtime = runtime
            SESSIONS.increment()
            SESSIONS_OPEN.increment()
        else:
            self._check_place()
            if not self._runtime.steps.life.is_open:
                raise closed_error()
        return self._runtime

    async def _load_and_open(self) -> SessionRuntime:
        """`_open`, after what would hold the loop was done in a thread; if this is cancelled, nothing was opened."""
        if self._runtime is None and not self._closed:
            await self._factory.load(self._options)
        return self._open()

    def _refuse(self) -> None:
        """Record that the runtime accepts no more steps."""
        self._loop = None

    def _check_place(self) -> None:
        """Raise if this is another loop or process than the one the session was opened in."""
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():
            raise FailedPreconditionError(
                "Session: it was opened before fork(); open another in this process"
            )
        if self._home is not loop:
            raise FailedPreconditionError(
                f"Session: it belongs to the event loop {self._home!r}, used from {loop!r}; open one session a loop"
            )

    async def close(self, grace: float | None = 0) -> None:
        """Refuse further runs, end the active ones, and release everything. A second call does nothing.

        Partial runs without a pending call are abandoned.

        Args:
            grace: seconds after which runs that are still active are cancelled and raise SessionClosedError: by default none,
                as in TensorFlow; None for no limit.
        """
        if self._runtime is not None:
            self._check_place()
        self._closed = True
        await self._end_owned()
        if self._runtime is None:
            return
        runtime = self._runtime
        try:
            await runtime.close(grace)
        finally:
            is_over = runtime.steps.life.state is State.CLOSED
            if is_over and self._runtime is runtime:  # no concurrent call has closed it
                self._runtime = None
                SESSIONS_OPEN.decrement()
                self.prepared.clear()

    def own(self, task: asyncio.Task[Any]) -> None:
        """Register a task that runs steps repeatedly: `close` cancels it first, and waits for it."""
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)

    async def _end_owned(self) -> None:
        others = self._owned - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    def __del__(self) -> None:
        if getattr(self, "_runtime", None) is not None and not self._closed:
            warnings.warn(f"unclosed {self!r}: close it, or use `async with`", ResourceWarning, stacklevel=2)

    @staticmethod
    async def reset(target: str, containers: Sequence[str] | None = None, config: Any = None) -> None:
        """Abort all sessions of the kind that `target` selects, without waiting for their runs, and drop containers.

        Args:
            containers: names of resource containers; by default the default container.

        Raises:
            UnimplementedError: sessions of that kind have no containers.
        """
        await factory.reset(SessionOptions.from_config(target, config), containers or ())

    # Running

    async def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Run the nodes that the fetches need, and return their values in the same nesting; None for operations.

        Args:
            fetches: a tensor, operation, name, or list, tuple, dict, named tuple or dataclass of these.
            feed_dict: values for tensors, by tensor or name. The step refers to arrays until it ends: writes to them meanwhile
                may or may not affect the results, and they cannot be resized.
            options: a RunOptions.
            run_metadata: a RunMetadata, filled with the data that the options request.

        Raises:
            OpError: a node failed; the first error, with the node's name.
            GraphTypeError, GraphValueError, UnknownFetchError, UnknownFeedError: fetches or feeds that do not fit the graph.
            DeadlineExceededError: the deadline passed before the step ended.
            SessionClosedError: the session was closed.
        """
        feeds: Mapping[Any, Any] = feed_dict or {}
        prepared = self._find(fetches, feeds)
        if prepared is not None and options is None and run_metadata is None:
            outputs = self.begin(prepared, feeds.values())
            if outputs is not None:
                return prepared.build(outputs if isinstance(outputs, list) else await self.finish(outputs))
        return await self._run_step(prepared, fetches, feeds, StepOptions.from_proto(options), run_metadata)

    def _find(self, fetches: Any, feeds: Any) -> Prepared | None:
        """Look up a structure of fetches and feed keys in the cache."""
        prepared = None
        if type(fetches) is list:
            try:
                prepared = self.prepared.get((len(fetches), *fetches, *feeds))  # the `flat_key`
            except TypeError:
                prepared = None  # a nested list, or a key that is not hashable
        if prepared is None:
            try:
                prepared = self.prepared.get((structure_key(fetches), *feeds))
            except TypeError:
                prepared = None  # a key that is not hashable, or an object that is not a mapping
        return prepared

    def begin(self, prepared: Prepared, values: Iterable[Any]) -> NowaitResult:
        """Begin a step without suspending: its outputs, if it has ended; None: it cannot begin now, and nothing was run."""
        if not self._runs_nowait or asyncio.get_running_loop() is not self._loop:
            return None
        outputs = prepared.executor.run_nowait(values)
        if outputs is not None:
            # Only the count is updated here: bytes and durations are measured for steps that may suspend.
            STEPS.value += 1
        return outputs

    async def finish(self, pending: Pending) -> list[Any]:
        """The results of a step that has begun; `close` waits for it."""
        with self._open().scope_of(DEFAULT):
            return await pending.finish()

    async def _run_step(
        self, prepared: Prepared | None, fetches: Any, feeds: Any, options: StepOptions, metadata: Any
    ) -> Any:
        """Run a step that may suspend: with its deadline and the bound on steps in flight; `close` waits for it."""
        runtime = self._open() if self._runtime is not None else await self._load_and_open()
        with runtime.scope_of(options) as scope:
            turn = await runtime.steps.turn()
            try:
                if prepared is None:
                    feeds = self._checked(feeds)
                    prepared = await self._prepare(runtime, fetches, feeds)
                values = await convert_feeds(prepared.converters, list(feeds.values()), runtime.convert)
                outputs = await runtime.run_step(prepared.executor, values, options, metadata, scope)
                return prepared.build(outputs)
            finally:
                runtime.steps.leave(turn)

    def _checked(self, feeds: Any) -> Mapping[Any, Any]:
        if not isinstance(feeds, Mapping):
            raise GraphTypeError(f"feed_dict must be a mapping of tensors to values, got {feeds!r}")
        return expand(feeds)

    async def _prepare(self, runtime: SessionRuntime, fetches: Any, feeds: Iterable[Any]) -> Prepared:
        """Prepare a new structure, and cache it."""
        if self.graph.version == 0:
            raise RuntimeError(
                "The Session graph is empty. Add operations to the graph before calling run()."
            )
        tensors = feed_tensors(self.graph, list(feeds))
        mapper = FetchMapper(self.graph, fetches, self._wrap_handle, tensors)
        executor = await runtime.executor(Signature(tensors, mapper.tensors, mapper.targets))
        prepared = Prepared(executor, tuple(FeedConverter(tensor) for tensor in tensors), mapper.build)
        key = remembered_by(fetches, feeds)
        if key is not None:
            if len(self.prepared) >= _MOST_PREPARED:
                self.prepared.clear()
            with contextlib.suppress(TypeError):
                self.prepared[key] = prepared
        return prepared

    def kept_tensor(self, handle: TensorHandle) -> Any:
        """The value of a handle of this session; the caller must not write to it.

        Raises:
            InvalidArgumentError: it was deleted.
        """
        return self._open().kept_tensor(handle.handle)

    # Partial runs and callables

    async def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Start a step that is fed and fetched in parts; returns the handle for `partial_run`.

        Args:
            fetches: everything that will be fetched, in any nesting.
            feeds: everything that will be fed: a list or tuple, or one key.

        Raises:
            OpError: fetches or feeds do not fit the graph, or cannot be planned.
        """
        runtime = await self._load_and_open()
        keys = () if feeds is None else feeds if isinstance(feeds, list | tuple) else (feeds,)
        parts = self._parts.find("setup", fetches, keys)
        if parts is None:
            parts = self._parts.make(fetches, expand_keys(keys))
            self._parts.keep("setup", fetches, keys, parts)
        names = parts.feeds, parts.fetches, parts.targets
        return runtime.open_partial_run(*names) or await runtime.partial_run_setup(*names)

    async def partial_run(self, handle: str, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Feed more of a partial run, and wait for some of its fetches; an operation among them has run then.

        Raises:
            InvalidArgumentError: an element was not announced, is used twice, or needs a feed that was not fed.
        """
        runtime = self._open()
        feeds: Any = feed_dict or {}
        parts = self._parts.find("run", fetches, feeds)
        if parts is None:
            given, feeds = feeds, self._checked(feeds)
            parts = self._parts.make(fetches, list(feeds))
            if given is feeds:  # composite feeds are expanded in each call
                self._parts.keep("run", fetches, feeds, parts)
        outputs = runtime.begin_partial_run(handle, parts.feeds, list(feeds.values()), parts.outputs)
        return parts.build(outputs if isinstance(outputs, list) else await outputs)

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> FetchCallable:
        """Make a function that runs one step: `await function(*values)` with values in the order of `feed_list`.

        Args:
            accept_options: whether the function takes `options` and `run_metadata`.

        Raises:
            OpError: fetches or feeds do not fit the graph.
        """
        if feed_list is not None and not isinstance(feed_list, list | tuple):
            raise GraphTypeError(f"`feed_list` must be a list or tuple, got {feed_list!r}")
        if self._closed:
            raise closed_error()
        FetchMapper(self.graph, fetches)
        feed_tensors(self.graph, expand_keys(feed_list or ()))
        return FetchCallable(self, fetches, tuple(feed_list or ()), accept_options)

    async def _make_callable_from_options(self, callable_options: Any) -> SessionCallable:
        """Make a function that runs the step of a CallableOptions proto; the caller releases it after use."""
        return await make_session_callable(await self._load_and_open(), callable_options)

    async def list_devices(self) -> list[DeviceAttributes]:
        """The devices on which this session may place nodes."""
        return await (await self._load_and_open()).list_devices()

    # Inspection

    async def explain(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> str:
        """A report on the execution of `run(fetches, feed_dict)`, as text: items, programs, breaks and their reasons, buffers.

        Programs are made for each set of input shapes when runs need them; so run the fetches first.
        """
        return explain.explain(await self._executor(fetches, feed_dict))

    async def describe(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> PlanReport:
        """The report of `explain` as data."""
        return explain.describe(await self._executor(fetches, feed_dict))

    async def native_share(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> float:
        """The share of the nodes of `run(fetches, feed_dict)` that run inside native programs, from 0 to 1."""
        return explain.native_share(await self._executor(fetches, feed_dict))

    async def _executor(self, fetches: Any, feed_dict: Mapping[Any, Any] | None) -> Executor:
        runtime = await self._load_and_open()
        with runtime.steps.scope():
            executor = (await self._prepare(runtime, fetches, self._checked(feed_dict or {}))).executor
        found = getattr(executor, "executor", executor)
        if not isinstance(found, Executor):
            raise UnimplementedError(f"{self._options.target!r} does not report how it executes")
        return found


def _handle_wrapper(session: weakref.ref[Session]) -> WrapHandle:
    """A function that makes a TensorHandle; it refers weakly to the session, whose cache refers to it."""

    def wrap(text: Any, dtype: DType) -> TensorHandle:
        keeper = session()
        assert keeper is not None
        assert keeper._runtime is not None
        return TensorHandle(text.item().decode(), dtype, keeper, keeper._runtime.forget_tensor)

    return wrap
