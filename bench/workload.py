"""The interface of a benchmark module: cases, and for each peer a function that builds one case.

A module defines `QUESTION`, `CASES` and functions named after peers (`aioexec`, `numpy`, `tensorflow`, …):

    def numpy(case: Case) -> Workload: ...
    async def aioexec(case: Case, stack: AsyncExitStack) -> Workload: ...  # may enter sessions into the stack

A function that returns None does not support the case. Every peer computes the same results from the same seeded inputs; the
harness compares them. Optional: `TOLERANCE` (relative, of the comparison), `ROUNDS` (at most so many), `MEASURES` (the measured
quantity, if not the time of one step), `REFERENCES` (peers that are compared and shown, but do less and are no rivals),
`ON_DEMAND` (peers that run only if they are named), `PROCESS_PER_CASE` (peers start anew for each case: what is measured is the
start or the memory of their process).
"""

import asyncio
import gc
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

BATCH_SECONDS = 0.001
"""Steps shorter than this are timed in batches, so the clock's own cost does not show."""


@dataclass(frozen=True)
class Case:
    """One row of a benchmark's table."""

    name: str
    size: int = 0
    variant: str = ""


@dataclass
class Sample:
    """The measurement of one round: seconds (less is better), and figures for the notes."""

    seconds: list[float]
    notes: dict[str, float] = field(default_factory=dict)


FOLDER = "AIOEXEC_BENCH_FOLDER"
"""The environment variable that names a folder for files that the peers of a case share."""

Step = Callable[[], Any]
"""Does one step; may return an awaitable."""


@dataclass
class Workload:
    """One case, built and warmed up by one peer.

    Attributes:
        step: the timed call.
        outputs: the arrays to compare, taken once before timing; by default the result of `step`. None: nothing to compare.
        measure: measures one round of some seconds; by default the time of a step.
        native_share: for aioexec: returns the native share, and the fallback nodes by op.
        notes: figures beside the time, taken after each round.
    """

    step: Step
    outputs: Callable[[], Any] | None = None
    measure: Callable[[float], Awaitable[Sample]] | None = None
    native_share: Callable[[], Any] | None = None
    notes: Callable[[], dict[str, float]] | None = None
    batch: int = 1

    async def warm_up(self, steps: int = 5, seconds: float = 0.2) -> None:
        """Run until it is warm, and find the batch that is long enough to time."""
        started = perf_counter()
        fastest = math.inf
        done = 0
        while perf_counter() - started < (20 * seconds if done < steps else seconds):
            before = perf_counter()
            await call(self.step)
            fastest = min(fastest, perf_counter() - before)
            done += 1
        self.batch = max(1, math.ceil(BATCH_SECONDS / fastest))
        gc.collect()

    async def round(self, seconds: float) -> Sample:
        """Measure for some seconds, one batch at least."""
        sample = await (self.measure or self.time_steps)(seconds)
        if self.notes is not None:
            sample.notes.update(self.notes())
        return sample

    async def time_steps(self, seconds: float) -> Sample:
        """Time batches of steps for some seconds, one batch at least."""
        step, batch = self.step, range(self.batch)
        awaits = asyncio.iscoroutinefunction(step)
        samples = []
        end = perf_counter() + seconds
        while True:
            before = perf_counter()
            if awaits:
                for _ in batch:
                    await step()
            else:
                for _ in batch:
                    step()
            now = perf_counter()
            samples.append((now - before) / self.batch)
            if now >= end:
                return Sample(samples)


async def call(function: Callable[[], Any]) -> Any:
    """Call a plain or coroutine function."""
    result = function()
    return await result if isinstance(result, Awaitable) else result


async def measure_lag(step: Step, seconds: float) -> Sample:
    """Repeat a step for some seconds; the measure is the 99th percentile of the loop's lag."""
    # Imported here: peers whose start is timed must not load aioexec.
    from aioexec.observability.loop_lag import LoopLagProbe

    steps = 0
    started = perf_counter()
    async with LoopLagProbe() as probe:
        while perf_counter() < started + seconds:
            await call(step)
            await asyncio.sleep(0)  # one that blocks still lets the loop turn between steps
            steps += 1
    lag = probe.result()
    elapsed = perf_counter() - started
    return Sample(
        [lag.p99_ms / 1e3],
        {"lag p50 ms": lag.p50_ms, "lag max ms": lag.max_ms, "steps/s": steps / elapsed},
    )


async def measure_clients(request: Step, clients: int, seconds: float) -> Sample:
    """Let clients repeat a request for some seconds; the measure is seconds a request, of all together."""
    # Imported here: peers whose start is timed must not load aioexec.
    from aioexec.observability.loop_lag import LoopLagProbe

    started = perf_counter()
    end = started + seconds

    async def client() -> int:
        requests = 0
        while perf_counter() < end:
            await call(request)
            requests += 1
        return requests

    async with LoopLagProbe() as probe:
        counts: Sequence[int] = await asyncio.gather(*(client() for _ in range(clients)))
    elapsed = perf_counter() - started
    lag = probe.result()
    notes = {"requests/s": sum(counts) / elapsed, "lag p99 ms": lag.p99_ms, "lag max ms": lag.max_ms}
    return Sample([elapsed / sum(counts)], notes)
