"""Monitored sessions: sessions that initialise, restore, recover and close themselves, and call hooks.

    async with MonitoredSession(hooks=[...]) as session:        # or: session = await MonitoredSession(...)
        while not session.should_stop():
            await session.run(train_op)

is equivalent, except for recoveries, to:

    hook.begin()
    create a session: restore or initialise the model; start queue runners
    hook.after_create_session(session, coord)
    while no stop was requested:
        hook.before_run(context)
        run the step with the fetches and feeds of all, or leave the loop at the end of input
        hook.after_run(context, values)
    hook.end(session), or hook.on_error(session, error) if the loop was left by an error
    stop the tasks, close the queues and the session

Differences from TensorFlow, due to asyncio:

- The constructor only stores its arguments; awaiting the object, or `async with`, opens the session. Its graph is the default
  graph at construction, and is made the default graph for hooks and session creators while a session is created or closed. No
  default is set for the body of the loop, nor for tasks made there: these inherit the defaults of their creator.
- StopIteration cannot leave a coroutine. Raised in the body of `async with` it ends the loop unchanged; raised by a hook, a
  step function or `request_stop`, plain or `async def`, it leaves `run` as EndOfLoopError, an OutOfRangeError.
- `should_stop` is not a coroutine: the next run recreates a lost session. Each time a warning is logged and `on_recovery` of
  the hooks is called. Recovery is immediate, but if no step has succeeded since the last loss, it waits, from 0.1 seconds
  doubling up to 30; after 100 losses in a row the error is raised.
- Cancelling `run` cancels that step; the session stays usable. Cancelling `close` cancels the final calls of hooks and tasks;
  the session is closed nevertheless.
- The first error is raised; errors while a failed loop is closed are logged. A session that cannot be opened is closed, and its
  graph is left finalized only if it was before.
"""

from __future__ import annotations

import enum
import inspect
import logging
from collections.abc import Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self

from aioexec.errors import GraphValueError
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.plain_with import refuse_plain_with
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.errors import TrainingStateError, call_function, ends_loop
from aioexec.train.input.queue_runner import start_queue_runners
from aioexec.train.sessions.hooked_session import _HookedSession
from aioexec.train.sessions.scaffold import Scaffold
from aioexec.train.sessions.session_creators import ChiefSessionCreator
from aioexec.train.sessions.wrapped_sessions import (
    StepContext,
    StepFunction,
    _CoordinatedSession,
    _RecoverableSession,
    _WrappedSession,
    error_of,
)

logger = logging.getLogger(__name__)


class _State(enum.Enum):
    NEW = "it is not open: await it, or use `async with`"
    OPENING = "it is being opened"
    OPEN = "it is open already"
    CLOSING = "it is being closed"
    CLOSED = "Session is already closed."


class _FirstError:
    """The first of several errors, of tasks and of blocks; a cancellation has precedence. Others are logged."""

    def __init__(self, coord: Coordinator, error: BaseException | None) -> None:
        self._coord = coord
        is_plain = error is None or isinstance(error, Exception)
        self.error = (error_of(coord) if is_plain else None) or error

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False  # a cancellation is always raised
        if self.error is None:
            self.error = error_of(self._coord) or error
        if error is not self.error:
            logger.warning("an error while a session was closed, after %r: %r", self.error, error)
        return True


class _CoordinatedSessionCreator:
    """Creates a session, starts the queue runners of its graph, and notifies hooks.

    `tf_sess` and `coord` are of the session created last, None before the first and after the final close.
    """

    def __init__(self, session_creator: Any, graph: Graph, hooks: Sequence[Any], grace: float) -> None:
        self._session_creator = session_creator
        self._graph = graph
        self._hooks = hooks
        self._stop_grace_period_secs = grace
        self.coord: Coordinator | None = None
        self.tf_sess: Any = None

    async def create_session(self) -> _CoordinatedSession:
        with self._graph.as_default():
            tf_sess = await call_function(self._session_creator.create_session)
            coord = Coordinator(clean_stop_exception_types=[])
            hooked = _HookedSession(tf_sess, self._hooks, coord)
            session = _CoordinatedSession(hooked, coord, self._stop_grace_period_secs)
            self.tf_sess, self.coord = tf_sess, coord
            try:
                if self._graph.get_collection(GraphKeys.QUEUE_RUNNERS):
                    start_queue_runners(sess=tf_sess, coord=coord)
                for hook in self._hooks:
                    await call_function(hook.after_create_session, tf_sess, coord)
            except BaseException as error:
                with _FirstError(coord, error):
                    await session.close()
                raise
        return session


