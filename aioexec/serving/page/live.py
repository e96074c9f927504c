"""Live measurements: once a second the steps of the process, their durations, and the lag of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from time import perf_counter
from typing import Any, Final

from aioexec.observability import metrics
from aioexec.observability.loop_lag import LoopLagProbe
from aioexec.serving.page.descriptions import version_states
from aioexec.serving.repository import Repository

INTERVAL = 1.0
"""Seconds between two samples."""

_BEAT: Final = 0.005
"""Seconds between two heartbeats of the lag's measurement: 200 callbacks a second for each stream."""


async def samples(repository: Repository, stop: asyncio.Event) -> AsyncGenerator[dict[str, Any], None]:
    """Yield a sample of each interval until `stop` is set; the loop's heartbeat runs only while the iterator is used.

    A sample has `seconds` (its length), `steps` and `failed_steps` (ended in it), `latency_ms` (p50 and p99 of them, None
    without steps), `lag_ms` (p50, p99, max), and `models` (the state of each version).
    """
    while True:
        started, steps, failed, buckets = perf_counter(), *_counts()
        async with LoopLagProbe(_BEAT) as probe:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL):
                    await stop.wait()
                    return
        steps_now, failed_now, buckets_now = _counts()
        lag = probe.result()
        yield {
            "seconds": perf_counter() - started,
            "steps": steps_now - steps,
            "failed_steps": failed_now - failed,
            "latency_ms": latencies_of(
                [now - before for now, before in zip(buckets_now, buckets, strict=True)]
            ),
            "lag_ms": {"p50": lag.p50_ms, "p99": lag.p99_ms, "max": lag.max_ms},
            "models": version_states(repository),
        }


def _counts() -> tuple[int, int, list[int]]:
    """The steps of the process, those that failed, and the buckets of their durations."""
    return metrics.STEPS.value, sum(metrics.STEP_ERRORS.read().values()), list(metrics.STEP_MICROS.buckets)


def latencies_of(buckets: Sequence[int]) -> dict[str, float] | None:
    """Return the percentiles of durations in milliseconds; None without durations.

    Bucket b counts those above 2**(b-1) and up to 2**b microseconds; within a bucket they are taken as evenly spread.
    """
    total = sum(buckets)
    if not total:
        return None
    return {"p50": _percentile(buckets, 0.50 * total), "p99": _percentile(buckets, 0.99 * total)}


def _percentile(buckets: Sequence[int], rank: float) -> float:
    """The duration in milliseconds that `rank` durations do not exceed."""
    passed = 0
    for bucket, count in enumerate(buckets):
        if passed + count >= rank:
            low = 0.0 if bucket == 0 else 2.0 ** (bucket - 1)
            return (low + (2.0**bucket - low) * (rank - passed) / count) / 1e3
        passed += count
    raise AssertionError("rank exceeds the total")
