"""FIFO queues: order, capacity, closing, and cancelled callers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec import dtypes
from aioexec.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from aioexec.resources.queues import FIFOQueue
from aioexec.resources.waiting import Attempt


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


# Order and capacity


def test_elements_leave_in_the_order_they_came():
    queue = queue_of(1, 2, 3)

    assert [queue.dequeue() for _ in range(3)] == [(1,), (2,), (3,)]


def test_who_dequeues_from_an_empty_queue_waits_for_the_next_element():
    queue = queue_of()
    first, second = waits(queue.dequeue()), waits(queue.dequeue())

    queue.enqueue((1,))
    assert first.outcome() == (1,)
    assert not second.is_done
    queue.enqueue((2,))
    assert second.outcome() == (2,)


def test_who_enqueues_into_a_full_queue_waits_for_room():
    queue = queue_of(1, capacity=1)
    second, third = waits(queue.enqueue((2,))), waits(queue.enqueue((3,)))

    assert queue.dequeue() == (1,)
    assert second.is_done
    assert not third.is_done
    assert queue.dequeue() == (2,)
    assert third.is_done


def test_a_queue_of_capacity_zero_takes_nothing():
    queue = queue_of(capacity=0)

    waits(queue.enqueue((1,)))
    waits(queue.dequeue())
    queue.check_invariants()


def test_a_batch_goes_in_one_by_one_as_there_is_room():
    queue = queue_of(capacity=2)
    attempt = waits(queue.enqueue_many([(1,), (2,), (3,), (4,)]))
    behind = waits(queue.enqueue((5,)))

    assert queue.size == 2
    assert [queue.dequeue() for _ in range(2)] == [(1,), (2,)]
    assert attempt.is_done
    assert not behind.is_done
    assert [queue.dequeue() for _ in range(3)] == [(3,), (4,), (5,)]


def test_many_elements_are_taken_as_they_come_also_more_than_the_queue_holds():
    queue = queue_of(1, capacity=2)
    attempt = waits(queue.dequeue_many(4))

    assert queue.size == 0
    assert queue.enqueue_many([(2,), (3,), (4,), (5,)]) is None
    assert numbers(attempt.outcome()) == [1, 2, 3, 4]
    assert content(queue) == [5]


def test_who_asks_for_many_is_not_overtaken_by_who_asks_for_one():
    queue = queue_of(1)
    many, one = waits(queue.dequeue_many(2)), waits(queue.dequeue())

    queue.enqueue((2,))
    assert numbers(many.outcome()) == [1, 2]
    assert not one.is_done
    queue.enqueue((3,))
    assert one.outcome() == (3,)


def test_nothing_at_all_is_dequeued_and_enqueued_at_once():
    queue = queue_of()
    waits(queue.dequeue())

    assert queue.dequeue_many(0) == queue.dequeue_up_to(0) == []
    assert queue.enqueue_many([]) is None


def test_a_queue_has_a_shape_for_each_component_or_none():
    with pytest.raises(InvalidArgumentError, match="Expected a shape for each of 2 components, got 1"):
        FIFOQueue("q", [dtypes.int32, dtypes.int32], [()])


# Closing


def test_a_closed_queue_takes_no_more_and_gives_what_it_has():
    queue = queue_of(1)
    assert queue.close() is None

    with pytest.raises(CancelledError, match=r"FIFOQueue 'q' is closed\."):
        queue.enqueue((2,))
    with pytest.raises(CancelledError, match="is closed"):
        queue.enqueue_many([(2,)])
    assert queue.dequeue() == (1,)
    with pytest.raises(
        OutOfRangeError, match=r"is closed and has insufficient elements \(requested 1, current size 0\)"
    ):
        queue.dequeue()
    assert queue.dequeue_many(0) == []


def test_a_closed_queue_gives_as_many_as_asked_for_or_none():
    queue = queue_of(1, 2)
    queue.close()

    with pytest.raises(OutOfRangeError, match=r"insufficient elements \(requested 3, current size 2\)"):
        queue.dequeue_many(3)
    assert content(queue) == [1, 2]


def test_what_a_closed_queue_has_left_is_enough_for_up_to():
    queue = queue_of(1, 2)
    queue.close()

    assert numbers(queue.dequeue_up_to(3)) == [1, 2]
    with pytest.raises(OutOfRangeError, match=r"\(requested 3, current size 0\)"):
        queue.dequeue_up_to(3)


def test_closing_ends_the_wait_of_who_cannot_be_served_and_gives_the_next_what_was_taken():
    queue = queue_of(1, 2)
    many, one, up_to = waits(queue.dequeue_many(3)), waits(queue.dequeue()), waits(queue.dequeue_up_to(5))

    queue.close()

    with pytest.raises(OutOfRangeError, match=r"\(requested 3, current size 2\)"):
        many.outcome()
    assert one.outcome() == (1,)
    assert numbers(up_to.outcome()) == [2]


def test_closing_waits_for_who_came_before_and_turns_away_who_comes_after():
    queue = queue_of(1, capacity=1)
    before, closing, after = waits(queue.enqueue((2,))), waits(queue.close()), waits(queue.enqueue((3,)))
    assert not queue.is_closed

    queue.dequeue()

    assert before.is_done
    assert closing.outcome() is None
    assert queue.is_closed
    with pytest.raises(CancelledError, match="is closed"):
        after.outcome()
    assert content(queue) == [2]


def test_closing_may_cancel_who_waits_to_enqueue():
    queue = queue_of(1, capacity=1)
    pending = waits(queue.enqueue_many([(2,), (3,)]))

    assert queue.close(cancel_pending_enqueues=True) is None

    with pytest.raises(CancelledError, match="Enqueue operation was cancelled"):
        pending.outcome()
    assert content(queue) == [1]


def test_only_the_first_close_succeeds_unless_it_cancels():
    queue = queue_of()
    queue.close()

    assert queue.close(cancel_pending_enqueues=True) is None
    with pytest.raises(CancelledError, match="Queue 'q' is already closed"):
        queue.close()


# Leaving


def test_who_leaves_is_passed_over():
    queue = queue_of()
    attempts = [waits(queue.dequeue()) for _ in range(4)]

    queue.withdraw(attempts[0])
    queue.withdraw(attempts[2])
    queue.enqueue_many([(1,), (2,), (3,)])

    assert [attempts[k].outcome() for k in (1, 3)] == [(1,), (2,)]
    assert content(queue) == [3]


def test_who_leaves_puts_back_what_it_took_for_the_next():
    queue = queue_of(1, 2)
    many, next_one = waits(queue.dequeue_many(3)), waits(queue.dequeue())

    queue.withdraw(many)

    assert next_one.outcome() == (1,)
    assert content(queue) == [2]


def test_what_is_put_back_may_exceed_the_capacity_but_no_more_comes_in():
    queue = queue_of(1, capacity=1)
    many = waits(queue.dequeue_many(3))
    queue.enqueue((2,))

    queue.withdraw(many)

    assert queue.size == 2
    waits(queue.enqueue((3,)))
    assert queue.dequeue() == (1,)
    assert queue.size == 1


def test_who_leaves_while_enqueueing_leaves_what_is_in():
    queue = queue_of(capacity=1)
    batch, behind = waits(queue.enqueue_many([(1,), (2,)])), waits(queue.enqueue((3,)))

    queue.withdraw(batch)

    assert queue.dequeue() == (1,)
    assert behind.is_done
    assert queue.dequeue() == (3,)


def test_leaving_when_served_changes_nothing():
    queue = queue_of()
    attempt = waits(queue.dequeue())
    queue.enqueue((1,))

    queue.withdraw(attempt)

    assert attempt.outcome() == (1,)
    assert queue.size == 0


def test_elements_that_came_to_nothing_are_given_back():
    queue = queue_of(1, 2, 3)
    taken = queue.dequeue_many(2)
    assert isinstance(taken, list)

    queue.give_back(taken)

    assert content(queue) == [1, 2, 3]


# Any order of events


class Story:
    """Runs events on a queue and keeps account of every element: in order, none lost, none twice."""

    def __init__(self, capacity: int) -> None:
        self.queue = queue_of(capacity=capacity)
        self.made = 0
        self.delivered: list[int] = []
        self.waiting: list[Attempt] = []
        self.reported: list[str] = []

    def elements(self, count: int) -> list[Any]:
        made = [(self.made + k,) for k in range(count)]
        self.made += count
        return made

    def run(self, event: str, count: int) -> None:
        self.reported.append(f"{event} {count}")
        try:
            outcome = getattr(self, event)(count)
        except OpError:
            outcome = None
        if event.startswith("dequeue") and outcome is not None:
            if isinstance(outcome, Attempt):
                self.follow(outcome)
            else:
                self.deliver(outcome)
        self.queue.check_invariants()
        assert self.delivered == sorted(set(self.delivered)), self.reported

    def follow(self, attempt: Attempt) -> None:
        """Deliver what the attempt gets at the moment it gets it: that is the order that counts."""
        self.waiting.append(attempt)

        def wake() -> None:
            if attempt.error is None:
                self.deliver(attempt.result)

        attempt.wake = wake

    def deliver(self, result: Any) -> None:
        self.delivered += [result[0]] if isinstance(result, tuple) else numbers(result)

    def enqueue(self, count: int) -> Any:
        outcome = self.queue.enqueue(*self.elements(1))
        if outcome is not None:
            self.waiting.append(outcome)

    def enqueue_many(self, count: int) -> Any:
        outcome = self.queue.enqueue_many(self.elements(count))
        if outcome is not None:
            self.waiting.append(outcome)

    def dequeue(self, count: int) -> Any:
        return self.queue.dequeue()

    def dequeue_many(self, count: int) -> Any:
        return self.queue.dequeue_many(count)

    def dequeue_up_to(self, count: int) -> Any:
        return self.queue.dequeue_up_to(count)

    def leave(self, count: int) -> None:
        if self.waiting:
            self.queue.withdraw(self.waiting[count % len(self.waiting)])

    def close(self, count: int) -> Any:
        self.queue.close()

    def abort(self, count: int) -> Any:
        self.queue.close(cancel_pending_enqueues=True)


OFTEN = ["enqueue", "enqueue_many", "dequeue", "dequeue_many", "dequeue_up_to", "leave"]
SELDOM = ["close", "abort"]


@given(
    st.integers(-1, 4),
    st.lists(st.tuples(st.sampled_from(OFTEN * 4 + SELDOM), st.integers(0, 5)), max_size=40),
)
def test_in_any_order_of_events_elements_come_out_once_and_in_order(
    capacity: int, events: list[tuple[str, int]]
):
    story = Story(capacity)

    for event, count in events:
        story.run(event, count)

    story.queue.close(cancel_pending_enqueues=True)
    story.queue.check_invariants()
    left = content(story.queue)
    assert story.delivered + left == sorted({*story.delivered, *left}), story.reported


@given(
    st.lists(
        st.tuples(st.sampled_from(["enqueue_many", "dequeue_many", "leave"]), st.integers(0, 5)), max_size=40
    )
)
def test_without_bound_and_close_nothing_is_ever_lost(events: list[tuple[str, int]]):
    story = Story(-1)

    for event, count in events:
        story.run(event, count)

    story.queue.close()
    assert story.delivered + content(story.queue) == list(range(story.made)), story.reported


def test_arrays_pass_through_untouched():
    queue = queue_of()
    array = np.arange(3)

    queue.enqueue((array,))

    outcome = queue.dequeue()
    assert isinstance(outcome, tuple)
    assert outcome[0] is array
