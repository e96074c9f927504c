"""The steps of a session under way, as tasks: their deadline, their turn, and their end when the session closes.

A step is cancelled the way `asyncio.timeout` does it: the awaiting task gets a cancellation, which becomes the error that
explains it where the step ends. So whatever a step waits for, its plan, its turn, a worker, a queue, is left as it is left
when the caller cancels.
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
    """A step under way, as whoever ends it sees it."""

    def cancel(self, error: OpError) -> None:
        """Tell it to end with this error; only the first one counts."""
        ...


class StepScope:
    """One step of one task; `with` it the step is under way.

    Attributes:
        deadline: when it fails, on the loop's clock, or None.

    `_error` is why it was told to end; `_cancelled_before` how often its task was cancelled for other reasons.
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
            self._timer = loop.call_at(self.deadline, self._expired, timeout_in_ms)

    def _expired(self, timeout_in_ms: int) -> None:
        self.cancel(
            DeadlineExceededError(
                f"Timed out waiting for notification: the step was not done after {timeout_in_ms} ms"
            )
        )

    def cancel(self, error: OpError) -> None:
        """Tell the step to end with this error; only the first one counts."""
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
        self._steps.ended(self)
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

    `life` says what is accepted; `_admission` bounds steps in flight, None for no bound; `_quiet` is set when nothing is under
    way, while somebody waits for that.
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
        """A step of the running task, to be entered at once."""
        return StepScope(self, timeout_in_ms)

    def ended(self, step: UnderWay) -> None:
        if self.life.end(step) and self._quiet is not None:
            self._quiet.set()

    async def turn(self) -> Turn | None:
        """Wait until this step may be in flight; to be given to `leave`, also if the step fails.

        Raises:
            ResourceExhaustedError: as many as may be are in flight, and the session does not wait.
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
                self.leave(turn)  # it may have been admitted just now: the next one is
                raise
        return turn

    def leave(self, turn: Turn | None) -> None:
        """The step that had this turn is over: the next one's turn."""
        if self._admission is None or turn is None:
            return
        successor = self._admission.leave(turn)
        if successor is not None and not successor.done():
            successor.set_result(
                None
            )  # one whose wait was cancelled meanwhile passes it on when its task gets to run

    def cancel(self, error: OpError) -> None:
        """Accept no more steps and tell those under way to end."""
        for step in self.life.cancel():
            step.cancel(error)

    async def end(self, grace: float | None) -> None:
        """Accept no more steps; wait for those under way, and cancel what is left after `grace` seconds (None: never)."""
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
