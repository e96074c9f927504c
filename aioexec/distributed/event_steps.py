"""Steps that a server runs for others without a task: begun in the turn in which they are asked for, and over in the one in
which the last value comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from aioexec.distributed.answers import Answer
from aioexec.distributed.transport import Payload
from aioexec.errors import CancelledError, OpError, from_exception
from aioexec.sessions.steps import Steps

Replied = Callable[[list[Any] | OpError], Payload | OpError]
"""Makes of a step's values, or of what it has failed with, what its caller is told."""


class BegunStep(Protocol):
    """What is needed of a step that has begun; see `execution.executor.Begun`."""

    @property
    def has_ended(self) -> bool: ...
    def fail(self, error: BaseException) -> None: ...
    def when_over(self, tell: Callable[[], object]) -> None: ...
    def results_at_once(self) -> list[Any] | None: ...
    async def finish(self) -> list[Any]: ...


def answer_of(begun: BegunStep, steps: Steps, replied: Replied) -> Answer:
    """The reply of a step of a session that has begun; it may be there."""
    came = _came_to(begun, None)
    return _EventStep(begun, steps, replied).answer if came is None else Answer(came=replied(came))


def _came_to(begun: BegunStep, told: OpError | None) -> list[Any] | OpError | None:
    """What a step has come to, which may have been told to end with an error; None: it goes on, or its values are large."""
    try:
        return begun.results_at_once()
    except asyncio.CancelledError:
        return told or CancelledError("the step was cancelled")
    except BaseException as error:  # a kernel may have raised anything
        return from_exception(error)


class _EventStep:
    """One such step, which is under way in its session.

    `_error` is why it was told to end; `_copying` the task that copies large values, in the end.
    """

    __slots__ = ("_begun", "_copying", "_error", "_replied", "_steps", "answer")

    def __init__(self, begun: BegunStep, steps: Steps, replied: Replied) -> None:
        self.answer = Answer(self.cancel)
        self._begun = begun
        self._steps = steps
        self._replied = replied
        self._error: OpError | None = None
        self._copying: asyncio.Task[None] | None = None
        steps.life.begin(self)
        if begun.has_ended:  # but its values are large
            self._over()
        else:
            begun.when_over(self._over)

    def cancel(self, error: OpError) -> None:
        """Tell the step to end with this error, if it has not; only the first one counts."""
        if self._error is None and not self._begun.has_ended:
            self._error = error
            self._begun.fail(asyncio.CancelledError())

    def _over(self) -> None:
        came = _came_to(self._begun, self._error)
        if came is None:
            self._copying = asyncio.get_running_loop().create_task(self._copy())
        else:
            self._give(came)

    async def _copy(self) -> None:
        try:
            came: list[Any] | OpError = await self._begun.finish()
        except asyncio.CancelledError:
            self._give(CancelledError("the step was cancelled"))
            raise
        except BaseException as error:
            came = from_exception(error)
        self._give(came)

    def _give(self, came: list[Any] | OpError) -> None:
        self._steps.ended(self)
        try:
            told = self._replied(came)
        except Exception as error:
            told = from_exception(error)
        self.answer.give(told)
