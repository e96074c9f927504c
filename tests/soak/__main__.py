"""A long soak test: `python -m tests.soak --minutes 120 --share 0.5 --seed 7 --log FILE`.

Rounds of sessions, training, serving and clusters (see `rounds`) follow one another in one loop, beside two server processes.
After each round, when it is idle, everything that could grow is measured and written to the log as a line of JSON. At the end
the slope of each curve over the second half is printed, by Theil and Sen's estimator, with its limit. Between rounds the
process sleeps, so that it takes that share of a core.

The exit status is 1 if a round failed, or something grows.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import web_app

from aioexec.graph import attrs
from tests.distributed.processes import ServerProcess, servers
from tests.soak.rounds import LOCAL, Round, cache_files, process_cluster
from tests.soak.soaking import memory, remains

MOST_GROWTH = {
    "MiB": 4.0,
    "blocks": 2000.0,
    "descriptors": 0.0,
    "threads": 0.0,
    "tasks": 0.0,
    "left of steps": 0.0,
    "cache files": 4.0,
    "worker MiB": 4.0,
    "worker descriptors": 0.0,
    "worker threads": 0.0,
    "ps MiB": 4.0,
    "ps descriptors": 0.0,
    "ps threads": 0.0,
}
"""By how much each may grow in an hour of rounds at a full core, in the second half: about what a measurement varies by."""

Sample = dict[str, float]


async def soaked(minutes: float, share: float, seed: int, log: Path) -> tuple[list[Sample], int]:
    """Run rounds for so long; the measurements, and how many rounds were wrong."""
    chance = Random(seed)
    samples: list[Sample] = []
    wrong: Counter[str] = Counter()
    async with servers("ps", "worker") as cluster:
        rounds = {**LOCAL, "process cluster": process_cluster(cluster["worker", 0].target)}
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            began = time.monotonic()
            order = chance.sample(sorted(rounds), len(rounds))
            for name in order:
                await _one(name, rounds[name], chance, wrong)
            samples.append(await _measured(cluster))
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**samples[-1], "wrong": dict(wrong)}) + "\n")
            await asyncio.sleep((time.monotonic() - began) * (1 / share - 1))
    return samples, wrong.total()


async def _one(name: str, one: Round, chance: Random, wrong: Counter[str]) -> None:
    number = chance.randrange(1 << 30)
    try:
        await one(Random(number))
    except Exception:
        wrong[name] += 1
        print(f"{name}, seed {number}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)


async def _measured(cluster: dict[tuple[str, int], ServerProcess]) -> Sample:
    await asyncio.sleep(0.05)  # the threads of libraries end when they get to it
    empty_caches()
    blocks, resident = memory()
    sample = {
        "CPU s": time.process_time(),
        "MiB": resident / 2**20,
        "blocks": blocks,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(asyncio.all_tasks()),
        "left of steps": sum(remains().values()),
        "cache files": cache_files(os.environ["AIOEXEC_CACHE_DIR"]),
    }
    for (job, _), process in cluster.items():
        sample |= _measured_process(job, process.pid)
    return sample


def empty_caches() -> None:
    """Empty caches of many results: bounded, but not full for hours, since names are new in each session."""
    attrs._completed.clear()
    web_app._cached_build_middleware.cache_clear()  # the last 1,024 applications of aiohttp, also ended ones
    for name, module in list(sys.modules.items()):
        if name.startswith("aioexec"):
            for function in list(vars(module).values()):
                if hasattr(function, "cache_clear") and (function.cache_info().maxsize or 1) > 1:
                    function.cache_clear()


def _measured_process(job: str, pid: int) -> Sample:
    folder = Path(f"/proc/{pid}")
    return {
        f"{job} MiB": int((folder / "statm").read_text(encoding="ascii").split()[1]) * 4096 / 2**20,
        f"{job} descriptors": len(os.listdir(folder / "fd")),
        f"{job} threads": len(os.listdir(folder / "task")),
    }


def slopes(samples: list[Sample]) -> dict[str, float]:
    """Growth of each curve in an hour of this process's time, in the second half."""
    late = samples[len(samples) // 2 :]
    pairs = list(combinations(late[:: max(1, len(late) // 200)], 2))
    return {
        name: statistics.median((b[name] - a[name]) / (b["CPU s"] - a["CPU s"]) * 3600 for a, b in pairs)
        for name in MOST_GROWTH
    }


def report(samples: list[Sample]) -> int:
    """Print the curves; how many grow."""
    growing = 0
    print(f"{len(samples)} rounds, {samples[-1]['CPU s']:.0f} s of processor time")
    for name, slope in slopes(samples).items():
        at = [samples[int(quarter * (len(samples) - 1) / 4)][name] for quarter in range(5)]
        grows = slope > MOST_GROWTH[name]
        growing += grows
        curve = " ".join(f"{value:9.1f}" for value in at)
        print(f"{name:20} {curve}  {slope:+9.2f} an hour{'  GROWS' if grows else ''}")
    return growing


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="a long soak")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--share", type=float, default=1.0, help="of a core that it may take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="gets a line of JSON a round")
    asked: Any = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="aioexec-kernels-") as cache:
        os.environ["AIOEXEC_CACHE_DIR"] = cache
        gc.freeze()
        samples, wrong = asyncio.run(soaked(asked.minutes, asked.share, asked.seed, asked.log))
    growing = report(samples)
    print(f"{wrong} rounds were wrong, {growing} curves grow")
    return int(wrong > 0 or growing > 0)


if __name__ == "__main__":
    sys.exit(main())
