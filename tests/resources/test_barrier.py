"""Barriers: completing tuples, taking them in order, closing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from aioexec import dtypes
from aioexec.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from aioexec.resources.barrier import Barrier
from aioexec.resources.waiting import Attempt

A, B, C = b"a", b"b", b"c"


def barrier() -> Barrier:
    return Barrier("b", [dtypes.int32, dtypes.int32], [(), ()])


def waits(outcome: Any) -> Attempt:
    assert isinstance(outcome, Attempt)
    assert not outcome.is_done
    return outcome


def keys(entries: Any) -> list[bytes]:
    return [entry.key for entry in entries]


def test_a_tuple_can_be_taken_once_it_has_all_components():
    made = barrier()
    made.insert_many(0, [A, B], [1, 2])
    made.insert_many(1, [B], [20])

    assert (made.ready_size, made.incomplete_size) == (1, 1)
    (entry,) = made.take_many(1)
    assert (entry.key, entry.values) == (B, [2, 20])


def test_tuples_are_taken_by_the_call_that_began_them_and_then_as_completed():
    made = barrier()
    made.insert_many(0, [A, B], [1, 2])
    made.insert_many(0, [C], [3])
    made.insert_many(1, [C, B, A], [30, 20, 10])

    assert keys(made.take_many(3)) == [B, A, C]


def test_who_takes_waits_until_there_are_enough_in_line():
    made = barrier()
    two, one = waits(made.take_many(2)), waits(made.take_many(1))
    made.insert_many(0, [A, B, C], [1, 2, 3])

    made.insert_many(1, [A], [10])
    made.check_invariants()
    assert not two.is_done
    made.insert_many(1, [B, C], [20, 30])

    assert keys(two.outcome()) == [A, B]
    assert keys(one.outcome()) == [C]


def test_a_component_comes_once():
    made = barrier()
    made.insert_many(0, [A], [1])

    with pytest.raises(InvalidArgumentError, match="Key a already has a value for component 0 in barrier b"):
        made.insert_many(0, [B, A], [2, 3])

    assert made.incomplete_size == 2


def test_a_closed_barrier_lets_tuples_be_completed_but_not_begun():
    made = barrier()
    made.insert_many(0, [A], [1])
    made.close()

    with pytest.raises(CancelledError, match="attempted to insert a brand new key: b"):
        made.insert_many(0, [B], [2])
    made.insert_many(1, [A], [10])

    assert keys(made.take_many(1)) == [A]
    assert made.is_finished


def test_closing_with_cancellation_forgets_what_is_not_complete():
    made = barrier()
    made.insert_many(0, [A, B], [1, 2])
    made.insert_many(1, [A], [10])
    waiting = waits(made.take_many(2))

    made.close(cancel_pending_enqueues=True)

    assert (made.ready_size, made.incomplete_size) == (1, 0)
    with pytest.raises(OutOfRangeError, match=r"'b' is closed .*\(requested 2, total size 1\)"):
        waiting.outcome()
    with pytest.raises(CancelledError, match="Pending enqueues cancelled"):
        made.insert_many(1, [B], [20])
    assert keys(made.take_many(1)) == [A]


def test_a_closed_barrier_gives_small_batches_to_who_takes_them():
    made = barrier()
    made.insert_many(0, [A, B], [1, 2])
    made.insert_many(1, [A], [10])
    made.close()

    assert keys(made.take_many(5, allow_small_batch=True)) == [A]
    with pytest.raises(OutOfRangeError, match=r"\(requested 0, total size 0\)"):
        made.take_many(5, allow_small_batch=True)
    with pytest.raises(OutOfRangeError, match=r"\(requested 2, total size 1\)"):
        made.take_many(2)
    waiting = waits(made.take_many(1))
    made.insert_many(1, [B], [20])
    assert keys(waiting.outcome()) == [B]


def test_a_barrier_is_closed_once_in_either_way():
    made = barrier()
    made.close()
    with pytest.raises(CancelledError, match="Barrier 'b' is already closed"):
        made.close()
    made.close(cancel_pending_enqueues=True)
    for cancels in (False, True):
        with pytest.raises(CancelledError, match="is already closed"):
            made.close(cancels)


def test_what_came_to_nothing_can_be_taken_again():
    made = barrier()
    taking = waits(made.take_many(2))
    made.insert_many(0, [A, B], [1, 2])
    made.insert_many(1, [A, B], [10, 20])

    made.undo(taking)

    assert keys(made.take_many(2)) == [A, B]


@pytest.mark.parametrize(
    ("dims", "message"), [([()], "must be specified"), ([(), (None,)], "not fully defined")]
)
def test_shapes_are_known(dims: Any, message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        Barrier("b", [dtypes.int32, dtypes.int32], dims)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["first", "second", "take", "small", "leave", "undo"] * 3 + ["close", "cancel"]),
            st.integers(0, 5),
        ),
        max_size=40,
    )
)
def test_in_any_order_of_events_every_tuple_is_taken_once(events: list[tuple[str, int]]):
    made = barrier()
    waiting: list[Attempt] = []
    served: list[Attempt] = []
    taken: list[bytes] = []

    def act(verb: str, n: int) -> Any:
        if verb in ("first", "second"):
            return made.insert_many(0 if verb == "first" else 1, [b"%d" % n], [n])
        if verb == "leave":
            return waiting and made.withdraw(waiting[n % len(waiting)])
        if verb == "undo":
            return served and made.undo(served.pop())
        if verb in ("close", "cancel"):
            return made.close(verb == "cancel")
        return made.take_many(n, allow_small_batch=verb == "small")

    completed = 0
    for verb, n in events:
        before = made.incomplete_size
        try:
            outcome = act(verb, n)
        except OpError:
            outcome = None
        completed += verb in ("first", "second") and made.incomplete_size < before
        if isinstance(outcome, Attempt):
            waiting.append(outcome)
        elif verb in ("take", "small") and outcome:
            taken += keys(outcome)
        served += [each for each in waiting if each.is_done and each.error is None and each.result]
        waiting = [each for each in waiting if not each.is_done]
        made.check_invariants()

    assert len(taken) + sum(len(each.result) for each in served) + made.ready_size == completed


def many(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % k for k in range(first, first + count)]


@pytest.mark.parametrize("prepares", [False, True])
def test_many_tuples_are_taken_by_call_and_then_as_completed(prepares: bool):
    made = barrier()

    def insert(component: int, these: list[bytes]) -> None:
        numbers = list(range(len(these)))
        made.insert_many(
            component, these, numbers, made.begun(component, these, numbers) if prepares else None
        )
        made.check_invariants()

    insert(0, many(100))
    insert(1, many(50, 100))  # begun later than those of the first call
    insert(1, many(100)[::-1])
    insert(0, many(50, 100))

    assert keys(made.take_many(120)) == [*many(100)[::-1], *many(20, 100)]
    taken = made.take_many(30)
    made.give_back(taken)
    assert keys(made.take_many(30)) == many(30, 120)


def test_what_was_begun_elsewhere_is_kept_only_if_all_keys_are_new_and_differ():
    made = barrier()
    made.insert_many(0, [A], [1])

    with pytest.raises(InvalidArgumentError, match="Key a already has a value"):
        made.insert_many(0, [B, A], [2, 3], made.begun(0, [B, A], [2, 3]))
    with pytest.raises(InvalidArgumentError, match="Key c already has a value"):
        made.insert_many(0, [C, C], [2, 3], made.begun(0, [C, C], [2, 3]))
    made.close()
    with pytest.raises(CancelledError, match="brand new key: d"):
        made.insert_many(0, [b"d"], [4], made.begun(0, [b"d"], [4]))

    made.check_invariants()
    assert made.incomplete_size == 3


def test_a_tuple_of_one_component_is_complete_at_once():
    made = Barrier("b", [dtypes.int32])

    made.insert_many(0, many(20), list(range(20)), made.begun(0, many(20), list(range(20))))

    assert keys(made.take_many(20)) == many(20)
