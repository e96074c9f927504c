"""`assert_loop_lag`: fails if the event loop was blocked for too long in a block."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioexec.observability.loop_lag import LoopLagProbe


@asynccontextmanager
async def assert_loop_lag(
    *, p99_ms: float = float("inf"), max_ms: float = float("inf"), interval: float = 0.001
) -> AsyncIterator[LoopLagProbe]:
    """Measure the lag of the running loop in the block, in real time, and compare it with limits in milliseconds.

        async with assert_loop_lag(max_ms=10):
            await handle(request)

    Args:
        p99_ms: the most of its 99th percentile.
        max_ms: the most at any time.
        interval: seconds between two measurements.

    Raises:
        ValueError: there is no limit.
        AssertionError: a limit is exceeded. A block that raises is not checked, so that its own error is seen.
    """
    if p99_ms == max_ms == float("inf"):
        raise ValueError("assert_loop_lag: expected a limit: p99_ms, max_ms or both")
    async with LoopLagProbe(interval) as probe:
        yield probe
    lag = probe.result()
    exceeded = [
        f"{name} of at most {limit:g} ms"
        for name, limit, found in (("p99", p99_ms, lag.p99_ms), ("maximum", max_ms, lag.max_ms))
        if found > limit
    ]
    if exceeded:
        raise AssertionError(f"loop lag: expected {' and '.join(exceeded)}, got {lag}, {lag.beats} beats")
