"""Tasks owned by a session: they end when it is closed, before it waits for its runs."""

from __future__ import annotations

import asyncio

import pytest

import aioexec as ax
from aioexec.errors import CancelledError
from aioexec.testing import all_tasks_blocked


async def test_a_task_that_would_keep_its_session_open_for_ever_ends_with_it():
    with ax.Graph().as_default():
        queue = ax.FIFOQueue(1, ax.int32, shapes=())
        enqueue = queue.enqueue(1)
        session = ax.Session()

    async def fill() -> None:
        while True:
            await session.run(enqueue)

    task = asyncio.create_task(fill())
    session.own(task)
    await all_tasks_blocked()

    await session.close()

    assert task.cancelled()


async def test_a_session_that_was_never_used_ends_its_tasks_too():
    with ax.Graph().as_default():
        session = ax.Session()
    task = asyncio.create_task(asyncio.sleep(1000))
    session.own(task)

    await session.close()

    assert task.cancelled()


async def test_a_task_may_close_the_session_that_owns_it():
    with ax.Graph().as_default():
        session = ax.Session()
    task = asyncio.create_task(session.close())
    session.own(task)

    await task

    with pytest.raises(CancelledError, match="closed"):
        await session.run(())


async def test_a_task_that_takes_its_time_is_waited_for_and_its_error_is_its_own():
    with ax.Graph().as_default():
        session = ax.Session()
    may_end = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            await may_end.wait()
            raise KeyError("its own") from None

    task = asyncio.create_task(stubborn())
    session.own(task)
    await all_tasks_blocked()
    closing = asyncio.create_task(session.close())
    await all_tasks_blocked()
    assert not closing.done()

    may_end.set()
    await closing
    with pytest.raises(KeyError):
        await task
