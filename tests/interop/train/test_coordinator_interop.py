"""The same events reported to TensorFlow's coordinator and to ours: should_stop, and raised errors."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import aioexec as ax

pytestmark = pytest.mark.interop

EVENTS = [
    "stop", "abort", "abort as tuple", "key", "end", "end as tuple", "block aborts", "block ends", "clear", "join", "raise",
]  # fmt: skip


def error_of(m: Any, event: str) -> Exception:
    if event.startswith("key"):
        return KeyError("key")
    kind = m.errors.OutOfRangeError if "end" in event else m.errors.AbortedError
    return kind(None, None, event.split()[0])


def report(m: Any, coord: Any, event: str) -> None:
    """Everything but joining."""
    if event == "stop":
        coord.request_stop()
    elif event == "clear":
        coord.clear_stop()
    elif event == "raise":
        coord.raise_requested_exception()
    elif event.startswith("block"):
        with coord.stop_on_exception():
            raise error_of(m, event.removeprefix("block "))
    else:
        try:
            raise error_of(m, event)
        except Exception as error:
            coord.request_stop(sys.exc_info() if "tuple" in event else error)


def with_tensorflow(tf: Any, events: list[str], clean: Any) -> list[Any]:
    coord = tf.train.Coordinator() if clean is None else tf.train.Coordinator(clean)
    seen = []
    for event in events:
        raised = ""
        try:
            coord.join() if event == "join" else report(tf, coord, event)
        except Exception as error:
            raised = type(error).__name__
        seen.append((event, raised, coord.should_stop(), coord.joined))
    return seen


async def with_ours(events: list[str], clean: Any) -> list[Any]:
    coord = ax.train.Coordinator() if clean is None else ax.train.Coordinator(clean)
    seen = []
    for event in events:
        raised = ""
        try:
            await coord.join() if event == "join" else report(ax, coord, event)
        except Exception as error:
            raised = type(error).__name__
        seen.append((event, raised, coord.should_stop(), coord.joined))
    return seen


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.sampled_from([None, [], [KeyError]]))
async def test_the_same_is_raised_at_the_same_time(tf: Any, events: list[str], clean: Any):
    assert await with_ours(events, clean) == with_tensorflow(tf, events, clean)


def test_what_is_no_coordinator_or_has_no_target_is_refused_alike(tf: Any):
    for m in (tf, ax):
        with pytest.raises(ValueError, match="'coord' argument must be a Coordinator"):
            m.train.LooperThread(3, 1)
        with pytest.raises(
            ValueError, match="'args' and 'kwargs' argument require that you also pass 'target'"
        ):
            m.train.LooperThread(m.train.Coordinator(), 1, args=[1])
