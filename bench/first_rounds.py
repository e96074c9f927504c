"""The time from process start to round 1, 1,000, 4,000, 8,000 and 20,000 of a small network (8-64-64-4).

A round is one prediction and one step of Adam, with a loss. aioexec starts with an empty folder of compiled kernels, or with
one that a process before it has filled. Its notes have the lag of a heartbeat in the same loop.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Sample, Workload

QUESTION = __doc__.splitlines()[0]
MEASURES = "time to round 20,000"
ROUNDS = 1
EMPTY, WARM = "empty", "warm"
CASES = [Case("empty kernel cache", variant=EMPTY), Case("warm kernel cache", variant=WARM)]
MARKS = (1, 1_000, 4_000, 8_000, 20_000)
COMPARED_ROUNDS = 50
SIZES = (8, 64, 64, 4)
BATCH, RATE = 16, 1e-3


def build(lib: Any, case: Case) -> Graphed:
    """The prediction for one row; and a training step of a batch with its loss."""
    generator = np.random.default_rng(14)
    x = lib.placeholder(lib.float32, [None, SIZES[0]], name="x")
    y = lib.placeholder(lib.float32, [None, SIZES[-1]], name="y")
    h = x
    for number, (rows, columns) in enumerate(pairwise(SIZES)):
        weight = (generator.standard_normal((rows, columns)) * np.sqrt(2 / rows)).astype(np.float32)
        h = lib.matmul(h, lib.Variable(weight)) + lib.Variable(np.zeros(columns, np.float32))
        h = lib.nn.relu(h) if number < len(SIZES) - 2 else h
    loss = lib.reduce_mean(lib.square(h - y))
    train = lib.train.AdamOptimizer(RATE).minimize(loss)
    feeds = {
        x: generator.standard_normal((BATCH, SIZES[0])).astype(np.float32),
        y: generator.standard_normal((BATCH, SIZES[-1])).astype(np.float32),
    }
    return Graphed([h, loss], feeds, train=train, initialized=True)


def prediction(built: Graphed) -> tuple[Any, dict[Any, Any]]:
    """The fetch and the feeds of the prediction for one row."""
    x = next(iter(built.feeds))
    return built.outputs[0], {x: built.feeds[x][:1]}


async def run_aioexec(started: float) -> dict[str, Any]:
    """All rounds, in this process; the default session compiles meanwhile."""
    import aioexec as ax
    from aioexec.observability.loop_lag import LoopLagProbe

    marks, losses = {}, []
    async with AsyncExitStack() as stack:
        built = build(ax, CASES[0])
        session = await stack.enter_async_context(ax.Session())
        await session.run(ax.global_variables_initializer())
        output, row = prediction(built)
        async with LoopLagProbe() as probe:
            for number in range(1, MARKS[-1] + 1):
                await session.run(output, row)
                _, loss = await session.run([built.train, built.outputs[1]], built.feeds)
                if number <= COMPARED_ROUNDS:
                    losses.append(float(loss))
                await asyncio.sleep(0)  # the heartbeat's turn
                if number in MARKS:
                    marks[f"round {number:,} s"] = perf_counter() - started
        lag = probe.result()
    return {"marks": marks, "losses": losses, "lag": {"lag p99 ms": lag.p99_ms, "lag max ms": lag.max_ms}}


def run_tensorflow(started: float) -> dict[str, Any]:
    """All rounds, in this process."""
    session, built = sessions.tensorflow_session(build, CASES[0])
    output, row = prediction(built)
    marks, losses = {}, []
    for number in range(1, MARKS[-1] + 1):
        session.run(output, row)
        _, loss = session.run([built.train, built.outputs[1]], built.feeds)
        if number <= COMPARED_ROUNDS:
            losses.append(float(loss))
        if number in MARKS:
            marks[f"round {number:,} s"] = perf_counter() - started
    return {"marks": marks, "losses": losses, "lag": {}}


def _workload(function: str, case: Case) -> Workload:
    """Rounds in a fresh process; the start of Python itself, before the first import, is not counted."""
    program = f"""
from time import perf_counter
started = perf_counter()
import asyncio, json
from bench.first_rounds import run_aioexec, run_tensorflow
print(json.dumps({function}))
"""

    def spend() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
            if case.variant == EMPTY:
                environment["AIOEXEC_CACHE_DIR"] = folder
            command = [sys.executable, "-c", program]
            result = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        if result.returncode != 0:
            raise RuntimeError(result.stderr.strip().splitlines()[-1])
        reported: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
        return reported

    async def measure(seconds: float) -> Sample:
        reported = spend()
        *_, last = reported["marks"].values()
        return Sample([last], reported["marks"] | reported["lag"])

    return Workload(lambda: None, lambda: np.float32(spend()["losses"]), measure)


def aioexec(case: Case) -> Workload:
    return _workload("asyncio.run(run_aioexec(started))", case)


def tensorflow(case: Case) -> Workload:
    return _workload("run_tensorflow(started)", case)
