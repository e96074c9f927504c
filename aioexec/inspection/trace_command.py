"""`aioexec trace`: writes the rows of a step, thread by thread, as a trace file for Perfetto and chrome://tracing."""

from __future__ import annotations

import argparse
import asyncio
import statistics
from pathlib import Path
from time import perf_counter
from typing import Any

from aioexec.command_line.arguments import add_examples, add_json, positive_int
from aioexec.command_line.output import print_json
from aioexec.formats.protos import RunMetadata, RunOptions
from aioexec.inspection import stepping
from aioexec.inspection.stepping import Stepping
from aioexec.observability.thread_timeline import draw_threads

_WARM_UP = 3
"""The number of steps before the traced ones: the first lays programs out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    stepping.add_arguments(parser)
    parser.add_argument("--steps", type=positive_int, default=3, help="how many (default: %(default)s)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="JSON, for Perfetto")
    add_json(parser)
    add_examples(
        parser,
        """
what three training steps of a model do when, for https://ui.perfetto.dev
aioexec trace model.ckpt-1000.meta --fetch train --feed x=32,784:float32 -o trace.json
""",
    )


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
        if arguments.json:
            print_json(
                {"file": str(arguments.output), "steps": len(stats), "events": events, "median_us": median}
            )
        else:
            print(f"{arguments.output}: {len(stats)} steps, {events} events, {median:.0f} µs a traced step")

    return stepping.run(arguments, look)


def _write(path: Path, stats: list[Any]) -> None:
    path.write_text(draw_threads(stats).format_to_string(), encoding="utf-8")
