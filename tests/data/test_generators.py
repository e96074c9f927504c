"""Datasets of Python generators, plain and asynchronous: elements, ends, what is left when a session closes."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, InvalidArgumentError
from aioexec.testing import all_tasks_blocked
from tests.data.elements import elements, rest

Dataset = ax.data.Dataset


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


async def test_a_plain_generator_is_started_for_each_repetition():
    starts = 0

    def generator() -> Any:
        nonlocal starts
        starts += 1
        for k in range(3):
            yield k, {"row": np.arange(k), "name": "x" * k}

    types = (ax.int32, {"row": ax.float32, "name": ax.string})
    dataset = Dataset.from_generator(generator, types, ([], {"row": [None], "name": []}))

    one = [(k, {"row": [float(each) for each in range(k)], "name": b"x" * k}) for k in range(3)]
    assert await elements(dataset.repeat(2)) == one * 2
    assert starts == 2


async def test_arguments_are_values_of_tensors():
    dataset = Dataset.from_generator(range, ax.int64, [], args=(2, ax.constant(6) + 1, 2))

    assert await elements(dataset) == [2, 4, 6]


async def test_an_asynchronous_generator_runs_on_the_event_loop():
    numbers: asyncio.Queue[int | None] = asyncio.Queue()

    async def generator(first: Any) -> Any:
        yield first
        while (number := await numbers.get()) is not None:
            yield number

    dataset = Dataset.from_generator(generator, ax.int64, [], args=(ax.constant(7, ax.int64),)).batch(2)
    element = dataset.make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        step = asyncio.create_task(session.run(element))
        await all_tasks_blocked()
        assert not step.done()
        numbers.put_nowait(8)
        assert (await step).tolist() == [7, 8]
        waiting = asyncio.create_task(session.run(element))
        await all_tasks_blocked()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        for number in (9, 10, 11, None):
            numbers.put_nowait(number)
        assert await rest(session, element) == [[9, 10], [11]]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("how", ["end", "close", "initialize"])
async def test_a_generator_is_closed(is_async: bool, how: str):
    closed = asyncio.Event()
    loop = asyncio.get_running_loop()

    def plain() -> Any:
        try:
            yield from range(3)
        finally:
            loop.call_soon_threadsafe(closed.set)

    async def asynchronous() -> Any:
        try:
            for k in range(3):
                yield k
        finally:
            await asyncio.sleep(0)
            closed.set()

    generator: Any = asynchronous if is_async else plain
    iterator = Dataset.from_generator(generator, ax.int64, []).prefetch(1).make_initializable_iterator()
    element = iterator.get_next()

    async with ax.Session() as session:
        await session.run(iterator.initializer)
        assert await session.run(element) == 0
        if how == "end":
            assert await rest(session, element) == [1, 2]
        elif how == "initialize":
            await session.run(iterator.initializer)
            await closed.wait()
    await closed.wait()


async def test_a_generator_that_waits_forever_ends_with_the_session():
    waits, ended = asyncio.Event(), False

    async def generator() -> Any:
        nonlocal ended
        yield 1
        waits.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended = True

    element = Dataset.from_generator(generator, ax.int64, []).prefetch(2).make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        assert await session.run(element) == 1
        await waits.wait()
    assert ended


@pytest.mark.parametrize(
    ("yielded", "text"),
    [
        ({"a": 1}, "did not match the expected structure"),
        ({"x": "a"}, "could not be converted to the expected type"),
        ({"x": [1, 2]}, "of shape .* where an element of shape"),
    ],
)
async def test_what_does_not_match_is_refused(yielded: Any, text: str):
    element = (
        Dataset.from_generator(lambda: iter([yielded]), {"x": ax.int32}, {"x": []})
        .make_one_shot_iterator()
        .get_next()
    )

    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match=text):
            await session.run(element)


async def test_errors_of_a_generator_are_those_of_the_step():
    def generator() -> Any:
        yield 1
        raise KeyError("no such row")

    element = Dataset.from_generator(generator, ax.int32, []).make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        assert await session.run(element) == 1
        with pytest.raises(ax.errors.OpError, match="no such row"):
            await session.run(element)


def test_a_generator_is_a_function():
    with pytest.raises(GraphTypeError, match="`generator` must be callable"):
        Dataset.from_generator([1, 2], ax.int32)  # type: ignore[arg-type]
