"""Worker threads: jobs run once, results return to the loop, and nothing remains when the pool is closed."""

from __future__ import annotations

import asyncio
import sys
import threading
import weakref
from functools import partial
from typing import Any

import pytest

from aioexec.devices.threads import workers as workers_module
from aioexec.devices.threads.workers import SWITCH_INTERVAL, SwitchInterval, Workers, processors
from aioexec.errors import ResourceExhaustedError
from aioexec.testing.tasks import all_tasks_blocked
from tests.thread_faults import no_threads


@pytest.mark.both_loops
async def test_a_job_runs_on_a_thread_of_the_pool_and_gives_its_result():
    workers = Workers(2, "pool")

    name = await workers.submit(lambda: threading.current_thread().name).result()
    await workers.close()

    assert name.startswith("pool-")


async def test_what_a_job_raises_is_raised_where_it_is_awaited():
    workers = Workers(1, "pool")

    def fail() -> None:
        raise LookupError("in the worker")

    with pytest.raises(LookupError, match="in the worker"):
        await workers.submit(fail).result()
    assert await workers.submit(lambda: 5).result() == 5
    await workers.close()


async def test_jobs_of_one_thread_run_in_the_order_they_came():
    workers = Workers(1, "pool")
    order: list[int] = []

    jobs = [workers.submit(partial(order.append, k)) for k in range(50)]
    for job in jobs:
        await job.result()
    await workers.close()

    assert order == list(range(50))


async def test_an_idle_thread_keeps_nothing_of_its_last_job():
    class Value:
        pass

    workers = Workers(1, "pool")
    await workers.submit(int).result()

    value = weakref.ref(await workers.submit(Value).result())
    while value() is not None:  # it lets go after it has reported
        await asyncio.sleep(0)
    await workers.close()


async def test_no_more_threads_than_allowed():
    workers = Workers(3, "pool")
    gate = threading.Event()

    jobs = [workers.submit(gate.wait) for _ in range(10)]
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("pool-")}
    gate.set()
    for job in jobs:
        await job.result()
    await workers.close()

    assert names == {"pool-0", "pool-1", "pool-2"}


async def test_done_is_called_on_the_loop_before_the_await_goes_on():
    workers = Workers(1, "pool")
    seen: list[Any] = []

    job = workers.submit(lambda: 7, lambda job: seen.append((threading.current_thread(), job.outcome())))
    await job.result()
    seen.append("awaited")
    await workers.close()

    assert seen == [(threading.current_thread(), 7), "awaited"]


async def test_done_is_called_for_a_job_that_is_not_awaited():
    workers = Workers(1, "pool")
    finished = asyncio.Event()

    workers.submit(lambda: 1, lambda job: finished.set())

    await finished.wait()
    await workers.close()


@pytest.mark.both_loops
@pytest.mark.parametrize("times", [1, 3])
async def test_a_cancelled_await_leaves_only_when_the_worker_has_reported(times: int):
    workers, gate, cancels = Workers(1, "pool"), threading.Event(), []
    job = workers.submit(gate.wait)
    waiting = asyncio.create_task(job.result(lambda: cancels.append(1)))
    await all_tasks_blocked()

    for _ in range(times):
        waiting.cancel()
        await all_tasks_blocked()
    assert not waiting.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await workers.close()

    assert len(cancels) == times


async def test_a_result_that_arrives_with_the_cancellation_is_not_waited_for_again():
    workers, gate = Workers(1, "pool"), threading.Event()
    arrived = asyncio.Event()
    job = workers.submit(gate.wait, lambda job: arrived.set())
    waiting = asyncio.create_task(job.result())
    await all_tasks_blocked()
    gate.set()
    await arrived.wait()  # the future is done, the task has not gone on yet

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    await workers.close()


async def test_a_timeout_around_a_job_is_a_timeout():
    workers, gate = Workers(1, "pool"), threading.Event()

    async def wait() -> None:
        async with asyncio.timeout(0):
            await workers.submit(gate.wait).result(gate.set)

    with pytest.raises(TimeoutError):
        await wait()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await workers.close()


async def test_close_runs_what_is_queued_and_may_be_called_twice():
    workers = Workers(1, "pool")
    order: list[int] = []
    for k in range(5):
        workers.submit(partial(order.append, k))

    await workers.close()
    await workers.close()

    assert order == list(range(5))


async def test_a_cancelled_close_still_ends_the_threads():
    workers, gate = Workers(2, "pool"), threading.Event()
    jobs = [workers.submit(gate.wait) for _ in range(2)]
    threads = list(workers._threads)
    closing = asyncio.create_task(workers.close())
    await asyncio.sleep(0)

    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    gate.set()
    for job in jobs:
        await job.result()

    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert closing.cancelled()


async def test_the_switch_interval_is_short_while_there_are_workers(monkeypatch: pytest.MonkeyPatch):
    intervals = [0.005]  # not the interpreter's own: workers of other tests may end just now
    monkeypatch.setattr(
        workers_module, "switch_interval", SwitchInterval(lambda: intervals[-1], intervals.append)
    )
    first, second = Workers(2, "pool"), Workers(1, "other")

    for workers in (first, second, first):
        await workers.submit(lambda: None).result()
        assert intervals == [0.005, SWITCH_INTERVAL]
    await first.close()
    assert intervals == [0.005, SWITCH_INTERVAL]
    await second.close()

    assert intervals == [0.005, SWITCH_INTERVAL, 0.005]


async def test_workers_that_are_only_dismissed_give_the_switch_interval_back_too(
    monkeypatch: pytest.MonkeyPatch,
):
    intervals, over = [0.005], threading.Event()

    def put(seconds: float) -> None:
        intervals.append(seconds)
        if len(intervals) == 3:
            over.set()

    monkeypatch.setattr(workers_module, "switch_interval", SwitchInterval(lambda: intervals[-1], put))
    workers = Workers(1, "pool")
    await workers.submit(lambda: None).result()

    workers.dismiss()

    await asyncio.to_thread(over.wait)
    assert intervals == [0.005, SWITCH_INTERVAL, 0.005]


def test_the_switch_interval_of_the_process_is_the_interpreters():
    with workers_module.switch_interval:
        assert sys.getswitchinterval() <= SWITCH_INTERVAL * 1.001


def test_a_job_whose_loop_is_closed_does_no_harm():
    gate = threading.Event()

    async def leave() -> Workers:
        workers = Workers(1, "pool")
        workers.submit(gate.wait)
        return workers

    workers = asyncio.run(leave())
    gate.set()
    threads = list(workers._threads)
    asyncio.run(workers.close())

    assert not any(thread.is_alive() for thread in threads)


def test_there_is_at_least_one_processor():
    assert processors() >= 1


async def test_a_pool_that_can_start_no_thread_refuses_jobs_and_takes_them_again_later():
    workers = Workers(2, "pool")
    with no_threads():
        for _ in range(3):
            with pytest.raises(ResourceExhaustedError, match="pool: the system starts no more threads"):
                workers.submit(int)
        workers.start_all()

    assert await workers.submit(lambda: 5).result() == 5
    await workers.close()


async def test_a_pool_with_one_thread_uses_it_where_no_other_can_be_started():
    workers = Workers(2, "pool")
    await workers.submit(int).result()

    with no_threads():
        jobs = [workers.submit(partial(int, k)) for k in range(4)]
        assert [await job.result() for job in jobs] == [0, 1, 2, 3]

    await workers.close()
