"""`aioexec bench`: measures latency and throughput of a step of a model in files, and how late the event loop is meanwhile."""

from __future__ import annotations

import argparse
import asyncio
import statistics
from time import perf_counter

from aioexec.command_line.arguments import add_examples, add_json, positive_int, positive_seconds
from aioexec.command_line.output import print_json
from aioexec.command_line.progress import progress
from aioexec.data_classes import dataclass
from aioexec.inspection import stepping
from aioexec.inspection.stepping import Stepping
from aioexec.observability.loop_lag import LoopLag, LoopLagProbe

_WARM_UP = 3
"""The number of steps before the measured ones: the first ones plan, compile and lay programs out."""
_SHOW_SECONDS = 0.2
"""Between two updates of the progress, which would otherwise count as a part of each step."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Latencies are in milliseconds, of all measured steps; the loop lag is of the same time."""

    steps: int
    concurrency: int
    seconds: float
    steps_per_second: float
    min_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    loop_lag: LoopLag


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    stepping.add_arguments(parser)
    parser.add_argument(
        "--seconds", type=positive_seconds, default=5.0, help="how long to measure (default: %(default)g)"
    )
    parser.add_argument(
        "--concurrency",
        type=positive_int,
        default=1,
        help="callers in one event loop, each of which awaits a step before its next (default: %(default)s)",
    )
    add_json(parser)
    add_examples(
        parser,
        """
one prediction after the other
aioexec bench exports/1 --feed images=1,784
what 64 concurrent requests of a server get, for two seconds
aioexec bench exports/1 --feed images=1,784 --concurrency 64 --seconds 2
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, print the result, and return the exit status."""

    async def look(opened: Stepping) -> None:
        for _ in range(_WARM_UP):
            await opened.step()
        found = await measure(opened, arguments.seconds, arguments.concurrency)
        if arguments.json:
            print_json(found)
        else:
            _show(found)

    return stepping.run(arguments, look)


async def measure(opened: Stepping, seconds: float, concurrency: int) -> Measurement:
    """Run steps for some time, from several tasks; each runs at least one."""
    latencies: list[float] = []
    began = shown = perf_counter()

    async def caller() -> None:
        nonlocal shown
        now = perf_counter()
        while True:
            before = now
            await opened.step()
            now = perf_counter()
            latencies.append(now - before)
            if now - shown > _SHOW_SECONDS:
                shown = now
                advance(min(now - began, seconds))
            if now - began >= seconds:
                return
            if concurrency > 1:
                await asyncio.sleep(0)  # a step that need not wait would keep the others waiting

    with progress("measuring", seconds) as advance:
        async with LoopLagProbe() as probe, asyncio.TaskGroup() as callers:
            for _ in range(concurrency):
                callers.create_task(caller())
    return _summarized(latencies, perf_counter() - began, concurrency, probe.result())


def _summarized(latencies: list[float], seconds: float, concurrency: int, lag: LoopLag) -> Measurement:
    ordered = sorted(each * 1e3 for each in latencies)
    return Measurement(
        steps=len(ordered),
        concurrency=concurrency,
        seconds=seconds,
        steps_per_second=len(ordered) / seconds,
        min_ms=ordered[0],
        p50_ms=statistics.median(ordered),
        p99_ms=ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        max_ms=ordered[-1],
        loop_lag=lag,
    )


def _show(found: Measurement) -> None:
    print(
        f"{found.steps:,} steps in {found.seconds:.1f} s by {found.concurrency} callers: "
        f"{found.steps_per_second:,.0f} steps a second"
    )
    print(
        f"latency: min {found.min_ms:.3f} ms, p50 {found.p50_ms:.3f} ms, p99 {found.p99_ms:.3f} ms, "
        f"max {found.max_ms:.3f} ms"
    )
    print(f"loop lag: {found.loop_lag}")
