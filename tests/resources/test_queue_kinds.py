"""Padding, shuffling and priority queues: the next element, the number of available ones, and returned elements."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aioexec import dtypes
from aioexec.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from aioexec.resources.priority_queue import PriorityQueue
from aioexec.resources.queues import FIFOQueue, PaddingFIFOQueue, Queue, RandomShuffleQueue
from aioexec.resources.waiting import Attempt


def shuffling(least: int = 0, capacity: int = -1, seed: int = 1) -> RandomShuffleQueue:
    below = random.Random(seed).randrange

    def choose(size: int, count: int) -> list[int]:
        return [below(size - k) for k in range(count)]

    return RandomShuffleQueue(
        "q", [dtypes.int32], [()], capacity, min_after_dequeue=least, seeds=(seed, 0), choose=choose
    )


def by_priority(capacity: int = -1) -> PriorityQueue:
    return PriorityQueue("q", [dtypes.int32], [()], capacity)


def waits(outcome: Any) -> Attempt:
    assert isinstance(outcome, Attempt)
    assert not outcome.is_done
    return outcome


def seconds(elements: Any) -> list[int]:
    return [element[1] for element in elements]


# Padding


def test_a_padding_queue_wants_a_shape_of_known_rank_for_each_component():
    assert PaddingFIFOQueue("q", [dtypes.int32], [(None, 2)]).dims == ((None, 2),)
    with pytest.raises(InvalidArgumentError, match="received 1 dtypes and 0 shapes"):
        PaddingFIFOQueue("q", [dtypes.int32])
    with pytest.raises(InvalidArgumentError, match="must have known rank"):
        PaddingFIFOQueue("q", [dtypes.int32], [None])


def test_other_queues_want_shapes_that_are_known():
    assert FIFOQueue("q", [dtypes.int32], [None]).dims == ((),)
    with pytest.raises(InvalidArgumentError, match="is not fully defined"):
        FIFOQueue("q", [dtypes.int32], [(None, 2)])


# Shuffling


def test_a_shuffling_queue_gives_each_element_once_in_the_order_of_its_seed():
    orders = []
    for seed in (1, 1, 2):
        queue = shuffling(seed=seed)
        queue.enqueue_many([(k,) for k in range(20)])
        taken = queue.dequeue_many(20)
        assert isinstance(taken, list)
        orders.append([element[0] for element in taken])

    assert sorted(orders[0]) == list(range(20))
    assert orders[0] == orders[1] != orders[2]


def test_some_elements_are_left_until_the_queue_is_closed():
    queue = shuffling(least=2)
    queue.enqueue_many([(k,) for k in range(3)])
    assert queue.can_dequeue_now
    queue.dequeue()
    one, many = waits(queue.dequeue()), waits(queue.dequeue_up_to(5))
    queue.check_invariants()

    queue.close()

    assert isinstance(one.outcome(), tuple)
    assert len(many.outcome()) == 1
    with pytest.raises(
        OutOfRangeError, match=r"RandomShuffleQueue 'q' is closed .*\(requested 1, current size 0\)"
    ):
        queue.dequeue()


@pytest.mark.parametrize(("capacity", "least"), [(2, 2), (2, 3), (5, -1)])
def test_as_many_as_the_queue_holds_cannot_be_left(capacity: int, least: int):
    with pytest.raises(InvalidArgumentError, match="min_after_dequeue"):
        shuffling(least, capacity)


# Priority


def test_the_lowest_priority_comes_first_and_of_equals_the_first():
    queue = by_priority()
    queue.enqueue_many([(5, 1), (3, 2), (5, 3), (1, 4), (3, 5)])

    taken = queue.dequeue_many(5)

    assert isinstance(taken, list)
    assert seconds(taken) == [4, 2, 5, 1, 3]


def test_what_is_put_back_comes_before_its_equals_again():
    queue = by_priority()
    queue.enqueue_many([(1, 1), (1, 2), (1, 3), (0, 4)])
    taken = queue.dequeue_many(3)
    assert isinstance(taken, list)

    queue.give_back(taken)

    again = queue.dequeue_many(4)
    assert isinstance(again, list)
    assert seconds(again) == [4, 1, 2, 3]


def test_who_asks_for_many_gets_the_lowest_of_all_that_came_until_there_were_enough():
    queue = by_priority()
    queue.enqueue((5, 1))
    many = waits(queue.dequeue_many(2))
    one = waits(queue.dequeue())
    assert not queue.can_dequeue_now

    queue.enqueue((1, 2))
    assert seconds(many.outcome()) == [2, 1]
    queue.enqueue((7, 3))

    assert one.outcome() == (7, 3)


def test_a_closed_priority_queue_gives_what_it_has():
    queue = by_priority()
    queue.enqueue((2, 1))
    queue.close()

    with pytest.raises(OutOfRangeError, match=r"\(requested 2, current size 1\)"):
        queue.dequeue_many(2)
    assert queue.dequeue_up_to(2) == [(2, 1)]
    with pytest.raises(CancelledError, match="PriorityQueue 'q' is closed"):
        queue.enqueue((1, 1))


def test_a_priority_queue_wants_a_shape_for_each_component():
    with pytest.raises(InvalidArgumentError, match="Different number of component types"):
        PriorityQueue("q", [dtypes.int32, dtypes.int32], [()])


# Any order of events

VERBS = ["enqueue", "enqueue_many", "dequeue", "dequeue_many", "dequeue_up_to", "leave", "undo"]


class Account:
    """Runs events on a queue; every element is in the queue, outside, or delivered, and only in one of them."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.made = 0
        self.delivered: list[int] = []
        self.served: list[Attempt] = []
        self.waiting: list[Attempt] = []

    def run(self, verb: str, count: int) -> None:
        try:
            outcome = self.act(verb, count)
        except OpError:
            outcome = None
        if isinstance(outcome, Attempt):
            self.waiting.append(outcome)
        elif verb.startswith("dequeue") and outcome is not None:
            self.delivered += seconds([outcome] if isinstance(outcome, tuple) else outcome)
        self.look_who_was_served()
        self.queue.check_invariants()

    def look_who_was_served(self) -> None:
        for attempt in [each for each in self.waiting if each.is_done]:
            self.waiting.remove(attempt)
            if attempt.error is None and attempt.result is not None:
                self.served.append(attempt)

    def all_leave(self) -> None:
        while self.waiting:
            self.queue.withdraw(self.waiting.pop())
            self.look_who_was_served()

    def act(self, verb: str, count: int) -> Any:
        if verb in ("enqueue", "enqueue_many"):
            first, self.made = self.made, self.made + (1 if verb == "enqueue" else count)
            elements = [(n % 3, n) for n in range(first, self.made)]
            return self.queue.enqueue(elements[0]) if verb == "enqueue" else self.queue.enqueue_many(elements)
        if verb == "leave":
            return self.waiting and self.queue.withdraw(self.waiting.pop(count % len(self.waiting)))
        if verb == "undo":
            return self.served and self.queue.undo(self.served.pop())
        if verb == "dequeue":
            return self.queue.dequeue()
        return getattr(self.queue, verb)(count)

    def taken(self) -> list[int]:
        results = [attempt.result for attempt in self.served]
        return self.delivered + [
            n for each in results for n in seconds([each] if isinstance(each, tuple) else each)
        ]


@given(
    st.sampled_from(["shuffling", "priority"]),
    st.integers(0, 3),
    st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 4)), max_size=40),
)
def test_in_any_order_of_events_nothing_is_lost_and_nothing_comes_twice(
    kind: str, least: int, events: list[tuple[str, int]]
):
    queue = shuffling(least) if kind == "shuffling" else by_priority()
    account = Account(queue)

    for verb, count in events:
        account.run(verb, count)

    account.all_leave()
    queue.close()
    left = queue.dequeue_up_to(queue.size)
    assert isinstance(left, list)
    assert sorted(account.taken() + seconds(left)) == list(range(account.made))


@given(st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 4)), max_size=40), st.integers(4, 6))
def test_a_queue_of_some_capacity_keeps_its_invariants(events: list[tuple[str, int]], capacity: int):
    for queue in (shuffling(2, capacity), by_priority(capacity)):
        account = Account(queue)

        for verb, count in events:
            account.run(verb, count)

        account.all_leave()
        queue.check_invariants()
