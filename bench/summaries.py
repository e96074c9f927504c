"""The time a training step waits for the summary it writes, and the loop lag at a million summaries per minute.

A million a minute is one every 60 µs.
"""

import tempfile
from asyncio import sleep
from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

import numpy as np

from bench.workload import Case, Sample, Workload

QUESTION = __doc__.splitlines()[0]
MEASURES = "time of an add_summary that the caller waits; all of them flushed at the end of a round"
CASES = [
    Case("one scalar", size=1),
    Case("20 scalars, merged", size=20),
    Case("a histogram of 200 buckets", size=200, variant="histogram"),
    Case("a scalar each 60 µs", size=1, variant="paced"),
]
BATCH = 1000
PACE = 60e-6
TURN = 0.001
"""Seconds between the turns in which a paced loop writes what is due."""


def summary_of(lib: Any, case: Case) -> bytes:
    summary = lib.Summary()
    if case.variant == "histogram":
        histogram = summary.value.add(tag="weights").histo
        histogram.bucket_limit.extend(np.linspace(-1, 1, case.size).tolist())
        histogram.bucket.extend(range(case.size))
    else:
        for k in range(case.size):
            summary.value.add(tag=f"loss_{k}", simple_value=k / 3)
    return bytes(summary.SerializeToString())


class Run:
    """Adds one summary again and again, under a step that grows."""

    def __init__(self, writer: Any, summary: bytes) -> None:
        self._writer = writer
        self._summary = summary
        self._step = 0

    def add(self, count: int) -> float:
        before = perf_counter()
        for _ in range(count):
            self._writer.add_summary(self._summary, self._step)
            self._step += 1
        return (perf_counter() - before) / count

    def outputs(self) -> Any:
        return np.float32(len(self._summary))


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as ax

    folder = stack.enter_context(tempfile.TemporaryDirectory())
    writer = await stack.enter_async_context(ax.summary.FileWriter(folder))
    run = Run(writer, summary_of(ax, case))

    async def measure(seconds: float) -> Sample:
        sample = await _paced(run, seconds) if case.variant == "paced" else _fast(run, seconds)
        before = perf_counter()
        await writer.flush()
        return Sample(sample.seconds, {**sample.notes, "flush ms": (perf_counter() - before) * 1e3})

    return Workload(lambda: run.add(1), outputs=run.outputs, measure=measure)


def tensorflow(case: Case) -> Workload:
    import tensorflow.compat.v1 as tf

    folder = tempfile.TemporaryDirectory()
    with tf.Graph().as_default():
        writer = tf.summary.FileWriter(folder.name)
    run = Run(writer, summary_of(tf, case))

    async def measure(seconds: float) -> Sample:
        sample = await _paced(run, seconds) if case.variant == "paced" else _fast(run, seconds)
        before = perf_counter()
        writer.flush()
        assert folder.name, "it lives as long as this function"
        return Sample(sample.seconds, {**sample.notes, "flush ms": (perf_counter() - before) * 1e3})

    return Workload(lambda: run.add(1), outputs=run.outputs, measure=measure)


def _fast(run: Run, seconds: float) -> Sample:
    """As fast as it goes."""
    started = perf_counter()
    spent = []
    while perf_counter() < started + seconds:
        spent.append(run.add(BATCH))
    return Sample(spent, {"events/s": len(spent) * BATCH / (perf_counter() - started)})


async def _paced(run: Run, seconds: float) -> Sample:
    """A million a minute, over loop iterations; delays are made up for."""
    from aioexec.observability.loop_lag import LoopLagProbe

    started = perf_counter()
    spent, done = [], 0
    async with LoopLagProbe() as probe:
        while (now := perf_counter()) < started + seconds:
            due = int((now - started) / PACE) - done
            if due > 0:
                spent.append(run.add(due))
                done += due
            await sleep(TURN)
    lag = probe.result()
    notes = {
        "events/s": done / (perf_counter() - started),
        "lag p99 ms": lag.p99_ms,
        "lag max ms": lag.max_ms,
    }
    return Sample(spent, notes)
