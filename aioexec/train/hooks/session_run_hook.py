"""The protocol of hooks: their methods, called before, during and after the steps of a monitored session.

    begin()                          once, while the graph may still be changed
    after_create_session(s, coord)   after a session was created, or recreated
    before_run(context)              before each step; may add fetches, feeds and options
    after_run(context, values)       after each step that succeeded
    end(session)                     when the session is closed, unless a step failed
    on_error(session, error)         instead of `end`, when the loop ends by an error
    on_recovery(error, attempt)      when a session was lost, before another is created

Each method may be plain or `async def`.

For hooks given to one run alone, `run(fetches, hooks=[...])`, only `before_run` and `after_run` are called, after those of the
session's own hooks.

A hook that does not return is cancelled with the caller: an `asyncio.timeout` around a run applies to each call above. The
deadline of a step, of its options or the session's config, does not include hooks: one may save a checkpoint for longer.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from aioexec.sessions.session import Session
    from aioexec.train.coordination.coordinator import Coordinator


class SessionRunArgs(NamedTuple):
    """The fetches, feeds and options that a hook adds to a step; `fetches` is any structure that `Session.run` takes."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """The results of a step for one hook: `results` has the structure of the hook's fetches, None if it has none."""

    results: Any
    options: Any
    run_metadata: Any


class SessionRunContext:
    """One call of `run`, passed to hooks."""

    __slots__ = ("_original_args", "_session", "_stop_requested")

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """The fetches and feeds of the caller of `run`, without those of hooks."""
        return self._original_args

    @property
    def session(self) -> Session:
        """The session that runs the step."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether a hook has requested to stop after this step."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Make `should_stop` true after this step."""
        self._stop_requested = True


class SessionRunHook:
    """The base of hooks: its methods do nothing; subclasses override those they need."""

    def begin(self) -> Awaitable[None] | None:
        """Called once before the session is created; the graph may still be changed."""

    def after_create_session(self, session: Session, coord: Coordinator) -> Awaitable[None] | None:
        """Called when a session has been created, or recreated; the graph is finalized."""

    def before_run(
        self, run_context: SessionRunContext
    ) -> Awaitable[SessionRunArgs | None] | SessionRunArgs | None:
        """Return fetches and feeds to add to the caller's; None for none."""

    def after_run(
        self, run_context: SessionRunContext, run_values: SessionRunValues
    ) -> Awaitable[None] | None:
        """Receive the results of the step; `run_context.request_stop()` ends the loop."""

    def end(self, session: Session) -> Awaitable[None] | None:
        """Called at the end, with the session still open, unless a step failed."""

    def on_error(self, session: Session, error: BaseException) -> Awaitable[None] | None:
        """Called in place of `end` if the loop ends by an error: of a step, of the loop's body, or of another hook's `end`.

        Called once, with the root cause, which is raised after all hooks were called; also for a cancellation. Not called for a
        regular end (OutOfRangeError, StopIteration), nor for a failure that the session recovers from. The session may be
        unusable. An error raised here is logged, and the root cause is raised nevertheless.
        """

    def on_recovery(self, error: BaseException, attempt: int) -> Awaitable[None] | None:
        """Called when the session was lost to this error, before it is recreated.

        `attempt` counts from 1, and again from 1 after a step that ended well. An error raised here ends the loop.
        """
