"""Staging areas and maps: order, keys, partial tuples, capacity, and cancelled callers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from aioexec.resources.staging import StagingArea, StagingMap, bytes_of
from aioexec.resources.waiting import Attempt


def number(value: int) -> Any:
    return np.array(value, np.int32)


def plain(outcome: Any) -> Any:
    """The result of a method, as Python values."""
    if isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], tuple):
        return outcome[0], [int(value) for value in outcome[1]]
    return [int(value) for value in outcome]


def waits(outcome: Any) -> Attempt:
    assert isinstance(outcome, Attempt)
    assert not outcome.is_done
    return outcome


# Areas


def test_tuples_leave_an_area_in_the_order_they_came():
    area = StagingArea()
    for n in range(3):
        assert area.put((number(n),)) is None

    assert plain(area.peek(2)) == [2]
    assert [plain(area.get()) for _ in range(3)] == [[0], [1], [2]]
    area.check_invariants()


def test_who_finds_no_room_waits_in_turn():
    area = StagingArea(capacity=1)
    area.put((number(1),))
    second, third = waits(area.put((number(2),))), waits(area.put((number(3),)))

    assert plain(area.get()) == [1]
    assert second.is_done
    assert not third.is_done
    area.clear()
    assert third.is_done
    assert plain(area.get()) == [3]
    area.check_invariants()


def test_an_area_holds_so_many_bytes():
    area = StagingArea(memory_limit=10)
    area.put((number(1), number(2)))
    assert area.size == 1
    waiting = waits(area.put((number(3),)))

    with pytest.raises(
        ResourceExhaustedError, match=r"size of '12' bytes into Staging Area .* limit of '10'"
    ):
        area.put((number(1), number(2), number(3)))
    area.get()

    assert waiting.is_done


def test_strings_count_as_in_tensorflow():
    assert bytes_of([np.array([b"ab", b""], object)]) == 2 * 24 + 2


def test_who_looks_at_a_place_waits_until_there_is_one():
    area = StagingArea()
    looking, taking = waits(area.peek(1)), waits(area.get())

    area.put((number(1),))
    area.put((number(2),))
    assert plain(taking.outcome()) == [1]
    assert not looking.is_done
    area.put((number(3),))

    assert plain(looking.outcome()) == [3]
    with pytest.raises(InvalidArgumentError, match="index must not be negative"):
        area.peek(-1)


def test_what_came_to_nothing_is_the_first_again():
    area = StagingArea()
    taking = waits(area.get())
    area.put((number(1),))
    area.put((number(2),))

    area.undo(taking)

    assert plain(area.get()) == [1]
    area.check_invariants()


def test_who_leaves_is_passed_over():
    area = StagingArea(capacity=1)
    gone, staying = waits(area.get()), waits(area.get())
    area.withdraw(gone)
    area.put((number(1),))
    assert plain(staying.outcome()) == [1]

    area.put((number(2),))
    area.withdraw(waits(area.put((number(3),))))
    assert plain(area.get()) == [2]
    assert area.size == 0


# Maps


def full(keys: list[int], is_ordered: bool = False) -> StagingMap:
    made = StagingMap(is_ordered)
    for key in keys:
        assert made.put(key, [0, 1], (number(key), number(-key)), 2) is None
    return made


def test_tuples_leave_a_map_by_key_or_the_first_one_first():
    made = full([5, 3, 9])

    assert plain(made.peek(9, [1])) == [-9]
    assert plain(made.get(3, [0, 1])) == (3, [3, -3])
    assert plain(made.get_first([0, 1])) == (5, [5, -5])
    assert plain(made.get_first([0])) == (9, [9])
    made.check_invariants()


def test_an_ordered_map_gives_the_lowest_key_first():
    made = full([5, 3, 9], is_ordered=True)

    assert [plain(made.get_first([0, 1]))[0] for _ in range(3)] == [3, 5, 9]


def test_a_tuple_can_be_had_once_all_its_parts_have_come():
    made = StagingMap()
    made.put(1, [1], (number(7),), 2)
    waiting = waits(made.get(1, [0, 1]))
    assert (made.size, made.incomplete_size) == (0, 1)

    made.put(1, [0], (number(6),), 2)

    assert plain(waiting.outcome()) == (1, [6, 7])
    assert (made.size, made.incomplete_size) == (0, 0)


def test_a_tuple_is_gone_when_all_its_parts_are_taken():
    made = full([1])

    assert plain(made.get(1, [1])) == (1, [-1])
    assert made.size == 1
    with pytest.raises(
        InvalidArgumentError, match="Tensor at index '1' for key '1' has already been removed"
    ):
        made.get(1, [0, 1])
    assert plain(made.get(1, [0])) == (1, [1])
    assert made.size == 0


def test_a_part_is_put_once_and_a_whole_tuple_is_kept_once():
    made = full([1])
    made.put(1, [0, 1], (number(8), number(9)), 2)
    assert plain(made.peek(1, [0, 1])) == [1, -1]

    made.put(1, [0], (number(8),), 2)
    with pytest.raises(InvalidArgumentError, match="index '0' for key '1' was already initialized"):
        made.put(1, [0], (number(8),), 2)
    made.put(1, [1], (number(9),), 2)

    assert (made.size, made.incomplete_size) == (1, 0)
    made.check_invariants()


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([1, 0], "not strictly ordered"),
        ([0, 0], "not strictly ordered"),
        ([0, 2], "out of bounds"),
        ([-1], "out of"),
    ],
)
def test_indices_must_be_in_order_and_there(indices: list[int], message: str):
    made = full([1])
    values = tuple(number(0) for _ in indices)

    for call in (
        lambda: made.put(2, indices, values, 2),
        lambda: made.get(1, indices),
        lambda: made.peek(1, indices),
        lambda: made.get_first(indices),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            call()
    assert made.size == 1


def test_who_asked_before_anything_was_put_hears_that_there_is_no_such_part():
    made = StagingMap()
    waiting = waits(made.get(1, [3]))

    made.put(1, [0], (number(1),), 1)

    with pytest.raises(InvalidArgumentError, match="out of bounds '1'"):
        waiting.outcome()
    assert made.size == 1


def test_a_full_map_takes_parts_but_no_whole_tuples():
    made = StagingMap(capacity=1)
    made.put(1, [0, 1], (number(1), number(1)), 2)
    waiting = waits(made.put(2, [0, 1], (number(2), number(2)), 2))

    assert made.get(1, [0]) is not None
    assert not waiting.is_done
    made.get(1, [1])

    assert waiting.is_done
    assert made.size == 1


def test_parts_that_came_to_nothing_are_where_they_were():
    made = StagingMap()
    taking = waits(made.get(1, [0]))
    made.put(1, [0, 1], (number(1), number(2)), 2)

    made.undo(taking)

    assert plain(made.peek(1, [0, 1])) == [1, 2]
    made.check_invariants()


def test_parts_that_came_to_nothing_are_lost_if_their_key_is_anothers():
    made = StagingMap()
    taking = waits(made.get(1, [0]))
    made.put(1, [0], (number(1),), 1)
    made.put(1, [0], (number(5),), 1)

    made.undo(taking)

    assert plain(made.get(1, [0])) == (1, [5])
    made.check_invariants()


# Any order of events

EVENTS = st.tuples(
    st.sampled_from(["put", "first", "second", "get", "take", "any", "peek", "clear", "leave"]),
    st.integers(0, 3),
)


@given(st.integers(0, 2), st.sampled_from([0, 12]), st.booleans(), st.lists(EVENTS, max_size=40))
def test_in_any_order_of_events_no_caller_waits_for_what_is_there(
    capacity: int, limit: int, is_ordered: bool, events: list[tuple[str, int]]
):
    made = StagingMap(is_ordered, capacity, limit)
    waiting: list[Attempt] = []
    verbs: dict[str, Any] = {
        "put": lambda k: made.put(k, [0, 1], (number(k), number(k)), 2),
        "first": lambda k: made.put(k, [0], (number(k),), 2),
        "second": lambda k: made.put(k, [1], (number(k),), 2),
        "get": lambda k: made.get(k, [0, 1]),
        "take": lambda k: made.get(k, [1]),
        "any": lambda k: made.get_first([0, 1]),
        "peek": lambda k: made.peek(k, [0]),
        "clear": lambda k: made.clear(),
        "leave": lambda k: waiting and made.withdraw(waiting.pop(k % len(waiting))),
    }

    for verb, key in events:
        try:
            outcome = verbs[verb](key)
        except OpError:
            outcome = None
        if isinstance(outcome, Attempt):
            waiting.append(outcome)
        waiting = [attempt for attempt in waiting if not attempt.is_done]
        made.check_invariants()


@given(
    st.integers(0, 3),
    st.lists(st.tuples(st.sampled_from(["put", "get", "peek", "leave"]), st.integers(0, 3)), max_size=40),
)
def test_an_area_gives_every_tuple_once_and_in_order(capacity: int, events: list[tuple[str, int]]):
    area = StagingArea(capacity)
    waiting: list[Attempt] = []
    made, delivered = 0, []

    def follow(attempt: Attempt, is_get: bool) -> None:
        waiting.append(attempt)
        if is_get:
            attempt.wake = lambda: delivered.append(int(attempt.result[0]))

    for verb, count in events:
        if verb == "put":
            outcome = area.put((number(made),))
            made += 1
        elif verb == "leave":
            outcome = None
            blocked = [each for each in waiting if not each.is_done and each.wake.__name__ == "<lambda>"]
            if blocked:
                area.withdraw(blocked[count % len(blocked)])
        else:
            outcome = area.get() if verb == "get" else area.peek(count)
        if isinstance(outcome, Attempt):
            follow(outcome, verb == "get")
        elif verb == "get":
            delivered.append(int(outcome[0]))
        area.check_invariants()

    assert delivered == list(range(len(delivered)))
