"""Live measurements: once a second the runs of a server's models, their durations, and the lag of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from time import perf_counter
from typing import Any, Final

from aioexec.observability.loop_lag import LoopLagProbe
from aioexec.serving.page.descriptions import version_states
from aioexec.serving.page.run_durations import RunDurations
from aioexec.serving.repository import Repository

INTERVAL = 1.0
"""Seconds between two samples."""

_BEAT: Final = 0.005
"""Seconds between two heartbeats of the lag's measurement: 200 callbacks a second for each stream."""


async def samples(repository: Repository, stop: asyncio.Event) -> AsyncGenerator[dict[str, Any], None]:
    """Yield a sample of each interval until `stop` is set; nothing is measured while the iterator is not used.

    A sample has `seconds` (its length), `runs` and `failed_runs` (requests that models have run in it), `latency_ms` (p50 and
    p99 of them, None without runs), `lag_ms` (p50, p99, max), and `models` (the state of each version).
    """
    runs, started = RunDurations(), perf_counter()
    repository.listeners.append(runs)
    try:
        while True:
            async with LoopLagProbe(_BEAT) as probe:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(INTERVAL):
                        await stop.wait()
                        return
            now, lag = perf_counter(), probe.result()
            sample = {
                "seconds": now - started,
                "runs": runs.count,
                "failed_runs": runs.failed,
                "latency_ms": _latencies(runs),
                "lag_ms": {"p50": lag.p50_ms, "p99": lag.p99_ms, "max": lag.max_ms},
                "models": version_states(repository),
            }
            started = now
            runs.clear()
            yield sample
    finally:
        repository.listeners.remove(runs)


def _latencies(runs: RunDurations) -> dict[str, float] | None:
    if not runs.count:
        return None
    return {"p50": runs.percentile_ms(0.50), "p99": runs.percentile_ms(0.99)}
