"""The life cycle of a session as a state machine: steps are accepted, drained or cancelled, each at most once."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, strategies as st

from aioexec.errors import CancelledError, SessionClosedError
from aioexec.sessions.lifecycle import Life, State


@pytest.mark.behaviour(58)
def test_steps_are_accepted_until_the_session_closes():
    life: Life[int] = Life()
    life.begin(1)
    life.drain()

    with pytest.raises(SessionClosedError, match=r"Session has been closed\.") as raised:
        life.begin(2)

    assert isinstance(raised.value, CancelledError)
    assert life.under_way == {1}
    assert life.end(1)


def test_draining_may_become_cancelling_and_not_the_other_way_round():
    life: Life[int] = Life()
    life.begin(1)
    life.drain()

    assert life.cancel() == [1]
    assert life.cancel() == []
    life.drain()
    assert life.state is State.CANCELLING


EVENTS = st.lists(st.sampled_from(["begin", "end", "drain", "cancel", "release"]), max_size=40)


@given(EVENTS, st.randoms(use_true_random=False))
def test_whatever_happens_states_only_move_on_and_each_step_is_told_once(events: list[str], random: Random):
    life: Life[int] = Life()
    order = list(State)
    cancelled: list[int] = []
    for number, event in enumerate(events):
        before = life.state
        if event == "begin" and before is State.OPEN:
            life.begin(number)
        elif event == "begin":
            with pytest.raises(SessionClosedError):
                life.begin(number)
        elif event == "end" and life.under_way:
            step = random.choice(sorted(life.under_way))
            assert life.end(step) == (not life.under_way and before is not State.OPEN)
        elif event == "drain":
            life.drain()
        elif event == "cancel":
            cancelled += life.cancel()
        elif event == "release" and before is not State.OPEN and not life.under_way:
            life.mark_released()
        assert order.index(life.state) >= order.index(before)
        assert life.is_open == (life.state is State.OPEN)
        life.check_invariants()
    assert len(cancelled) == len(set(cancelled))
    if life.state is State.CANCELLING:
        assert life.under_way <= set(cancelled)
