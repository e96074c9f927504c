"""Sessions for code that cannot await: a cell of a notebook, a callback of a library. The package itself does not use them.

    with blocking.Session(graph=graph) as sess:
        print(sess.run(y, {x: 1}))

Each session has an event loop in a thread of its own, started when the session is first used and ended when it is closed.
Methods have the arguments, results and errors of `aioexec.Session`'s and block the calling thread, whichever it is, until the
step has ended. An interrupt (KeyboardInterrupt) cancels the step and is raised when the step has ended.

A thread whose event loop is running may call them too: cells of notebooks run in such threads. The loop is blocked meanwhile,
so a server should await `aioexec.Session`. Only the loop of the session itself is refused: a step would wait for itself.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from aioexec.devices.device import DeviceAttributes
from aioexec.errors import FailedPreconditionError
from aioexec.graph.defaults import default_graphs, default_sessions
from aioexec.graph.graph import Graph
from aioexec.sessions import session as asynchronous
from aioexec.sessions.lifecycle import closed_error
from aioexec.train.errors import TrainingStateError
from aioexec.train.sessions import monitored_training
from aioexec.train.sessions.monitored_session import MonitoredSession

Result = TypeVar("Result")


class _LoopThread:
    """An event loop in a thread of its own.

    Args:
        last: what the loop runs at its end, after the cancellation of all tasks.

    State: `_thread` is None before the first call; `is_ended` is set by `end`, never reset. Any thread may call `wait_for`.
    """

    def __init__(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._last = last
        self._lock = threading.Lock()  # guards the start of the thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.is_ended = False

    def wait_for(self, make: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine in the loop, in a copy of the caller's context, and wait for its result.

        Raises:
            FailedPreconditionError: the caller is a task or callback of this loop.
            SessionClosedError: the thread was ended.
        """
        loop = self._started()
        if threading.current_thread() is self._thread:
            raise FailedPreconditionError(
                "blocking.Session: it was called in its own event loop, where it would wait for itself; await aioexec.Session"
            )
        outcome: concurrent.futures.Future[Result] = concurrent.futures.Future()
        tasks: list[asyncio.Task[Result]] = []

        def start() -> None:
            tasks.append(loop.create_task(make()))
            tasks[0].add_done_callback(partial(_pass_on, outcome))

        loop.call_soon_threadsafe(start)
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():  # the wait was interrupted
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])  # made by then
                concurrent.futures.wait([outcome])
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self.is_ended:
                raise closed_error()
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop, self._last), name="aioexec-blocking", daemon=True
                )
                self._thread.start()
            return self._loop

    @property
    def is_started(self) -> bool:
        return self._thread is not None

    def end(self) -> None:
        """End the loop and the thread; a second call does nothing."""
        with self._lock:
            self.is_ended = True
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            if threading.current_thread() is not thread:
                thread.join()


def _run(loop: asyncio.AbstractEventLoop, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """The body of a thread."""
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(last())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _pass_on(outcome: concurrent.futures.Future[Result], task: asyncio.Task[Result]) -> None:
    if task.cancelled():
        outcome.set_exception(closed_error())
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())


