"""The virtual clock jumps to the next timer, and only when nothing else is under way."""

import asyncio
import threading
import time

import pytest

import aioexec as ax
from aioexec.devices.threads.workers import Workers
from aioexec.planning.pipeline import Planner
from aioexec.planning.plan import Plan
from aioexec.planning.subgraph import Signature
from aioexec.testing import VirtualClock, VirtualClockLoop, all_tasks_blocked


async def test_a_long_sleep_takes_no_real_time(virtual_clock):
    started = time.monotonic()

    await asyncio.sleep(3600)

    assert virtual_clock.time() == 3600
    assert time.monotonic() - started < 60, "however slow the machine is"


async def test_timers_fire_in_the_order_of_their_deadlines_and_at_them(virtual_clock):
    loop = asyncio.get_running_loop()
    fired = []

    def fire(delay: float) -> None:
        fired.append((delay, loop.time()))

    for delay in (3.0, 1.0, 2.0):
        loop.call_later(delay, fire, delay)

    await asyncio.sleep(10)

    assert fired == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


async def test_code_between_two_timers_takes_no_virtual_time(virtual_clock):
    for _ in range(1000):
        await asyncio.sleep(0)

    assert virtual_clock.time() == 0


async def test_a_timeout_fires_at_its_deadline(virtual_clock):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(30):
            await asyncio.Event().wait()

    assert virtual_clock.time() == 30


async def test_time_stands_still_while_a_thread_of_the_loop_works(virtual_clock):
    release = threading.Event()
    timer = asyncio.create_task(asyncio.sleep(5))
    job = asyncio.create_task(asyncio.to_thread(release.wait))
    await all_tasks_blocked()

    assert virtual_clock.is_held
    asyncio.get_running_loop().call_soon(release.set)
    assert await job

    assert virtual_clock.time() == 0
    await timer
    assert virtual_clock.time() == 5


async def test_time_stands_still_while_a_worker_computes_what_is_awaited(virtual_clock):
    workers, release = Workers(1, "pool"), threading.Event()
    timer = asyncio.create_task(asyncio.sleep(5))
    job = asyncio.create_task(workers.submit(release.wait).result())
    await all_tasks_blocked()

    assert virtual_clock.is_held
    asyncio.get_running_loop().call_soon(release.set)
    assert await job

    assert virtual_clock.time() == 0
    await timer
    assert virtual_clock.time() == 5
    await workers.close()


async def test_time_stands_still_while_a_predicate_says_busy(virtual_clock):
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    outstanding = [1]
    remove = virtual_clock.add_busy(lambda: bool(outstanding))

    def work() -> None:
        outstanding.pop()
        loop.call_soon_threadsafe(done.set)

    worker = threading.Thread(target=work)
    timer = loop.call_later(1, pytest.fail, "the clock jumped past a busy worker")
    loop.call_soon(worker.start)
    async with asyncio.timeout(2):
        await done.wait()
    worker.join()
    timer.cancel()
    remove()

    assert virtual_clock.time() == 0
    assert not virtual_clock.is_held


async def test_time_stands_still_inside_hold(virtual_clock):
    loop = asyncio.get_running_loop()
    answered = asyncio.Event()
    answer = threading.Thread(target=lambda: loop.call_soon_threadsafe(answered.set))

    with virtual_clock.hold():
        async with asyncio.timeout(1):
            answer.start()
            await answered.wait()
    answer.join()

    assert virtual_clock.time() == 0


async def test_time_stands_still_while_a_step_is_planned(virtual_clock, monkeypatch):
    loop = asyncio.get_running_loop()
    plan = Planner.plan

    def plan_while_the_loop_is_idle(planner: Planner, signature: Signature) -> Plan:
        for _ in range(50):
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
        return plan(planner, signature)

    monkeypatch.setattr(Planner, "plan", plan_while_the_loop_is_idle)
    timer = loop.call_later(1, pytest.fail, "the clock jumped while a step was planned")
    with ax.Graph().as_default():
        one = ax.constant(1)
        async with ax.Session() as session:
            assert await session.run(one) == 1
    timer.cancel()

    assert virtual_clock.time() == 0


async def test_without_autojump_time_moves_only_by_advance(virtual_clock):
    virtual_clock.autojump = False
    sleeper = asyncio.create_task(asyncio.sleep(10))
    await all_tasks_blocked()

    virtual_clock.advance(9)
    await all_tasks_blocked()
    assert not sleeper.done()

    virtual_clock.advance(1)
    await sleeper
    assert virtual_clock.time() == 10


async def test_sockets_are_served_before_time_moves(virtual_clock):
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"hello\n")
        with virtual_clock.hold():
            assert await reader.readline() == b"hello\n"
        writer.close()
        await writer.wait_closed()

    assert virtual_clock.time() == 0


def test_a_clock_does_not_run_backwards():
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        VirtualClock().advance(-1)


def test_a_loop_runs_on_the_clock_it_is_given():
    clock = VirtualClock(start=100.0)

    with asyncio.Runner(loop_factory=lambda: VirtualClockLoop(clock)) as runner:
        runner.run(asyncio.sleep(5))

    assert clock.time() == 105.0
