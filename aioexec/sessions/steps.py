"""The active steps of a session, as tasks: their deadlines, their admission, and their end when the session closes.

A step is cancelled in the manner of `asyncio.timeout`: the awaiting task is cancelled, and where the step ends the cancellation
is replaced by the error that caused it. So every wait of a step, for its plan, its admission, a worker or a queue, handles this
as it handles a cancellation by the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from types import TracebackType
from typing import Protocol

from aioexec.errors import DeadlineExceededError, OpError, ResourceExhaustedError, SessionClosedError
from aioexec.sessions.admission import Admission
from aioexec.sessions.lifecycle import Life

Turn = asyncio.Future[None]


class UnderWay(Hashable, Protocol):
    """An active step, as the session sees it."""

    def cancel(self, error: OpError) -> None:
        """Cancel it with this error; only the first one counts."""
        ...


class StepScope:
    """A context manager in which the running task's step is active.

    Attributes:
        deadline: the time at which it fails, on the loop's clock, or None.

    `_steps` are those of the session; `_timer` cancels the step at its deadline. `_error` is the error with which it was
    cancelled; `_cancelled_before` how often its task was cancelled for other reasons.
    """

    __slots__ = ("_cancelled_before", "_error", "_steps", "_task", "_timer", "deadline")

    def __init__(self, steps: Steps, timeout_in_ms: int) -> None:
        self._steps = steps
        self._error: OpError | None = None
        self._task: asyncio.Task[object] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled_before = 0
        self.deadline: float | None = None
        if timeout_in_ms > 0:
            loop = asyncio.get_running_loop()
            self.deadline = loop.time() + timeout_in_ms / 1000
            self._timer = loop.call_at(self.deadline, self._on_deadline, timeout_in_ms)

    def _on_deadline(self, timeout_in_ms: int) -> None:
        self.cancel(
            DeadlineExceededError(
                f"Timed out waiting for notification: the step was not done after {timeout_in_ms} ms"
            )
        )

    def cancel(self, error: OpError) -> None:
        """Cancel the step with this error; only the first one counts."""
        if self._error is None and self._task is not None:
            self._error = error
            self._task.cancel()

    def __enter__(self) -> StepScope:
        try:
            self._steps.life.begin(self)
        except SessionClosedError:
            self._stop_timer()
            raise
        self._task = asyncio.current_task()
        if self._task is not None:
            self._cancelled_before = self._task.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_timer()
        self._steps.on_step_ended(self)
        task, self._task = self._task, None
        if self._error is None or task is None:
            return
        ours_alone = task.uncancel() <= self._cancelled_before
        if ours_alone and isinstance(error, asyncio.CancelledError):
            raise self._error from error

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class Steps:
    """All steps of a session. Used in one event loop.

    `_refuse_when_busy`: a step beyond the bound fails instead of waiting. `life` decides whether steps are accepted;
    `_admission` bounds the steps in flight, None: no bound; `_quiet` is an event for the end of the last active step, while
    `end` waits for it.
    """

    def __init__(self, most_in_flight: int = 0, refuse_when_busy: bool = False) -> None:
        self.life: Life[UnderWay] = Life()
        self._admission: Admission[Turn] | None = Admission(most_in_flight) if most_in_flight else None
        self._refuse_when_busy = refuse_when_busy
        self._quiet: asyncio.Event | None = None

    @property
    def is_bounded(self) -> bool:
        return self._admission is not None

    def scope(self, timeout_in_ms: int = 0) -> StepScope:
        """A step of the running task; the caller enters it at once."""
        return StepScope(self, timeout_in_ms)

    def on_step_ended(self, step: UnderWay) -> None:
        if self.life.end(step) and self._quiet is not None:
            self._quiet.set()

    async def turn(self) -> Turn | None:
        """Wait until this step is admitted; the result is passed to `leave` at its end, also if it fails.

        Raises:
            ResourceExhaustedError: the bound is reached, and the session refuses steps then.
        """
        if self._admission is None:
            return None
        if self._admission.is_full and self._refuse_when_busy:
            raise ResourceExhaustedError(
                f"Session: {self._admission.bound} steps are in flight, which is max_steps_in_flight"
            )
        turn: Turn = asyncio.get_running_loop().create_future()
        if not self._admission.arrive(turn):
            try:
                await turn
            except asyncio.CancelledError:
                self.leave(turn)  # it may have been admitted just now; then the next one is admitted
                raise
        return turn

    def leave(self, turn: Turn | None) -> None:
        """Admit the next step, since the one with this turn is over."""
        if self._admission is None or turn is None:
            return
        successor = self._admission.leave(turn)
        if successor is not None and not successor.done():
            successor.set_result(
                None
            )  # a step that was cancelled meanwhile calls `leave` itself when its task runs

    def cancel(self, error: OpError) -> None:
        """Accept no more steps, and cancel the active ones."""
        for step in self.life.cancel():
            step.cancel(error)

    async def end(self, grace: float | None) -> None:
        """Accept no more steps; wait for the active ones, and cancel them after `grace` seconds (None: never)."""
        self.life.drain()
        timer = None
        if grace is not None and grace > 0:
            timer = asyncio.get_running_loop().call_later(grace, self.cancel, _closing_error())
        elif grace is not None:
            self.cancel(_closing_error())
        try:
            while self.life.under_way:
                self._quiet = self._quiet or asyncio.Event()
                self._quiet.clear()
                await self._quiet.wait()
        finally:
            if timer is not None:
                timer.cancel()


def _closing_error() -> OpError:
    return SessionClosedError("Session has been closed: the step was under way and was cancelled")
