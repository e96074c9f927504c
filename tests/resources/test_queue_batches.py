"""Batches of elements: as one by one, over several loop iterations, and nothing is lost when callers are cancelled."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import OutOfRangeError
from aioexec.ops.common.copies import free_in_slices
from aioexec.ops.containers.queues import _Choices
from aioexec.resources.priority_queue import PriorityQueue
from aioexec.resources.queues import FIFOQueue, Queue, RandomShuffleQueue
from aioexec.resources.waiting import Attempt, waiting

MANY = 1000


def fifo(capacity: int = -1) -> FIFOQueue:
    return FIFOQueue("q", [dtypes.int32], [()], capacity)


def by_priority() -> PriorityQueue:
    return PriorityQueue("q", [dtypes.int32], [()])


def shuffling() -> RandomShuffleQueue:
    seeds = (3, 4)
    return RandomShuffleQueue(
        "q", [dtypes.int32], [()], min_after_dequeue=0, seeds=seeds, choose=_Choices(seeds)
    )


def singles(count: int, first: int = 0) -> list[Any]:
    return [(k,) for k in range(first, first + count)]


def with_priorities(count: int, seed: int) -> list[Any]:
    draw = random.Random(seed)
    return [(draw.randrange(50), 1000 * seed + k) for k in range(count)]


def in_order(elements: list[Any]) -> list[Any]:
    return sorted(elements, key=lambda element: element[0])  # stable: of equals the one that came first


# By priority


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("counts", [(300,), (300, 100, 200), (1, 300, 1, 1), (100, 5, 100), (70, 70, 70)])
def test_batches_come_out_as_if_their_elements_had_come_alone(counts: tuple[int, ...], prepared: bool):
    queue, came = by_priority(), []
    for seed, count in enumerate(counts):
        elements = with_priorities(count, seed)
        came += elements
        firsts = np.array([element[0] for element in elements])
        queue.enqueue_many(queue.prepared(elements, firsts) if prepared else elements)
        queue.check_invariants()

    taken: Any = queue.dequeue_many(sum(counts) - 10)
    queue.check_invariants()
    taken += [queue.dequeue() for _ in range(10)]

    assert taken == in_order(came)
    assert queue.size == 0


def test_many_that_are_put_back_come_before_their_equals_again():
    queue, came = by_priority(), with_priorities(300, 1) + with_priorities(300, 2)
    queue.enqueue_many(came)
    taken: Any = queue.dequeue_many(200)

    queue.give_back(taken)
    queue.enqueue((0, 7))

    expected = in_order([*came, (0, 7)])
    assert queue.dequeue_many(601) == expected


def test_a_batch_that_finds_no_room_goes_in_one_by_one_as_it_came():
    queue = PriorityQueue("q", [dtypes.int32], [()], 100)
    elements = with_priorities(300, 1)
    attempt = queue.enqueue_many(queue.prepared(elements, np.array([element[0] for element in elements])))
    assert isinstance(attempt, Attempt)

    assert queue.dequeue_many(100) == in_order(elements[:100])
    assert queue.dequeue_many(100) == in_order(elements[100:200])
    assert queue.dequeue_many(100) == in_order(elements[200:])
    assert attempt.is_done


# In random order


def test_many_are_chosen_as_they_would_be_one_by_one():
    together, alone = shuffling(), shuffling()
    for queue in (together, alone):
        queue.enqueue_many(singles(MANY))

    taken: Any = [together.dequeue(), *together.dequeue_many(700), together.dequeue()]
    taken += together.dequeue_many(30)
    taken += together.dequeue_many(268)

    assert taken == [alone.dequeue() for _ in range(MANY)]


# Over several loop iterations


@pytest.fixture(params=[fifo, shuffling])
def queue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Queue:
    made: Queue = request.param()
    monkeypatch.setattr(type(made), "max_per_turn", 100)
    made.enqueue_many(singles(MANY))
    return made


async def test_many_are_taken_in_several_turns_and_others_wait_behind(queue: Queue):
    many, one = queue.dequeue_many(750), queue.dequeue()
    assert isinstance(many, Attempt)
    assert isinstance(one, Attempt)
    assert queue.size == MANY - 200, "the verb of the second caller served the line, too"

    first, second = await asyncio.gather(waiting(queue, many), waiting(queue, one))

    queue.check_invariants()
    rest: Any = await waiting(queue, queue.dequeue_many(249))
    assert len(first) == 750
    assert sorted([*first, second, *rest]) == singles(MANY)


async def test_who_leaves_between_two_turns_leaves_everything_there(queue: Queue):
    many = waiting(queue, queue.dequeue_many(750))
    assert queue.size < MANY

    many.cancel()

    await asyncio.sleep(0)
    queue.check_invariants()
    assert queue.size == MANY


async def test_who_was_begun_with_enough_elements_gets_them_although_the_queue_is_closed(queue: Queue):
    many, more = queue.dequeue_many(750), queue.dequeue_up_to(500)
    assert isinstance(many, Attempt)
    assert isinstance(more, Attempt)

    queue.close(cancel_pending_enqueues=True)

    assert len(await waiting(queue, many)) == 750
    assert len(await waiting(queue, more)) == 250
    with pytest.raises(OutOfRangeError):
        queue.dequeue()


async def test_a_list_is_emptied_in_several_turns():
    values = singles(5000)

    free_in_slices(values)

    assert len(values) == 3000
    for _ in range(2):
        await asyncio.sleep(0)
    assert values == []
