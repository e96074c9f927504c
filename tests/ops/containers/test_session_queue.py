"""Queues as application code uses them, beside the steps of a graph."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import CancelledError, GraphValueError, InvalidArgumentError, OutOfRangeError
from aioexec.testing import all_tasks_blocked


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def numbers(capacity: int = 10, **options: Any) -> ax.FIFOQueue:
    return ax.FIFOQueue(capacity, ax.int32, shapes=[[]], **options)


async def test_a_graph_works_off_what_the_application_puts():
    todo, done = numbers(), numbers()
    work = done.enqueue(todo.dequeue() * 10)
    async with ax.Session() as session:
        tasks, results = todo.in_session(session), done.in_session(session)

        for n in range(3):
            await tasks.put(n)
            await session.run(work)
        await results.close()

        assert [int(n) async for n in results] == [0, 10, 20]


async def test_components_are_lists_and_with_names_dicts():
    plain = ax.FIFOQueue(5, [ax.int32, ax.string], shapes=[[2], []])
    named = ax.FIFOQueue(5, [ax.int32, ax.string], shapes=[[2], []], names=["n", "text"])
    async with ax.Session() as session:
        first, second = plain.in_session(session), named.in_session(session)
        await first.put(([1, 2], "a"))
        await second.put({"text": "b", "n": [3, 4]})

        numbers_, text = await first.get()
        element = await second.get()

    assert (numbers_.tolist(), text) == ([1, 2], b"a")
    assert (element["n"].tolist(), element["text"]) == ([3, 4], b"b")


async def test_who_waits_for_an_element_is_served_in_turn_with_the_steps():
    queue = numbers()
    dequeue = queue.dequeue()
    async with ax.Session() as session:
        inside = queue.in_session(session)
        for taking in (session.run(dequeue), inside.get()):  # planned
            await inside.put(0)
            await taking
        first = asyncio.create_task(inside.get())
        await all_tasks_blocked()
        second = asyncio.create_task(session.run(dequeue))
        await all_tasks_blocked()

        await inside.put(1)
        await inside.put(2)

        assert [await first, await second] == [1, 2]


async def test_who_leaves_takes_nothing_along():
    queue = numbers()
    async with ax.Session() as session:
        inside = queue.in_session(session)
        await inside.put(0)
        await inside.get()  # planned
        leaving = asyncio.create_task(inside.get())
        staying = asyncio.create_task(inside.get())
        await all_tasks_blocked()

        leaving.cancel()
        await inside.put(1)

        assert await staying == 1
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert await inside.size() == 0


async def test_putting_waits_for_room():
    queue = numbers(capacity=1)
    async with ax.Session() as session:
        inside = queue.in_session(session)
        await inside.put(1)  # planned
        waiting = asyncio.create_task(inside.put(2))
        await all_tasks_blocked()
        assert not waiting.done()

        assert await inside.get() == 1
        await waiting
        assert await inside.get() == 2


async def test_what_does_not_go_in_or_come_out_is_said_as_by_the_nodes():
    queue = ax.FIFOQueue(5, [ax.int32])
    async with ax.Session() as session:
        inside = queue.in_session(session)
        with pytest.raises(GraphValueError, match="expected 1 components, got 2"):
            await inside.put((1, 2))
        await inside.close()

        with pytest.raises(CancelledError, match="is closed"):
            await inside.put(1)
        with pytest.raises(OutOfRangeError, match="is closed and has insufficient elements"):
            await inside.get()
        with pytest.raises(CancelledError, match="already closed"):
            await inside.close()
        await inside.close(cancel_pending_enqueues=True)


async def test_closing_the_session_ends_who_waits():
    queue = numbers()
    session = ax.Session()
    inside = queue.in_session(session)
    await inside.put(0)
    await inside.get()  # planned
    waiting = asyncio.create_task(inside.get())
    await all_tasks_blocked()

    await session.close(grace=0)

    with pytest.raises(CancelledError):
        await waiting


async def test_the_default_session_is_meant_where_none_is_named():
    queue = numbers()
    with pytest.raises(GraphValueError, match="in_session needs a session"):
        queue.in_session()
    async with ax.Session():
        inside = queue.in_session()
        await inside.put(4)

        assert await inside.get() == 4


async def test_an_element_of_another_shape_is_refused():
    queue = ax.PaddingFIFOQueue(5, [ax.int32], shapes=[[None, 2]])
    async with ax.Session() as session:
        inside = queue.in_session(session)

        with pytest.raises((InvalidArgumentError, GraphValueError)):
            await inside.put(np.array([1, 2]))
        await inside.put(np.array([[1, 2]]))

        assert (await inside.get()).tolist() == [[1, 2]]
