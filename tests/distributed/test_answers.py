"""Replies without a task: awaited and cancelled like coroutines, or passed to a callback in the same loop iteration."""

import asyncio
from typing import Any

import pytest

from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import CancelledError, InternalError
from aioexec.formats.protos import RunStepResponse
from aioexec.testing import all_tasks_blocked

PAYLOAD = Payload(RunStepResponse())


async def awaited(answer: Answer) -> Payload:
    return await answer


async def test_one_that_is_there_is_had_without_a_turn_of_the_loop() -> None:
    coroutine = awaited(Answer(reply=PAYLOAD))

    with pytest.raises(StopIteration) as had:
        coroutine.send(None)

    assert had.value.value is PAYLOAD


async def test_an_error_is_raised_in_the_waiter() -> None:
    with pytest.raises(InternalError, match="no luck"):
        await Answer(reply=InternalError("no luck"))


async def test_all_waiters_are_notified_at_once() -> None:
    answer = Answer(lambda error: None)
    received: list[Any] = []
    answer.add_callback(received.append)
    waiting, over = asyncio.create_task(awaited(answer)), answer.as_future()
    await all_tasks_blocked()

    answer.set_reply(PAYLOAD)

    assert received == [PAYLOAD]
    assert over.done()
    assert await waiting is PAYLOAD


async def test_a_cancelled_waiter_stops_the_work_and_waits_for_its_end() -> None:
    stopped: list[Any] = []
    answer = Answer(stopped.append)
    waiting = asyncio.create_task(awaited(answer))
    await all_tasks_blocked()

    waiting.cancel()
    await all_tasks_blocked()
    waiting.cancel()
    await all_tasks_blocked()

    assert [type(each) for each in stopped] == [CancelledError] * 2
    assert not waiting.done()
    answer.set_reply(stopped[0])
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_one_that_is_there_cannot_be_stopped() -> None:
    stopped: list[Any] = []
    answer = Answer(stopped.append)
    answer.set_reply(PAYLOAD)

    answer.cancel()

    assert not stopped
    assert await answer is PAYLOAD
