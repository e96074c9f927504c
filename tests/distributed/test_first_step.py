"""Tasks that run their first step synchronously behave like any other task."""

import asyncio
from contextvars import ContextVar

import pytest

from aioexec.distributed.transport.first_step import begin

pytestmark = pytest.mark.both_loops

variable = ContextVar("variable", default=0)


def in_callback(coroutine):
    """A future of the task that `begin` makes where no task runs."""
    loop = asyncio.get_running_loop()
    made = loop.create_future()
    loop.call_soon(lambda: made.set_result(begin(coroutine)))
    return made


async def test_what_does_not_wait_is_over_at_once():
    done = []

    async def work():
        done.append(asyncio.current_task())
        return 7

    loop = asyncio.get_running_loop()
    made = loop.create_future()

    def call():
        task = begin(work())
        made.set_result((task, list(done)))

    loop.call_soon(call)
    task, done_then = await made
    assert done_then == [task]
    assert await task == 7


async def test_what_waits_goes_on_like_any_task():
    event = asyncio.Event()

    async def work():
        variable.set(5)
        async with asyncio.timeout(10):
            await event.wait()
        await asyncio.sleep(0)
        return variable.get()

    task = await in_callback(work())
    event.set()

    assert await task == 5
    assert variable.get() == 0


async def test_an_error_of_the_first_step_is_the_tasks():
    async def fail():
        raise ValueError("no")

    task = await in_callback(fail())

    with pytest.raises(ValueError, match="no"):
        await task


@pytest.mark.parametrize("turns", range(4))
async def test_cancelling_reaches_what_it_waits_for(turns):
    story = []
    loop = asyncio.get_running_loop()
    inner = loop.create_future()

    async def work():
        try:
            await inner
        except asyncio.CancelledError:
            story.append("cancelled")
            await asyncio.sleep(0)
            story.append("tidied up")
            raise

    made = loop.create_future()

    def call():
        task = begin(work())
        if turns == 0:
            task.cancel()
        made.set_result(task)

    loop.call_soon(call)
    task = await made
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert inner.cancelled()
    assert story[0] == "cancelled"
    assert turns == 0 or story == [
        "cancelled",
        "tidied up",
    ]  # cancelled twice at 0: in its tidying up as well


async def test_cancelling_a_bare_turn():
    async def work():
        await asyncio.sleep(0)
        await asyncio.sleep(100)

    loop = asyncio.get_running_loop()
    made = loop.create_future()

    def call():
        task = begin(work())
        task.cancel()
        made.set_result(task)

    loop.call_soon(call)
    with pytest.raises(asyncio.CancelledError):
        await (await made)


async def test_a_timeout_begun_in_the_first_step_ends_what_it_surrounds():
    async def work():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.sleep(100)
        return "in time"

    assert await (await in_callback(work())) == "in time"


async def test_cancelled_after_it_was_over_it_has_its_result():
    async def work():
        return 1

    loop = asyncio.get_running_loop()
    made = loop.create_future()

    def call():
        task = begin(work())
        task.cancel()
        made.set_result(task)

    loop.call_soon(call)
    assert await (await made) == 1
