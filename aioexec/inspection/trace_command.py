"""`aioexec trace`: writes the rows of a step, thread by thread, as a trace file for Perfetto and chrome://tracing."""

from __future__ import annotations

import argparse
import asyncio
import statistics
from pathlib import Path
from time import perf_counter
from typing import Any

from aioexec.formats.protos import RunMetadata, RunOptions
from aioexec.inspection import stepping
from aioexec.inspection.stepping import Stepping
from aioexec.observability.thread_timeline import draw_threads

_WARM_UP = 3
"""The number of steps before the traced ones: the first lays programs out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    stepping.add_arguments(parser)
    parser.add_argument("--steps", type=_count, default=3, help="how many (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="JSON, for Perfetto")


def run(arguments: argparse.Namespace) -> int:
    """Trace some steps and return the exit status."""

    async def look(opened: Stepping) -> None:
        for _ in range(_WARM_UP):
            await opened.step()
        stats, seconds = [], []
        for _ in range(arguments.steps):
            metadata = RunMetadata()
            before = perf_counter()
            await opened.step(RunOptions(trace_level=RunOptions.FULL_TRACE), metadata)
            seconds.append(perf_counter() - before)
            stats.append(metadata.step_stats)
        await asyncio.to_thread(_write, arguments.output, stats)
        events = sum(len(device.node_stats) for step in stats for device in step.dev_stats)
        median = statistics.median(seconds) * 1e6
        print(f"{arguments.output}: {len(stats)} steps, {events} events, {median:.0f} µs a traced step")

    return stepping.run(arguments, look)


def _write(path: Path, stats: list[Any]) -> None:
    path.write_text(draw_threads(stats).format_to_string(), encoding="utf-8")


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError("expected at least one step")
    return count
