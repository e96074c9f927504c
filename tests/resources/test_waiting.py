"""Futures of queued callers: served, failed, cancelled before and after."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError, OutOfRangeError
from aioexec.resources.queues import FIFOQueue
from aioexec.resources.waiting import Attempt, waiting


def queue_of(*elements: int, capacity: int = -1) -> FIFOQueue:
    queue = FIFOQueue("q", [dtypes.int32], [()], capacity)
    for element in elements:
        assert queue.enqueue((element,)) is None
    return queue


def waits(outcome: Any) -> Attempt:
    assert isinstance(outcome, Attempt)
    assert not outcome.is_done
    return outcome


def numbers(elements: Any) -> list[int]:
    return [element[0] for element in elements]


def content(queue: FIFOQueue) -> list[int]:
    queue.check_invariants()
    return numbers(queue.dequeue_up_to(queue.size))


async def test_a_future_gets_what_its_attempt_comes_to():
    queue = queue_of()
    future = waiting(queue, waits(queue.dequeue()), finish=lambda element: element[0] + 1)

    queue.enqueue((1,))

    assert await future == 2


async def test_a_future_raises_what_its_attempt_fails_with():
    queue = queue_of()
    future = waiting(queue, waits(queue.dequeue()))

    queue.close()

    with pytest.raises(OutOfRangeError):
        await future


async def test_what_goes_wrong_with_a_result_is_the_waiting_callers_and_gives_it_back():
    queue = queue_of()

    def finish(element: Any) -> Any:
        raise InvalidArgumentError("no such result")

    future = waiting(queue, waits(queue.dequeue()), finish)

    assert queue.enqueue((1,)) is None

    with pytest.raises(InvalidArgumentError, match="no such result"):
        await future
    assert content(queue) == [1]


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_a_cancelled_task_is_passed_over_at_once_and_the_others_keep_their_order(cancelled: int):
    queue = queue_of()

    async def dequeue() -> Any:
        return await waiting(queue, waits(queue.dequeue()))

    tasks = [asyncio.create_task(dequeue()) for _ in range(3)]
    await asyncio.sleep(0)

    tasks[cancelled].cancel()
    queue.enqueue_many([(1,), (2,)])  # before the cancelled task has had its turn

    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(results.pop(cancelled), asyncio.CancelledError)
    assert results == [(1,), (2,)]
    queue.check_invariants()


async def test_cancelling_a_future_puts_back_what_its_attempt_took():
    queue = queue_of(1, 2)
    future = waiting(queue, waits(queue.dequeue_many(3)))

    assert future.cancel()

    assert content(queue) == [1, 2]
    assert not future.cancel()
    queue.enqueue((3,))
    assert queue.size == 1


async def test_a_task_that_was_served_after_it_was_cancelled_gives_the_element_back():
    queue = queue_of()

    async def dequeue() -> Any:
        return await waiting(queue, waits(queue.dequeue()))

    async def through_another_future() -> Any:
        future = waiting(queue, waits(queue.dequeue()))
        try:
            await asyncio.shield(future)
        finally:
            future.cancel()

    tasks = [asyncio.create_task(through_another_future()), asyncio.create_task(dequeue())]
    await asyncio.sleep(0)
    queue.enqueue_many([(1,), (2,)])

    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in results] == [asyncio.CancelledError] * 2
    assert sorted(content(queue)) == [1, 2]


async def test_a_result_that_was_taken_is_not_given_back():
    queue = queue_of()
    awaited, looked_at = (waiting(queue, waits(queue.dequeue())) for _ in range(2))
    queue.enqueue_many([(1,), (2,)])

    assert await awaited == (1,)
    assert looked_at.result() == (2,)
    for future in (awaited, looked_at):
        assert not future.cancel()

    assert queue.size == 0


async def test_what_was_brought_stays_though_the_result_is_not_read():
    queue = queue_of(1, capacity=1)
    future = waiting(queue, waits(queue.enqueue((2,))))
    queue.dequeue()

    assert not future.cancel()

    assert content(queue) == [2]
