"""Steps that a server runs without a task: the caller gets one reply, and the session releases them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aioexec.distributed.transport.transport import Payload
from aioexec.distributed.worker.event_steps import answer_of
from aioexec.errors import (
    AbortedError,
    CancelledError,
    InternalError,
    OpError,
    ResourceExhaustedError,
    UnknownError,
)
from aioexec.execution import begun as begun_steps
from aioexec.execution.programs.program_run import ProgramRun
from aioexec.formats.protos import RunStepResponse
from aioexec.sessions.steps import Steps
from aioexec.testing import all_tasks_blocked


class Begun(begun_steps.Begun):
    """A begun step that ends when a test calls `comes` with values or an error; `is_large`: the values are large."""

    has_ended = False

    def __init__(self, *, is_large: bool = False) -> None:
        self.is_large = is_large
        self.failures: list[BaseException] = []
        self.finishing: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._came: Any = None
        self._callback: Callable[[], object] | None = None

    def comes(self, result: Any) -> None:
        self.has_ended, self._came = True, result
        if self._callback is not None:
            self._callback()

    def results_nowait(self) -> list[Any] | None:
        if not self.has_ended or self.is_large:
            return None
        if isinstance(self._came, BaseException):
            raise self._came
        found: list[Any] = self._came
        return found

    async def finish(self) -> list[Any]:
        return await self.finishing

    def when_over(self, callback: Callable[[], object]) -> None:
        self._callback = callback

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)


class Rest(ProgramRun):
    """The rest of a run, which ends when a test sets `finishing`."""

    def __init__(self) -> None:
        self.has_begun = False
        self.finishing: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    async def finish(self) -> list[Any]:
        self.has_begun = True
        return await self.finishing


class Replies:
    """Makes the reply of a step; `results` are its arguments so far."""

    def __init__(self) -> None:
        self.results: list[list[Any] | OpError] = []

    def __call__(self, result: list[Any] | OpError) -> Payload | OpError:
        self.results.append(result)
        return result if isinstance(result, OpError) else Payload(RunStepResponse(), result)


def began(begun: Begun | Rest) -> tuple[Any, Steps, Replies]:
    steps, replies = Steps(), Replies()
    return answer_of(begun, steps, replies), steps, replies


async def test_a_step_is_over_in_the_turn_in_which_its_last_value_comes() -> None:
    begun = Begun()
    answer, steps, _ = began(begun)
    assert steps.life.under_way

    begun.comes([1])

    assert answer.reply.tensors == [1]
    assert not steps.life.under_way


@pytest.mark.parametrize("is_over", [True, False], ids=["at once", "later"])
async def test_whatever_a_kernel_has_raised_is_reported_as_an_error(is_over: bool) -> None:
    begun = Begun()
    if is_over:
        begun.comes(SystemExit("enough"))

    answer, steps, _ = began(begun)
    if not is_over:
        begun.comes(SystemExit("enough"))

    assert isinstance(answer.reply, UnknownError)
    assert "enough" in answer.reply.message
    assert not steps.life.under_way


async def test_the_first_reason_to_end_is_reported() -> None:
    begun = Begun()
    answer, steps, replies = began(begun)
    reason = AbortedError("the session ends")

    steps.cancel(reason)
    answer.cancel()
    (failure,) = begun.failures
    begun.comes(failure)

    assert replies.results == [reason]


async def test_large_values_are_finished_in_a_task() -> None:
    begun = Begun(is_large=True)
    begun.comes([])
    answer, steps, _ = began(begun)
    await all_tasks_blocked()
    assert answer.reply is None
    assert steps.life.under_way

    begun.finishing.set_result([2])

    assert (await answer).tensors == [2]
    assert not steps.life.under_way


@pytest.mark.parametrize(
    ("error", "expected"),
    [(InternalError("no"), InternalError), (MemoryError("all used"), ResourceExhaustedError)],
)
async def test_large_values_that_cannot_be_had_are_an_error_of_the_step_alone(
    error: Exception, expected: type[OpError]
) -> None:
    begun = Begun(is_large=True)
    begun.comes([])
    answer, steps, replies = began(begun)

    begun.finishing.set_exception(error)
    await all_tasks_blocked()

    assert type(answer.reply) is expected
    assert len(replies.results) == 1
    assert not steps.life.under_way


async def test_a_cancellation_is_ignored_while_the_values_of_a_step_are_copied() -> None:
    begun = Begun(is_large=True)
    begun.comes([])
    answer, _, replies = began(begun)
    await all_tasks_blocked()

    answer.cancel()
    assert not begun.failures
    begun.finishing.cancel()  # as when the loop ends
    await all_tasks_blocked()

    assert [type(each) for each in replies.results] == [CancelledError]


async def test_a_reply_may_end_what_it_is_made_of() -> None:
    begun = Begun()

    def make_reply(result: list[Any] | OpError) -> Payload | OpError:
        answer.cancel()
        return Payload(RunStepResponse(), [])

    answer = answer_of(begun, Steps(), make_reply)

    begun.comes([1])

    assert not begun.failures
    assert isinstance(answer.reply, Payload)


# A run of which a task does the rest


async def test_the_rest_of_a_run_is_done_in_a_task() -> None:
    rest = Rest()
    answer, steps, replies = began(rest)
    await all_tasks_blocked()
    assert answer.reply is None
    assert steps.life.under_way

    rest.finishing.set_result([3])

    assert (await answer).tensors == [3]
    assert replies.results == [[3]]
    assert not steps.life.under_way


async def test_a_run_that_fails_is_reported_as_an_error() -> None:
    rest = Rest()
    answer, steps, _ = began(rest)

    rest.finishing.set_exception(InternalError("no"))
    await all_tasks_blocked()

    assert isinstance(answer.reply, InternalError)
    assert not steps.life.under_way


async def test_a_run_that_is_to_end_before_its_task_has_begun_ends_in_it_for_the_first_reason() -> None:
    rest = Rest()
    answer, steps, replies = began(rest)
    reason = AbortedError("the session ends")

    steps.cancel(reason)
    answer.cancel()
    await all_tasks_blocked()

    assert rest.has_begun
    assert rest.finishing.cancelled()
    assert replies.results == [reason]
    assert not steps.life.under_way