class _MonitoredSession:
    """See `MonitoredSession` and `SingularMonitoredSession`.

    Args:
        should_recover: whether a session lost to AbortedError or UnavailableError is recreated.
        stop_grace_period_secs: the grace period of tasks in `close`.

    State: `_sess` runs steps, set from OPEN to CLOSING. `_entered`: `async with` was used. `_step_fn` is the last step function
    whose signature was checked.
    """

    StepContext = StepContext
    _CoordinatedSessionCreator = _CoordinatedSessionCreator

    def __init__(
        self,
        session_creator: Any,
        hooks: Iterable[Any] | None,
        should_recover: bool,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._graph = get_default_graph()
        self._graph_was_finalized = self._graph.finalized
        self._hooks = list(hooks or ())
        self._should_recover = should_recover
        self._coordinated_creator = _CoordinatedSessionCreator(
            ChiefSessionCreator() if session_creator is None else session_creator,
            self._graph,
            self._hooks,
            stop_grace_period_secs,
        )
        self._sess: _WrappedSession | None = None
        self._state = _State.NEW
        self._entered = False
        self._step_fn: StepFunction | None = None

    @property
    def graph(self) -> Graph | None:
        """The graph of the session; None without a session."""
        tf_sess = self._tf_sess()
        return None if tf_sess is None else tf_sess.graph

    def _tf_sess(self) -> Any:
        """The inner session, None without one. Any step may replace it."""
        return self._coordinated_creator.tf_sess

    # Open and close

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        if self._entered:
            raise TrainingStateError(f"{type(self).__name__}: it cannot be entered twice")
        if self._state is not _State.OPEN:
            await self._open()
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Close; OutOfRangeError and StopIteration are suppressed, any other error is raised."""
        if ends_loop(error):
            error = None
        await self._close_internal(error)
        return error is None

    def __enter__(self) -> NoReturn:
        refuse_plain_with(self)

    def __exit__(self, *error: object) -> None:
        """Never called: a `with` statement needs it to call `__enter__`, which raises."""

    async def close(self) -> None:
        """Notify the hooks, stop the tasks, close the queues and the session.

        Raises:
            BaseException: the first error of a hook or task.
            TrainingStateError: it was closed, or never opened.
        """
        await self._close_internal(None)

    async def _open(self) -> Self:
        self._check_state(_State.NEW)
        self._state = _State.OPENING
        try:
            with self._graph.as_default():
                for hook in self._hooks:
                    await call_function(hook.begin)
            if self._should_recover:
                self._sess = _RecoverableSession(self._coordinated_creator, self._on_session_lost)
                await self._sess.open()
            else:
                self._sess = await self._coordinated_creator.create_session()
        except BaseException:
            self._mark_closed()
            raise
        self._state = _State.OPEN
        return self

    async def _close_internal(self, error: BaseException | None) -> None:
        """Close after a loop that was left by `error`, or None."""
        self._check_state(_State.OPEN)
        sess, coord = self._sess, self._coordinated_creator.coord
        assert sess is not None
        assert coord is not None
        self._state = _State.CLOSING
        first = _FirstError(coord, error)
        try:
            with self._graph.as_default():
                try:
                    with first:
                        await self._notify_of_end(coord, None if error is None else first.error)
                finally:
                    with first:
                        await sess.close()
        finally:
            self._mark_closed()
        if first.error is not None and first.error is not error:
            raise first.error

    async def _notify_of_end(self, coord: Coordinator, error: BaseException | None) -> None:
        """Call `end` of the hooks, or `on_error` if there is an error. If an `end` fails, the remaining hooks get its error."""
        remaining = iter(self._hooks)
        if error is not None:
            await self._notify_of_error(coord, remaining, error)
        try:
            for hook in remaining:
                await call_function(hook.end, self._tf_sess())
        except BaseException as failed:
            await self._notify_of_error(coord, remaining, _FirstError(coord, failed).error or failed)
            raise

    async def _notify_of_error(self, coord: Coordinator, hooks: Iterable[Any], error: BaseException) -> None:
        """Call `on_error` of the hooks; errors they raise are logged."""
        for hook in hooks:
            if hasattr(hook, "on_error"):
                with _FirstError(coord, error):
                    await call_function(hook.on_error, self._tf_sess(), error)

    async def _on_session_lost(self, error: BaseException, losses: int) -> None:
        """Log that a session was lost and is recreated, and notify the hooks."""
        logger.warning(
            "A session was lost, which may be due to a preemption in a connected worker or parameter server. "
            "A new session will be created (recovery %d since the last good step). Error: %s",
            losses,
            error,
        )
        for hook in self._hooks:
            if hasattr(hook, "on_recovery"):
                await call_function(hook.on_recovery, error, losses)

    def _mark_closed(self) -> None:
        self._state = _State.CLOSED
        self._sess = None
        self._coordinated_creator.tf_sess = None
        self._coordinated_creator.coord = None
        if not self._graph_was_finalized:
            self._graph._unsafe_unfinalize()

    def _check_state(self, state: _State) -> None:
        if self._state is not state:
            raise TrainingStateError(f"{type(self).__name__}: {self._state.value}")

    # Running

    async def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
        *,
        hooks: Sequence[Any] = (),
    ) -> Any:
        """Run a step, as `Session.run` does, with the requests of the hooks.

        Args:
            hooks: added to the session's own for this step; only their `before_run` and `after_run` are called.

        Raises:
            TrainingStateError: it is not open, or a hook has requested a stop.
            EndOfLoopError: a hook raised StopIteration.
        """
        if self._state is not _State.OPEN:
            self._check_state(_State.OPEN)
        assert self._sess is not None
        return await self._sess.run(fetches, feed_dict, options, run_metadata, hooks)

    async def run_step_fn(self, step_fn: StepFunction) -> Any:
        """Call `step_fn(step_context)`, plain or `async def`; returns its result.

        It may run steps without hooks by `step_context.session`, with hooks by `step_context.run_with_hooks`, and leave the
        loop by `step_context.request_stop()`. It is called again if its session is lost.

        Raises:
            EndOfLoopError: it requested a stop.
            GraphValueError: it takes other arguments.
        """
        self._check_state(_State.OPEN)
        if step_fn != self._step_fn:
            _check_step_fn(step_fn)
            self._step_fn = step_fn
        assert self._sess is not None
        return await self._sess.run_step_fn(step_fn)

    def should_stop(self) -> bool:
        """Whether the loop should end: a hook or task requested it, a task failed, or the session was closed.

        Raises:
            TrainingStateError: it was never opened.
        """
        if self._state is _State.OPEN:
            assert self._sess is not None
            return self._sess.should_stop()
        if self._state in (_State.NEW, _State.OPENING):
            self._check_state(_State.OPEN)
        return True


def _check_step_fn(step_fn: StepFunction) -> None:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(step_fn).parameters.values()
    names = tuple(parameter.name for parameter in parameters if parameter.kind in positional)
    if names not in (("step_context",), ("self", "step_context")):
        raise GraphValueError(
            f"`step_fn` may either have one `step_context` argument, or `self` and `step_context` arguments if it's an "
            f"instance method. Got {names} instead."
        )


class MonitoredSession(_MonitoredSession):
    """A session for a training loop, local or distributed; see the module.

    Args:
        session_creator: creates sessions, by default a ChiefSessionCreator.
        hooks: SessionRunHooks.
        stop_grace_period_secs: the grace period of tasks in `close`.
    """

    def __init__(
        self,
        session_creator: Any = None,
        hooks: Iterable[Any] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


class SingularMonitoredSession(_MonitoredSession):
    """A session for a local training loop: it does not recover, and the inner session is accessible.

    Args: those of ChiefSessionCreator and MonitoredSession.
    """

    def __init__(
        self,
        hooks: Iterable[Any] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | None = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: str | None = None,
    ) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The session without hooks; None once closed."""
        return self._tf_sess()
