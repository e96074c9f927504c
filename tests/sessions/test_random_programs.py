"""Random programs compute what Python computes: concurrently, in partial runs, on every tier, and after cancelled runs."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

import aioexec as ax
from tests.sessions.random_programs import Program

JITS = ("off", "background", "eager")


def session_for(random: Random) -> ax.Session:
    options = {"optimizer_options": {"opt_level": random.choice([0, -1])}}
    return ax.Session(
        config=ax.ConfigProto(
            device_count={"CPU": 2}, aioexec={"jit": random.choice(JITS)}, graph_options=options
        )
    )


async def check(session: ax.Session, program: Program, random: Random) -> None:
    """Run with random feeds, as a whole or in parts."""
    environment = {k: random.randrange(-20, 20) for k in range(len(program.feeds))}
    expected = [means(environment) for _, means in program.outputs]
    feeds = {tensor: environment[k] for k, tensor in enumerate(program.feeds)}
    fetches = [tensor for tensor, _ in program.outputs]
    in_parts = [tensor for tensor in dict.fromkeys(fetches) if tensor not in feeds]
    if in_parts and random.random() < 0.4:
        computed = await run_in_parts(session, in_parts, feeds, random)
        results = [computed.get(tensor, feeds.get(tensor)) for tensor in fetches]
    else:
        results = await session.run(fetches, feeds)
    assert results == expected


async def run_in_parts(session: ax.Session, fetches: list[Any], feeds: dict[Any, int], random: Random) -> Any:
    handle = await session.partial_run_setup(fetches, list(feeds))
    *first, last = random.sample(list(feeds), len(feeds))
    for tensor in first:
        await session.partial_run(handle, [], {tensor: feeds[tensor]})
    return dict(zip(fetches, await session.partial_run(handle, fetches, {last: feeds[last]}), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
async def test_random_programs_compute_what_python_computes(seed: int):
    random = Random(seed)
    with ax.Graph().as_default():
        program = Program(random)

        async with session_for(random) as session:
            await check(session, program, random)
            await asyncio.gather(*(check(session, program, random) for _ in range(4)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
async def test_cancelled_runs_leave_the_others_right(seed: int):
    random = Random(seed)
    with ax.Graph().as_default():
        program = Program(random)

        async with session_for(random) as session:
            for _ in range(3):
                running = [asyncio.create_task(check(session, program, random)) for _ in range(6)]
                for _ in range(random.randrange(12)):
                    await asyncio.sleep(0)
                cancelled = random.sample(running, 3)
                for task in cancelled:
                    task.cancel()
                results = await asyncio.gather(*running, return_exceptions=True)
                unexpected = [
                    result
                    for task, result in zip(running, results, strict=True)
                    if result is not None
                    and not (task in cancelled and isinstance(result, asyncio.CancelledError))
                ]
                assert not unexpected
            await check(session, program, random)
