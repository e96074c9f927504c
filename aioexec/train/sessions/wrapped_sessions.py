"""The layers of a monitored session, from the outermost inwards:

    _RecoverableSession     recreates the inner layers when a step fails with AbortedError or UnavailableError, and repeats it
      _CoordinatedSession     joins the tasks of its coordinator, and raises their errors
        _HookedSession          calls hooks before and after each step (hooked_session)
          Session

`should_stop` is not a coroutine in any of them. Closing proceeds from the outermost layer: tasks are stopped, then the session
is closed, even after an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from aioexec.errors import AbortedError, SessionClosedError, UnavailableError
from aioexec.graph.graph import Graph
from aioexec.sessions.lifecycle import closed_error
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.errors import TrainingStateError, call_function
from aioexec.train.off_loop import run_uninterrupted

logger = logging.getLogger(__name__)

PREEMPTION_ERRORS = (AbortedError, UnavailableError)
"""A participating process was restarted: the step can be repeated with a new session."""

RETRIED_ERRORS = (*PREEMPTION_ERRORS, SessionClosedError)
"""Errors of a step whose session was lost: by a preemption, or because another step's preemption closed it."""

FIRST_WAIT_SECS = 0.1
LONGEST_WAIT_SECS = 30.0
MOST_RECOVERIES = 100
"""The first recovery is immediate, each further one without a successful step waits twice as long: 45 minutes in all."""


class StepContext:
    """The argument of a step function."""

    def __init__(self, session: Any, run_with_hooks_fn: Callable[..., Awaitable[Any]]) -> None:
        self._session = session
        self._run_with_hooks_fn = run_with_hooks_fn

    @property
    def session(self) -> Any:
        """The session without hooks."""
        return self._session

    async def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Run a step as `MonitoredSession.run` does, with the same arguments."""
        return await self._run_with_hooks_fn(*args, **kwargs)

    def request_stop(self) -> None:
        """Leave the step function and the loop around it.

        Raises:
            StopIteration: always; outside the step function it is an EndOfLoopError.
        """
        raise StopIteration("step_fn has requested the iterations to stop.")


StepFunction = Callable[[StepContext], Awaitable[Any] | Any]


class _WrappedSession:
    """A session around another one, with `should_stop`.

    `_sess` is None once it is closed. `close` raises no preemption error: the session to be closed is gone.
    """

    def __init__(self, sess: Any) -> None:
        self._sess = sess

    @property
    def graph(self) -> Graph:
        graph: Graph = self._sess.graph
        return graph

    @property
    def sess_str(self) -> str:
        target: str = self._sess.sess_str
        return target

    @property
    def raw_session(self) -> Any:
        """The innermost session."""
        inner = self._sess
        return inner.raw_session if isinstance(inner, _WrappedSession) else inner

    def should_stop(self) -> bool:
        """Whether this session must not be used any more; true when it is closed."""
        if self._check_stop() or self._sess is None:
            return True
        return isinstance(self._sess, _WrappedSession) and self._sess.should_stop()

    def _check_stop(self) -> bool:
        """A further stop condition, for subclasses."""
        return False

    async def close(self) -> None:
        """Close the inner session. Repeated calls have no effect."""
        sess, self._sess = self._sess, None
        if sess is None:
            return
        try:
            if isinstance(sess, _WrappedSession):
                await sess.close()
            else:
                await run_uninterrupted(call_function(sess.close))
        except PREEMPTION_ERRORS as error:
            logger.error(
                "An error occurred when attempting to close the session. This may be due to a preemption in a "
                "connected worker or parameter server. Error: %s",
                error,
            )

    def run(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Run a step of the inner session, with its arguments."""
        step: Awaitable[Any] = self._sess.run(*args, **kwargs)
        return step

    async def run_step_fn(self, step_fn: StepFunction) -> Any:
        """Call a step function with a context for this session."""
        return await call_function(step_fn, StepContext(self.raw_session, self.run))


class _CoordinatedSession(_WrappedSession):
    """A session that ends together with the tasks of a coordinator."""

    def __init__(self, sess: Any, coord: Coordinator, stop_grace_period_secs: float = 120) -> None:
        super().__init__(sess)
        self._coord = coord
        self._stop_grace_period_secs = stop_grace_period_secs

    def _check_stop(self) -> bool:
        self._coord.raise_requested_exception()
        return self._coord.should_stop()

    async def close(self) -> None:
        """Stop the tasks, with their grace period, and close the session.

        Raises:
            BaseException: the error of a task.
        """
        self._coord.request_stop()
        try:
            await self._coord.join(
                stop_grace_period_secs=self._stop_grace_period_secs, ignore_live_threads=True
            )
        finally:
            try:
                await super().close()
            except Exception as error:
                logger.warning("an error while a session was closed, whose tasks have ended: %r", error)


def error_of(coord: Coordinator) -> BaseException | None:
    """The error of the stop request."""
    try:
        coord.raise_requested_exception()
    except BaseException as error:
        return error
    return None


