"""A bound on steps in flight: FIFO order, and a ticket that is withdrawn does not cost a place."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from aioexec.sessions.admission import Admission


def test_as_many_as_the_bound_are_admitted_and_others_in_the_order_they_came():
    admission: Admission[str] = Admission(2)

    assert [admission.arrive(ticket) for ticket in "abcd"] == [True, True, False, False]
    assert admission.is_full
    assert admission.waiting == 2

    assert admission.leave("b") == "c"
    assert admission.leave("a") == "d"
    assert admission.leave("c") is None
    assert not admission.is_full


def test_a_ticket_withdrawn_while_waiting_admits_none_and_is_not_admitted_later():
    admission: Admission[str] = Admission(1)
    for ticket in "abc":
        admission.arrive(ticket)

    assert admission.leave("b") is None
    assert admission.leave("a") == "c"


def test_a_ticket_that_was_never_given_is_refused():
    admission: Admission[str] = Admission(1)

    with pytest.raises(KeyError):
        admission.leave("a")


@given(st.integers(1, 4), st.lists(st.tuples(st.booleans(), st.integers(0, 10)), max_size=60))
def test_in_any_order_of_events_no_ticket_is_lost_and_none_overtakes(
    bound: int, events: list[tuple[bool, int]]
):
    admission: Admission[int] = Admission(bound)
    inside: list[int] = []
    waiting: list[int] = []
    for ticket, (arrives, which) in enumerate(events):
        if arrives:
            assert admission.arrive(ticket) == (len(inside) < bound)
            (waiting if len(inside) == bound else inside).append(ticket)
        elif inside or waiting:
            leaver = (inside + waiting)[which % (len(inside) + len(waiting))]
            successor = admission.leave(leaver)
            if leaver in waiting:
                waiting.remove(leaver)
                assert successor is None
            else:
                inside.remove(leaver)
                assert successor == (waiting[0] if waiting else None)
                inside.extend(waiting[:1])
                del waiting[:1]
        admission.check_invariants()
        assert admission.waiting == len(waiting)
