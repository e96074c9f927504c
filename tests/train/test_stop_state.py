"""The state machine of a coordinator: the first request counts, and a joined group raises at once."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aioexec.errors import AbortedError, OutOfRangeError
from aioexec.train.coordination.stop_state import StopState
from aioexec.train.errors import EndOfLoopError


def test_the_error_of_the_first_request_is_the_one_that_is_kept():
    state = StopState([])
    first, second = AbortedError("first"), AbortedError("second")

    assert state.request_stop(first)
    assert not state.request_stop(second)
    assert state.error is first


def test_a_request_without_an_error_leaves_no_room_for_a_later_one():
    state = StopState([])
    state.request_stop(None)

    assert not state.request_stop(AbortedError("late"))
    assert state.error is None


def test_a_joined_group_raises_what_is_reported_to_it():
    state = StopState([OutOfRangeError])
    state.on_joined()

    with pytest.raises(AbortedError, match="late"):
        state.request_stop(AbortedError("late"))

    assert state.request_stop(OutOfRangeError("the end")), "a clean stop is still only a stop"


def test_what_sys_exc_info_gives_is_an_error():
    state = StopState([])
    try:
        raise AbortedError("reported")
    except AbortedError:
        state.request_stop(sys.exc_info())

    assert isinstance(state.error, AbortedError)


@pytest.mark.parametrize("reported", [(None, None, None), "words", 3, (AbortedError,)], ids=repr)
def test_what_is_no_error_becomes_one(reported):
    state = StopState([])
    state.request_stop(reported)

    assert isinstance(state.error, ValueError)
    assert "ex must be a tuple or sys.exc_info must return the current exception" in str(state.error)


async def stopping() -> None:
    raise StopIteration("no more")


@pytest.mark.parametrize("clean", [[OutOfRangeError], [StopIteration]], ids=lambda kinds: kinds[0].__name__)
async def test_a_stop_iteration_ends_input_whether_or_not_it_left_a_coroutine(clean):
    state = StopState(clean)
    with pytest.raises(RuntimeError, match="StopIteration") as raised:
        await stopping()

    assert state.request_stop(raised.value)
    assert state.error is None
    state.clear_stop()
    assert state.request_stop(StopIteration())
    assert state.error is None


def test_a_stop_iteration_that_counts_as_an_error_is_one_that_can_leave_a_coroutine():
    state = StopState([])
    state.request_stop(StopIteration("no more"))

    assert isinstance(state.error, EndOfLoopError)
    assert str(state.error) == "no more"


REPORTS: dict[str, Any] = {
    "nothing": None,
    "error": AbortedError("error"),
    "other": KeyError("other"),
    "end": OutOfRangeError("end"),
    "stop": StopIteration(),
    "cancelled": asyncio.CancelledError(),
}


@given(st.lists(st.sampled_from([*REPORTS, "clear", "join"]), max_size=30))
def test_whatever_happens_the_first_error_that_counts_is_kept(events: list[str]):
    state = StopState([OutOfRangeError])
    requests: list[str] = []  # since the group last ran
    is_joined = False
    for event in events:
        counts = event in ("error", "other")
        if event == "clear":
            state.clear_stop()
            requests, is_joined = [], False
        elif event == "join":
            state.on_joined()
            is_joined = True
        elif is_joined and counts:
            with pytest.raises(type(REPORTS[event])):
                state.request_stop(REPORTS[event])
        else:
            assert state.request_stop(REPORTS[event]) == (not requests)
            requests.append(event)
        state.check_invariants()
        assert state.is_stopping == bool(requests)
        assert state.is_joined == is_joined
        first = requests[0] if requests else "nothing"
        assert state.error is (REPORTS[first] if first in ("error", "other") else None)
