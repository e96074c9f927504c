"""Sequential calls: one at a time and in order in a shared pool, which ends with its last holder."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import numpy as np
import pytest

from aioexec.devices.threads.pools import acquire_pool
from aioexec.devices.threads.sequence import Sequence
from tests.tiers import feed, graph, op, session_on

NAME = "test-sequence"


async def test_calls_are_made_one_at_a_time_and_in_order():
    sequence = Sequence(acquire_pool(NAME, 3))
    made: list[int] = []
    inside = threading.Lock()

    def call(k: int) -> int:
        assert inside.acquire(blocking=False), "another call is under way"
        made.append(k)
        inside.release()
        return k

    jobs = [sequence.submit(partial(call, k)) for k in range(100)]

    assert [await job.result() for job in jobs] == list(range(100))
    assert made == list(range(100))
    await sequence.close()


async def test_a_call_that_is_held_does_not_hold_another_sequence():
    first, second = Sequence(acquire_pool(NAME, 2)), Sequence(acquire_pool(NAME, 2))
    gate = threading.Event()
    held = [first.submit(gate.wait) for _ in range(5)]

    assert await second.submit(lambda: 3).result() == 3

    gate.set()
    for job in held:
        await job.result()
    await first.close()
    await second.close()


async def test_calls_go_on_after_one_that_fails_and_after_a_callback_that_fails():
    sequence = Sequence(acquire_pool(NAME, 1))
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: errors.append(context["exception"])
    )

    def fail() -> None:
        raise ValueError("the call")

    failing = sequence.submit(fail)
    worse = sequence.submit(lambda: 1, lambda job: fail())
    last = sequence.submit(lambda: 2)

    assert await last.result() == 2
    with pytest.raises(ValueError, match="the call"):
        await failing.result()
    assert await worse.result() == 1
    assert [str(error) for error in errors] == ["the call"]
    await sequence.close()


async def test_what_was_queued_is_done_before_the_threads_end_though_closing_is_cancelled():
    sequence = Sequence(acquire_pool(NAME, 1))
    pool, gate = sequence.workers, threading.Event()
    held = sequence.submit(gate.wait)
    behind = sequence.submit(lambda: 2)
    closing = asyncio.create_task(sequence.close())
    await asyncio.sleep(0)

    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert not pool.closed
    gate.set()

    assert await held.result()
    assert await behind.result() == 2
    assert pool.closed
    await sequence.close()


async def test_many_sessions_plan_and_build_in_few_threads():
    with graph() as g:
        x = feed([4])
        y = op("Square", x)
    sessions = [session_on(g, "eager") for _ in range(20)]
    feeds = {x: np.arange(4, dtype=np.float32)}

    results = await asyncio.gather(*(session.run(y, feeds) for session in sessions))
    named = [thread.name for thread in threading.enumerate()]
    for session in sessions:
        await session.close()

    np.testing.assert_array_equal(results, [[0, 1, 4, 9]] * 20)
    assert sum(name.startswith(("aioexec-planner", "aioexec-builder")) for name in named) <= 6