async def _cancel_others() -> None:
    """Cancel all other tasks of the loop, and wait for them."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others)


def _abandon(thread: _LoopThread) -> None:
    """End the thread of a session that was not closed, when it is collected or the process ends."""
    if thread.is_started:
        warnings.warn("unclosed blocking session: close it, or use `with`", ResourceWarning, stacklevel=2)
    thread.end()


class Session:
    """`aioexec.Session` for code that cannot await; see the module.

    Args:
        target, graph, config: see `aioexec.Session`.

    Raises:
        NotFoundError: no session factory accepts the target.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        self._session = asynchronous.Session(target, graph, config)
        self._thread = _LoopThread(partial(self._session.close, 0))
        self._defaults = contextlib.ExitStack()
        self._finalizer = weakref.finalize(self, _abandon, self._thread)

    @property
    def graph(self) -> Graph:
        return self._session.graph

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef proto."""
        return self._session.graph_def

    @property
    def sess_str(self) -> str:
        return self._session.sess_str

    def __enter__(self) -> Self:
        self._defaults.enter_context(default_graphs.get_controller(self.graph))
        self._defaults.enter_context(default_sessions.get_controller(self))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._defaults.close()
        finally:
            self.close()

    def as_default(self) -> contextlib.AbstractContextManager[Self]:
        """Make this the default session of the running context; leaving the context does not close it."""
        return default_sessions.get_controller(self)

    def close(self, grace: float | None = None) -> None:
        """Close the session as `aioexec.Session.close` does, and end its thread. A second call does nothing."""
        if self._thread.is_ended:
            return
        try:
            self._thread.wait_for(lambda: self._session.close(grace))
        finally:
            self._finalizer.detach()
            self._thread.end()

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """See `aioexec.Session.run`; the values themselves, no awaitable."""
        return self._thread.wait_for(lambda: self._session.run(fetches, feed_dict, options, run_metadata))

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """See `aioexec.Session.partial_run_setup`."""
        return self._thread.wait_for(lambda: self._session.partial_run_setup(fetches, feeds))

    def partial_run(self, handle: str, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """See `aioexec.Session.partial_run`."""
        return self._thread.wait_for(lambda: self._session.partial_run(handle, fetches, feed_dict))

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """See `aioexec.Session.make_callable`; a function that returns the values."""
        function = self._session.make_callable(fetches, feed_list, accept_options)
        return lambda *values, **options: self._thread.wait_for(lambda: function(*values, **options))

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices on which this session may place nodes."""
        return self._thread.wait_for(self._session.list_devices)

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call `function(session, *args, **kwargs)` with the `aioexec.Session` in its event loop; await an awaitable result.

        It is for what takes a session, such as `sess.call(saver.save, "model.ckpt")`.
        """

        async def run() -> Any:
            with self._session.as_default():
                result = function(self._session, *args, **kwargs)
                return await result if inspect.isawaitable(result) else result

        return self._thread.wait_for(run)


class InteractiveSession(Session):
    """A session that `tensor.eval()` and `operation.run()` use without a `with` statement, until it is closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        if graph is not None:
            default_graphs.push(graph)
        default_sessions.push(self)
        self._pushed_graph = graph

    def close(self, grace: float | None = None) -> None:
        """Stop being the default session, and close."""
        default_sessions.discard(self)
        if self._pushed_graph is not None:
            default_graphs.discard(self._pushed_graph)
        super().close(grace)


async def _close(session: MonitoredSession) -> None:
    with contextlib.suppress(TrainingStateError):  # it is closed already
        await session.close()


class _Monitored:
    """`aioexec.train.MonitoredSession` for code that cannot await.

    Hooks and step functions run in the session's thread. Those that use the session they are given must be `async def`: it is
    an `aioexec.Session`.
    """

    def __init__(self, session: MonitoredSession) -> None:
        self._session = session
        self._thread = _LoopThread(partial(_close, session))
        self._finalizer = weakref.finalize(self, _abandon, self._thread)

    def __enter__(self) -> Self:
        self._thread.wait_for(self._session.__aenter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            return self._thread.wait_for(lambda: self._session.__aexit__(kind, error, trace))
        finally:
            self._finalizer.detach()
            self._thread.end()

    @property
    def graph(self) -> Graph | None:
        """The graph of the session; None before it is entered and after it is left."""
        return self._session.graph

    def should_stop(self) -> bool:
        """Whether the loop should end."""
        return self._session.should_stop()

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
        *,
        hooks: Sequence[Any] = (),
    ) -> Any:
        """See `aioexec.train.MonitoredSession.run`."""
        return self._thread.wait_for(
            lambda: self._session.run(fetches, feed_dict, options, run_metadata, hooks=hooks)
        )

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """See `aioexec.train.MonitoredSession.run_step_fn`."""
        return self._thread.wait_for(lambda: self._session.run_step_fn(step_fn))


def MonitoredTrainingSession(*args: Any, **kwargs: Any) -> _Monitored:
    """`aioexec.train.MonitoredTrainingSession`, with its arguments, for code that cannot await: a context manager."""
    return _Monitored(monitored_training.MonitoredTrainingSession(*args, **kwargs))
