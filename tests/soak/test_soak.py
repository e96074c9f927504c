"""One session under all kinds of runs at once: results stay correct, cancellations affect nothing else, nothing leaks or grows.

The plugin checks tasks, threads and descriptors after every test.
"""

from __future__ import annotations

import asyncio
import gc
from random import Random

import pytest

from aioexec.observability.loop_lag import LoopLag, LoopLagProbe
from tests.soak.soaking import Soak, arena_bytes, memory, remains, soak

QUARTERS = 4
MIB = 1 << 20


async def _soaked(soak: Soak, steps: int) -> tuple[list[tuple[int, int]], list[LoopLag]]:
    """Soak in quarters, quiet in between: the memory after each, and the lag in each."""
    gc.collect()
    before = remains()  # what earlier tests have left in this process
    held, lags = [], []
    for _ in range(QUARTERS):
        async with LoopLagProbe() as probe:
            await soak.run(steps // QUARTERS)
        lags.append(probe.result())
        held.append(memory())  # it collects what a cancelled step's error and its frames hold in a circle
        assert remains() == before
    return held, lags


@pytest.mark.slow
@pytest.mark.parametrize("jit", ["off", "background"])
async def test_60_clients_of_one_session_get_what_numpy_computes_and_leave_nothing(jit: str):
    before = arena_bytes()

    async with soak(clients=60, seed=20, jit=jit) as running:
        held, _ = await _soaked(running, 800)

    assert running.cancelled > 15
    assert min(running.transactions.values()) > 50
    assert arena_bytes() == before
    if jit == "off":  # in the background programs are made meanwhile, and stay
        (first, _), *_, (last, _) = held
        assert last - first < 1000, "less than a block a step"


@pytest.mark.slow
async def test_what_a_step_held_goes_with_it_and_does_not_wait_for_the_garbage_collector():
    async with soak(clients=10, seed=21, jit="off") as running:
        running.cancelled_share = 0
        gc.collect()
        before = remains()
        gc.disable()
        try:
            await running.run(300)
            left = remains()
        finally:
            gc.enable()

    assert left == before


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("jit", ["off", "background", "eager"])
async def test_1000_clients_of_one_session_for_200000_steps(jit: str, capsys: pytest.CaptureFixture[str]):
    before = arena_bytes()
    seed = Random().randrange(10**6)

    with capsys.disabled():
        print(f"\n{jit}, seed {seed}")
        async with soak(clients=1000, seed=seed, jit=jit) as running:
            gc.freeze()  # as a server does: looking through all of a graph and its libraries holds any loop for 100 ms
            telling = asyncio.create_task(_tell(running))
            held, lags = await _soaked(running, 200_000)
            telling.cancel()
            for (blocks, resident), lag in zip(held, lags, strict=True):
                print(f"{blocks} blocks, {resident / MIB:.1f} MiB in memory, loop lag {lag}")
    gc.unfreeze()

    assert running.cancelled > 5000
    assert arena_bytes() == before
    (first_blocks, first_resident), (last_blocks, last_resident) = held[0], held[-1]
    assert last_blocks - first_blocks < 10_000, "of the 300,000 or so that Python holds"
    assert last_resident - first_resident < 8 * MIB
    assert max(lag.p99_ms for lag in lags) <= 5


async def _tell(running: Soak) -> None:
    """Print how far it is, every ten seconds."""
    while True:
        await asyncio.sleep(10)
        lost = running.kinds["blocked dequeue"].lost  # type: ignore[attr-defined]
        print(f"{running.steps} steps, {running.cancelled} cancelled, {lost} elements taken by these")
