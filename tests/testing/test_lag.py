"""`assert_loop_lag` fails a block in which the loop was blocked."""

import asyncio

import pytest

from aioexec.observability import loop_lag
from aioexec.testing import assert_loop_lag


@pytest.fixture
def ticks(monkeypatch):
    """A clock that a test moves, in place of the real one."""
    times = {"now": 0.0}
    monkeypatch.setattr(loop_lag, "perf_counter", lambda: times["now"])
    return times


async def test_a_free_loop_passes(ticks):
    async with assert_loop_lag(p99_ms=1, max_ms=1) as probe:
        await asyncio.sleep(0)

    assert probe.result().max_ms == 0


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_ms": 10}, "expected maximum of at most 10 ms, got"),
        ({"p99_ms": 10, "max_ms": 20}, "expected p99 of at most 10 ms and maximum of at most 20 ms, got"),
    ],
)
async def test_a_blocked_loop_fails(ticks, limits, message):
    with pytest.raises(AssertionError, match=f"loop lag: {message} p50 .* max 49.00 ms"):
        async with assert_loop_lag(**limits):
            ticks["now"] += 0.050


async def test_an_error_in_the_block_is_seen_instead(ticks):
    with pytest.raises(ZeroDivisionError):
        async with assert_loop_lag(max_ms=1):
            ticks["now"] += 1
            1 / 0


async def test_a_limit_is_required():
    with pytest.raises(ValueError, match="expected a limit"):
        async with assert_loop_lag():
            pass
