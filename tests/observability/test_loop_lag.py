"""The probe reports how long the loop was blocked, and counts the beats that a pause suppressed."""

import time

import pytest

from aioexec.observability.loop_lag import LoopLag, LoopLagProbe


def hold_the_loop(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@pytest.mark.both_loops
async def test_a_held_loop_shows_as_lag_and_each_suppressed_beat_counts():
    async with LoopLagProbe() as probe:
        hold_the_loop(0.05)

    lag = probe.result()
    assert lag.max_ms >= 48
    assert lag.p50_ms >= 20
    assert lag.beats >= 48
    assert probe.worst_ms == lag.max_ms


@pytest.mark.both_loops
async def test_a_probe_can_be_used_again_but_not_twice_at_once():
    probe = LoopLagProbe()
    async with probe:
        with pytest.raises(RuntimeError, match="already running"):
            async with probe:
                pass

    async with probe:
        pass


def test_percentiles_are_those_of_the_sorted_samples():
    lag = LoopLag.of([i / 1000 for i in range(100, 0, -1)])

    assert (lag.p50_ms, lag.p99_ms, lag.max_ms, lag.beats) == pytest.approx((50, 99, 100, 100))
    assert str(lag) == "p50 50.00 ms, p99 99.00 ms, max 100.00 ms"


def test_without_beats_there_is_no_lag():
    assert LoopLag.of([]) == LoopLag(0.0, 0.0, 0.0, 0)
