"""One round of the long soak test: sessions, training, serving and clusters, each begun, used and ended.

A round takes a random generator, so that a seed repeats it. A tenth of its runs are cancelled, after a random number of loop
iterations. It raises AssertionError if a result is wrong or acknowledged data is lost.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.errors import OpError, UnavailableError
from aioexec.saved_model.signature import Signature
from aioexec.serving import PredictionClient, serve
from aioexec.testing.cluster import InMemoryCluster
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from tests.soak.kinds import CANCELLED
from tests.soak.soaking import MOST_PASSES, cancel_after, soak

CANCELLED_SHARE = 0.1
STEPS = 40
"""Runs of a client in one round."""

Round = Callable[[Random], Awaitable[None]]


async def attempt(chance: Random, run: Coroutine[Any, Any, Any], passes: int = MOST_PASSES) -> Any:
    """Await a run, or cancel it after a random number of passes of the loop: CANCELLED, unless it was done by then."""
    if chance.random() >= CANCELLED_SHARE:
        return await run
    task = asyncio.create_task(run)
    cancel_after(task, int(passes ** chance.random()))
    await asyncio.wait([task])
    return CANCELLED if task.cancelled() else task.result()


async def sessions(chance: Random) -> None:
    """A session under 20 clients and all kinds of run, with the kernels of NumPy or compiled ones."""
    jit = chance.choice(["off", "background", "eager"])
    async with soak(clients=20, seed=chance.randrange(1 << 30), jit=jit) as running:
        await running.run(400)


async def training(chance: Random) -> None:
    """Training that is ended and resumed from its checkpoint: each acknowledged step is counted once."""
    with tempfile.TemporaryDirectory(prefix="aioexec-soak-") as folder:
        done = cancelled = 0
        for _ in range(3):
            with ax.Graph().as_default():
                train, step = _regression()
                async with ax.train.MonitoredTrainingSession(
                    checkpoint_dir=folder,
                    save_checkpoint_steps=10,
                    save_summaries_steps=5,
                    log_step_count_steps=10,
                ) as session:
                    for _ in range(STEPS):
                        outcome = await attempt(chance, session.run(train))
                        cancelled += outcome is CANCELLED
                        done += outcome is not CANCELLED
                    reached = int(await session.run(step))
            assert done <= reached <= done + cancelled, (
                f"{done} acknowledged, {cancelled} cancelled, step {reached}"
            )
        await FileWriterCache.clear()


def _regression() -> tuple[Any, Any]:
    step = ax.train.get_or_create_global_step()
    x = ax.constant(np.linspace(-1, 1, 256, dtype=np.float32).reshape(-1, 4))
    weights = ax.Variable(ax.zeros([4, 1]), name="weights")
    error = ax.matmul(x, weights) - ax.reduce_sum(x, axis=1, keepdims=True)
    loss = ax.reduce_mean(ax.square(error))
    ax.summary.scalar("loss", loss)
    return ax.train.AdamOptimizer(0.1).minimize(loss, global_step=step), step


async def serving(chance: Random) -> None:
    """A model over HTTP, some of whose clients go away before the answer."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 4], name="x")
        y = ax.reduce_sum(ax.square(x), axis=1)
    async with (
        ax.Session(graph=graph) as session,
        serve({"model": Signature("serving_default", {"x": x}, {"y": y}, session)}) as server,
    ):
        url = server.predict_url("model")
        clients = (_predict(Random(chance.random()), url) for _ in range(5))
        await asyncio.gather(*clients)


async def _predict(chance: Random, url: str) -> None:
    async with PredictionClient(url) as client:
        for _ in range(STEPS // 2):
            values = [[float(chance.randrange(10)) for _ in range(4)] for _ in range(chance.randrange(1, 20))]
            answer = await attempt(chance, client.predict(values))
            assert answer is CANCELLED or answer == [sum(value * value for value in row) for row in values]


async def memory_cluster(chance: Random) -> None:
    """A cluster in this loop, one of whose workers is killed and restarted."""
    async with InMemoryCluster({"ps": 1, "worker": 2}) as cluster:
        target = cluster.target("worker", 0)
        await _steps_over(target, ["/job:ps/task:0", "/job:worker/task:1"], chance)
        await cluster.kill("worker", 1)
        cluster.restart("worker", 1)
        await _steps_over(target, ["/job:ps/task:0", "/job:worker/task:1"], chance)


def process_cluster(target: str) -> Round:
    """Steps of a new session on servers that are processes of their own and outlive the session."""

    async def steps(chance: Random) -> None:
        await _steps_over(target, ["/job:ps/task:0", "/job:worker/task:0"], chance)

    return steps


async def local_server(chance: Random) -> None:
    """A server in this loop that is begun, used and stopped."""
    server = ax.train.Server.create_local_server()
    try:
        await _steps_over(server.target, ["/cpu:0"], chance)
    finally:
        await server.stop()


async def _steps_over(target: str, devices: list[str], chance: Random) -> None:
    """Count in a variable of the first device, with the value handed around all; each acknowledged step is counted once."""
    with ax.Graph().as_default() as graph:
        fed = ax.placeholder(ax.float32, [64], name="fed")
        with ax.device(devices[0]):
            count = ax.Variable(np.int64(0), name="count", use_resource=True)
            begin = ax.global_variables_initializer()
            counted = count.assign_add(np.int64(1), read_value=False)
            value = ax.square(fed)
        for device in [*devices[1:], devices[0]]:
            with ax.device(device):
                value = value + np.float32(1)
        read = count.read_value()
    done = cancelled = 0
    async with ax.Session(target, graph=graph) as session:
        await _until_reached(session, begin)
        values = np.arange(64, dtype=np.float32)
        for _ in range(STEPS):
            outcome = await attempt(chance, session.run([value, counted], {fed: values}))
            if outcome is CANCELLED:
                cancelled += 1
                continue
            done += 1
            np.testing.assert_array_equal(outcome[0], np.square(values) + len(devices))
        counted_steps = int(await session.run(read))
    assert done <= counted_steps <= done + cancelled, (
        f"{done} acknowledged, {cancelled} cancelled, {counted_steps}"
    )


async def _until_reached(session: Any, begin: Any) -> None:
    """Run the first step; a task that came back a moment ago may still be seen as gone."""
    for _ in range(5):
        with suppress(UnavailableError):
            await session.run(begin)
            return
    await session.run(begin)


async def deadlines(chance: Random) -> None:
    """Steps that wait for what never comes, and end with their deadline."""
    with ax.Graph().as_default() as graph:
        queue = ax.FIFOQueue(1, [ax.int64], shapes=[[]])
        taken, enqueued = queue.dequeue(), queue.enqueue(np.int64(7))
    async with ax.Session(graph=graph) as session:
        options = ax.RunOptions(timeout_in_ms=1 + chance.randrange(5))
        for _ in range(STEPS // 4):
            with suppress(OpError):
                await session.run(taken, options=options)
        await session.run(enqueued)
        assert await session.run(taken) == 7


LOCAL: Mapping[str, Round] = {
    "sessions": sessions,
    "training": training,
    "serving": serving,
    "memory cluster": memory_cluster,
    "local server": local_server,
    "deadlines": deadlines,
}


def cache_files(folder: str | Path) -> int:
    """How many files a cache of kernels holds."""
    return sum(1 for each in Path(folder).iterdir() if each.is_file()) if Path(folder).is_dir() else 0