def cause_of(error: Exception, coord: Coordinator) -> Exception:
    """The cause of a step's error: the error itself, or the preemption of a task, which may cause any error."""
    cause = None if isinstance(error, PREEMPTION_ERRORS) else error_of(coord)
    return cause if isinstance(cause, PREEMPTION_ERRORS) else error


class CoordinatedCreator(Protocol):
    """Makes the layers of a monitored session that are lost with its session."""

    async def create_session(self) -> _CoordinatedSession: ...


OnRecovery = Callable[[BaseException, int], Awaitable[None]]


class _RecoverableSession(_WrappedSession):
    """A session that is recreated when it is lost to a preemption; a step that failed by it is repeated.

    Args:
        sess_creator: creates sessions.
        on_recovery: awaited before a session is recreated, with the error and the number of losses since the last successful
            step.

    State: `_lost` is the error of a lost session that has not been replaced (it may not be closed yet), or None. `_losses`
    counts recoveries since the last successful step. Closing and creating are done under `_creating`; `_creation` is the scope
    that cancels the creation under way by `_creator`; `_closed`: there will be no further one.
    """

    def __init__(self, sess_creator: CoordinatedCreator, on_recovery: OnRecovery) -> None:
        super().__init__(None)
        self._sess_creator = sess_creator
        self._on_recovery = on_recovery
        self._lost: BaseException | None = None
        self._losses = 0
        self._creating = asyncio.Lock()
        self._creation: asyncio.Timeout | None = None
        self._creator: asyncio.Task[Any] | None = None
        self._closed = False

    async def open(self) -> None:
        """Create the first session."""
        await self._get_session()

    def should_stop(self) -> bool:
        """Whether this session must not be used any more; false after a preemption, from which the next run recovers."""
        if self._closed:
            return True
        if self._lost is None:
            try:
                return super().should_stop()
            except PREEMPTION_ERRORS as error:
                self._lost = error
            except Exception:
                return True  # `close` raises the error
        return False

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        while True:
            sess = self._sess
            if sess is None or self._lost is not None:
                sess = await self._get_session()
            try:
                values = await sess.run(*args, **kwargs)
            except RETRIED_ERRORS as error:
                self._lose(sess, error)
            else:
                self._losses = 0
                return values

    async def run_step_fn(self, step_fn: StepFunction) -> Any:
        while True:
            sess = await self._get_session()
            try:
                value = await sess.run_step_fn(step_fn)
            except RETRIED_ERRORS as error:
                self._lose(sess, error)
            else:
                self._losses = 0
                return value

    async def close(self) -> None:
        """Close the inner session; a creation under way ends with SessionClosedError."""
        self._closed = True
        if self._creation is not None:
            self._creation.reschedule(asyncio.get_running_loop().time())
            if self._creator is asyncio.current_task():
                return  # by `after_create_session`: the creation ends at its next wait
        async with self._creating:
            await super().close()

    def _lose(self, sess: Any, error: Exception) -> None:
        """Record that a step's session was lost, unless another step's failure has recorded it already.

        Raises:
            SessionClosedError: the error, unless the session was closed to be replaced.
        """
        is_lost = sess is not self._sess or self._lost is not None
        if not isinstance(error, PREEMPTION_ERRORS):
            if self._closed or not is_lost:
                raise error
        elif not is_lost:
            self._lost = error

    async def _get_session(self) -> _WrappedSession:
        """The inner session, recreated if it was lost."""
        if self._creation is not None and self._creator is asyncio.current_task():
            raise TrainingStateError(
                "a hook cannot run a step while the session is recreated: use its argument"
            )
        async with self._creating:
            if self._sess is None or self._lost is not None:
                if self._closed:
                    raise closed_error()
                self._creator = asyncio.current_task()
                try:
                    async with asyncio.timeout(None) as self._creation:
                        await self._create()
                except TimeoutError:
                    if self._creation is not None and self._creation.expired():
                        raise closed_error() from None
                    raise
                finally:
                    self._creation = None
            sess: _WrappedSession = self._sess
            return sess

    async def _create(self) -> None:
        """Create a session, repeatedly if it is lost before it is ready."""
        while True:
            if self._lost is not None:
                await super().close()
                await self._wait_before_recovery(self._lost)
            try:
                sess = await self._sess_creator.create_session()
            except PREEMPTION_ERRORS as error:
                self._lost = error
                continue
            except Exception:
                self._lost = None
                raise
            self._sess, self._lost = sess, None
            return

    async def _wait_before_recovery(self, error: BaseException) -> None:
        """Report a recovery, and wait before it.

        Raises:
            OpError: the error, after too many recoveries without a successful step.
        """
        if self._losses >= MOST_RECOVERIES:
            self._lost = None
            error.add_note(f"given up after {self._losses} recoveries without a good step")
            raise error
        self._losses += 1
        await self._on_recovery(error, self._losses)
        if self._losses > 1:
            await asyncio.sleep(min(FIRST_WAIT_SECS * 2 ** (self._losses - 2), LONGEST_WAIT_SECS))
