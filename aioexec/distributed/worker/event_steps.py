"""Steps that a server runs without a task: begun in the loop iteration in which the request arrives, and done in the one in
which the last value arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import CancelledError, OpError, from_exception
from aioexec.execution.begun import Begun, Pending
from aioexec.sessions.steps import Steps

MakeReply = Callable[[list[Any] | OpError], Payload | OpError]
"""Makes the reply to a step's caller from its values or its error."""


def answer_of(begun: Pending, steps: Steps, make_reply: MakeReply) -> Answer:
    """The reply of a step of a session that has begun, or will when admitted; it may be ready."""
    if not isinstance(begun, Begun):
        return _TaskStep(begun, steps, make_reply).answer
    result = _result(begun, None)
    return _EventStep(begun, steps, make_reply).answer if result is None else Answer(reply=make_reply(result))


def _result(begun: Begun, reason: OpError | None) -> list[Any] | OpError | None:
    """The result of a step; `reason` replaces a cancellation. None: it still runs, or its values are large."""
    try:
        return begun.results_nowait()
    except asyncio.CancelledError:
        return reason or CancelledError("the step was cancelled")
    except BaseException as error:  # a kernel may raise any exception
        return from_exception(error)


class _StepUnderWay:
    """A step under way in its session.

    `_error` is the error it was cancelled with, or None; `_finishing` the task that awaits its end and copies large values.
    """

    __slots__ = ("_error", "_finishing", "_make_reply", "_steps", "answer")

    def __init__(self, steps: Steps, make_reply: MakeReply) -> None:
        self.answer = Answer(self.cancel)  # the reply of the step
        self._steps = steps  # of the session, which count this step
        self._make_reply = make_reply  # called with the result
        self._error: OpError | None = None
        self._finishing: asyncio.Task[None] | None = None
        steps.life.begin(self)

    def cancel(self, error: OpError) -> None:
        """End the step with this error, if it has not ended; only the first error counts."""
        raise NotImplementedError

    def _finish_in_task(self, begun: Pending) -> None:
        self._finishing = asyncio.get_running_loop().create_task(self._finish(begun))

    async def _finish(self, begun: Pending) -> None:
        try:
            result: list[Any] | OpError = await begun.finish()
        except asyncio.CancelledError:
            self._set_result(self._error or CancelledError("the step was cancelled"))
            raise
        except BaseException as error:
            result = from_exception(error)
        self._set_result(result)

    def _set_result(self, result: list[Any] | OpError) -> None:
        self._steps.on_step_ended(self)
        try:
            reply = self._make_reply(result)
        except Exception as error:
            reply = from_exception(error)
        self.answer.set_reply(reply)


class _EventStep(_StepUnderWay):
    """A step that is done when the last value arrives; a task copies large values."""

    __slots__ = ("_begun",)

    def __init__(self, begun: Begun, steps: Steps, make_reply: MakeReply) -> None:
        super().__init__(steps, make_reply)
        self._begun = begun  # the step's runs
        if begun.has_ended:  # done, but its values are large
            self._on_ended()
        else:
            begun.when_over(self._on_ended)

    def cancel(self, error: OpError) -> None:
        if self._error is None and not self._begun.has_ended:
            self._error = error
            self._begun.fail(asyncio.CancelledError())

    def _on_ended(self) -> None:
        result = _result(self._begun, self._error)
        if result is None:
            self._finish_in_task(self._begun)
        else:
            self._set_result(result)


class _TaskStep(_StepUnderWay):
    """A step that a task runs, all of it or its rest."""

    __slots__ = ()

    def __init__(self, rest: Pending, steps: Steps, make_reply: MakeReply) -> None:
        super().__init__(steps, make_reply)
        self._finish_in_task(rest)

    def cancel(self, error: OpError) -> None:
        assert self._finishing is not None
        if self._error is None:
            self._error = error
            # After the task has begun: otherwise the resources of the run would not be released.
            asyncio.get_running_loop().call_soon(self._finishing.cancel)
