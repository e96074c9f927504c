"""The loop without threads: their work is run synchronously, in virtual time."""

import asyncio
import threading
from functools import partial

import pytest

from aioexec.devices.threads.workers import Workers
from aioexec.execution.budget import TICK_NS, budget_of
from aioexec.testing import VirtualClock

pytestmark = pytest.mark.usefixtures("deterministic_clock")


async def test_calls_for_threads_are_made_at_once(deterministic_clock: VirtualClock) -> None:
    await asyncio.sleep(3600)

    assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
    assert deterministic_clock.time() == 3600.0


async def test_errors_of_such_calls_are_theirs() -> None:
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(partial(divmod, 1, 0))


async def test_workers_start_no_thread() -> None:
    workers = Workers(2, "simulated")
    reported: list[int] = []

    job = workers.submit(threading.get_ident, lambda job: reported.append(job.outcome()))

    assert reported == [threading.get_ident()]
    assert await job.result() == threading.get_ident()
    await workers.close()


async def test_an_error_of_a_job_is_raised_to_who_awaits_it() -> None:
    workers = Workers(1, "simulated")

    job = workers.submit(partial(divmod, 1, 0))

    with pytest.raises(ZeroDivisionError):
        await job.result()
    await workers.close()


async def test_no_tick_is_ever_spent() -> None:
    budget = budget_of(asyncio.get_running_loop())

    budget.charge(0, 10 * TICK_NS)

    assert budget.spent == 0
