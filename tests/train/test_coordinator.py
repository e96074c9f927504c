"""A group of tasks that stops together: requests, waits, raised errors, and no leaks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aioexec.errors import AbortedError, GraphTypeError, OutOfRangeError
from aioexec.testing import all_tasks_blocked
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.coordination.task_thread import TaskThread


def until_stopped(coord: Coordinator, name: str = "worker") -> TaskThread:
    """A member that ends when a stop is requested."""

    async def run() -> None:
        await coord.wait_for_stop()

    thread = TaskThread(run, name)
    coord.register_thread(thread)
    thread.start()
    return thread


def never_ending(coord: Coordinator, name: str = "worker", ended: list[str] | None = None) -> TaskThread:
    """A member that does not listen."""

    async def run() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            if ended is not None:
                ended.append(name)

    thread = TaskThread(run, name)
    coord.register_thread(thread)
    thread.start()
    return thread


# Asking for a stop


async def test_a_wait_for_a_stop_ends_at_a_request():
    coord = Coordinator()
    waiting = [asyncio.create_task(coord.wait_for_stop()) for _ in range(3)]
    await all_tasks_blocked()
    assert not coord.should_stop()

    coord.request_stop()

    assert await asyncio.gather(*waiting) == [True, True, True]
    assert coord.should_stop()
    assert await coord.wait_for_stop()


async def test_waiting_ends_when_time_is_over(virtual_clock):
    coord = Coordinator()

    assert not await coord.wait_for_stop(5)
    assert virtual_clock.time() == 5
    assert not await coord.wait_for_stop(0)
    assert not await coord.wait_for_stop(-1)
    assert virtual_clock.time() == 5


async def test_a_request_may_come_from_another_thread():
    coord = Coordinator()
    waiting = asyncio.create_task(coord.wait_for_stop())
    await all_tasks_blocked()

    asking = threading.Thread(target=coord.request_stop, args=(AbortedError("from a thread"),))
    asking.start()

    assert await waiting
    with pytest.raises(AbortedError, match="from a thread"):
        await coord.join([asking])


async def test_a_thread_may_wait_for_a_stop():
    coord = Coordinator()
    loop = asyncio.get_running_loop()
    answers: list[bool] = []

    def work() -> None:
        answers.append(asyncio.run_coroutine_threadsafe(coord.wait_for_stop(), loop).result())

    thread = threading.Thread(target=work)
    thread.start()
    coord.register_thread(thread)
    await all_tasks_blocked()
    coord.request_stop()
    await coord.join()

    assert answers == [True]


def test_a_coordinator_needs_no_loop_to_be_made_and_asked():
    coord = Coordinator()
    coord.request_stop(AbortedError("early"))

    assert coord.should_stop()
    assert not coord.joined
    with pytest.raises(AbortedError):
        coord.raise_requested_exception()
    coord.clear_stop()
    assert not coord.should_stop()
    coord.raise_requested_exception()


async def test_a_block_that_raises_requests_a_stop_and_ends_there():
    coord = Coordinator()

    with coord.stop_on_exception():
        raise AbortedError("in the block")

    with pytest.raises(AbortedError, match="in the block"):
        await coord.join()


async def test_a_block_that_ends_input_requests_a_clean_stop():
    for error in (OutOfRangeError("the end"), StopIteration(), StopAsyncIteration()):
        coord = Coordinator()
        with coord.stop_on_exception():
            raise error

        assert coord.should_stop()
        await coord.join()


async def test_errors_that_are_clean_for_the_user_are_not_raised():
    coord = Coordinator(clean_stop_exception_types=[KeyError])
    coord.request_stop(KeyError("clean"))
    await coord.join()

    strict = Coordinator(clean_stop_exception_types=[])
    strict.request_stop(OutOfRangeError("the end"))
    with pytest.raises(OutOfRangeError):
        await strict.join()


async def test_a_cancelled_block_requests_a_stop_and_stays_cancelled():
    coord = Coordinator()

    async def block() -> None:
        with coord.stop_on_exception():
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(block())
    await all_tasks_blocked()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert coord.should_stop()
    await coord.join()


# Joining


async def test_join_waits_for_members_and_raises_the_first_error():
    coord = Coordinator()
    threads = [until_stopped(coord, f"worker {k}") for k in range(3)]
    joining = asyncio.create_task(coord.join(threads))
    await all_tasks_blocked()
    assert not joining.done()

    coord.request_stop(AbortedError("first"))
    coord.request_stop(AbortedError("second"))

    with pytest.raises(AbortedError, match="first"):
        await joining
    assert not any(thread.is_alive() for thread in threads)
    assert coord.joined


async def test_join_returns_without_a_request_when_all_members_have_ended():
    coord = Coordinator()
    gate = asyncio.Event()

    async def run() -> None:
        await gate.wait()

    thread = TaskThread(run, "worker")
    thread.start()
    joining = asyncio.create_task(coord.join([thread]))
    await all_tasks_blocked()
    gate.set()

    await joining
    assert not coord.should_stop()


async def test_a_request_that_is_cleared_at_once_leaves_join_waiting():
    coord = Coordinator()
    thread = until_stopped(coord)
    joining = asyncio.create_task(coord.join())
    await all_tasks_blocked()

    coord.request_stop()
    coord.clear_stop()
    await thread.join()  # it was woken, and did not ask again

    await joining
    assert not coord.should_stop()


async def test_what_is_not_started_is_not_waited_for():
    coord = Coordinator()

    async def run() -> None:
        raise AssertionError("it was never started")

    coord.register_thread(TaskThread(run, "worker"))

    await coord.join()


async def test_members_that_are_late_are_named_cancelled_and_awaited(virtual_clock):
    coord = Coordinator()
    ended: list[str] = []
    late = never_ending(coord, "slow one", ended)
    until_stopped(coord)
    coord.request_stop()

    with pytest.raises(RuntimeError, match="Coordinator stopped with threads still running: slow one"):
        await coord.join(stop_grace_period_secs=30)

    assert virtual_clock.time() == 30
    assert ended == ["slow one"]
    assert not late.is_alive()


async def test_late_members_may_be_no_error(virtual_clock):
    coord = Coordinator()
    late = never_ending(coord)
    coord.request_stop()

    await coord.join(stop_grace_period_secs=1, ignore_live_threads=True)

    assert not late.is_alive()


async def test_an_error_counts_more_than_late_members(virtual_clock):
    coord = Coordinator()
    never_ending(coord)
    coord.request_stop(AbortedError("the cause"))

    with pytest.raises(AbortedError, match="the cause"):
        await coord.join(stop_grace_period_secs=1)


async def test_without_a_grace_members_are_late_at_once(virtual_clock):
    coord = Coordinator()
    never_ending(coord)
    coord.request_stop()

    with pytest.raises(RuntimeError, match="still running"):
        await coord.join(stop_grace_period_secs=-1)
    assert virtual_clock.time() == 0


async def test_the_grace_begins_with_the_request(virtual_clock):
    coord = Coordinator()
    never_ending(coord)
    asyncio.get_running_loop().call_later(1000, coord.request_stop)

    with pytest.raises(RuntimeError, match="still running"):
        await coord.join(stop_grace_period_secs=30)
    assert virtual_clock.time() == 1030


async def test_after_a_join_an_error_is_raised_to_its_bringer():
    coord = Coordinator()
    coord.request_stop()
    await coord.join()

    with pytest.raises(AbortedError):
        coord.request_stop(AbortedError("late"))
    with pytest.raises(AbortedError), coord.stop_on_exception():
        raise AbortedError("late")


async def test_a_coordinator_may_be_used_again_when_the_request_is_cleared():
    coord = Coordinator()
    for number in range(3):
        coord.clear_stop()
        thread = until_stopped(coord)
        coord.request_stop(AbortedError(str(number)))
        with pytest.raises(AbortedError, match=str(number)):
            await coord.join()
        assert not thread.is_alive()


async def test_a_task_of_the_users_that_fails_stops_the_group():
    coord = Coordinator()
    other = until_stopped(coord)

    async def fail() -> None:
        raise AbortedError("in a task")

    task = asyncio.create_task(fail())
    with pytest.raises(AbortedError, match="in a task"):
        await coord.join([task])
    assert not other.is_alive()


async def test_a_task_of_the_users_that_has_failed_before_is_no_less_an_error():
    coord = Coordinator()

    async def fail() -> None:
        raise AbortedError("in a task")

    task = asyncio.create_task(fail())
    await all_tasks_blocked()

    with pytest.raises(AbortedError, match="in a task"):
        await coord.join([task])


async def test_a_request_may_interrupt_another_one():
    """As that of a signal handler may, at any time."""

    class Interrupting(type):
        def __instancecheck__(cls, instance: object) -> bool:
            if not coord.should_stop():
                coord.request_stop()
            return False

    looking: Any = Interrupting("Error", (Exception,), {})
    coord = Coordinator([looking])
    coord.request_stop(KeyError("interrupted"))

    assert coord.should_stop()


async def test_a_task_of_the_users_that_is_cancelled_just_ends():
    coord = Coordinator()

    async def wait() -> None:
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(wait())
    coord.register_thread(task)
    await all_tasks_blocked()
    task.cancel()

    await coord.join()
    assert not coord.should_stop()


async def test_a_thread_is_joined_and_one_that_is_late_goes_on():
    coord = Coordinator()
    may_end = threading.Event()
    thread = threading.Thread(target=may_end.wait, name="a thread")
    thread.start()
    coord.register_thread(thread)
    coord.request_stop()

    with pytest.raises(RuntimeError, match="still running: a thread"):
        await coord.join(stop_grace_period_secs=0)
    assert thread.is_alive()

    joining = asyncio.create_task(coord.join([thread]))
    await all_tasks_blocked()
    may_end.set()
    await joining
    assert not thread.is_alive()


async def test_a_task_cannot_join_itself():
    coord = Coordinator()
    me = asyncio.current_task()
    assert me is not None
    coord.request_stop()

    with pytest.raises(RuntimeError, match="cannot join current thread"):
        await coord.join([me])


def test_only_tasks_and_threads_are_members():
    no_thread: Any = 3
    with pytest.raises(GraphTypeError, match="expected a task or thread to register, got 3"):
        Coordinator().register_thread(no_thread)


async def test_waiting_for_members_takes_no_turns_of_the_loop():
    coord = Coordinator()
    thread = never_ending(coord)
    joining = asyncio.create_task(coord.join())
    await all_tasks_blocked()
    coord.request_stop()
    coord.clear_stop()

    await all_tasks_blocked()

    thread.cancel()
    await joining


# Cancelling


@pytest.mark.parametrize("passes", range(1, 12))
async def test_a_join_that_is_cancelled_anywhere_can_be_joined_again(virtual_clock, passes):
    coord = Coordinator()
    ended: list[str] = []
    for name in ("one", "two"):
        never_ending(coord, name, ended)
    until_stopped(coord)
    asyncio.get_running_loop().call_soon(coord.request_stop)
    joining = asyncio.create_task(coord.join(stop_grace_period_secs=0, ignore_live_threads=True))
    for _ in range(passes):
        await asyncio.sleep(0)
    joining.cancel()
    await asyncio.gather(joining, return_exceptions=True)

    await coord.join(stop_grace_period_secs=0, ignore_live_threads=True)

    assert sorted(ended) == ["one", "two"]
    assert coord.joined


async def test_a_wait_that_is_cancelled_leaves_nothing_to_wake():
    coord = Coordinator()
    waiting = asyncio.create_task(coord.wait_for_stop())
    await all_tasks_blocked()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    coord.request_stop()
    await all_tasks_blocked()


# Tasks with the face of threads


async def test_a_task_thread_is_started_once_and_joined():
    gate = asyncio.Event()

    async def run() -> None:
        await gate.wait()

    thread = TaskThread(run, "mine")
    assert repr(thread) == "<TaskThread 'mine', initial>"
    with pytest.raises(RuntimeError, match="before it is started"):
        await thread.join()
    thread.start()
    with pytest.raises(RuntimeError, match="can only be started once"):
        thread.start()
    assert thread.is_alive()
    assert repr(thread) == "<TaskThread 'mine', started>"

    gate.set()
    await thread.join()

    assert not thread.is_alive()
    assert repr(thread) == "<TaskThread 'mine', stopped>"


async def test_joining_a_task_thread_may_take_only_so_long(virtual_clock):
    coord = Coordinator()
    thread = never_ending(coord)

    await thread.join(timeout=3)

    assert thread.is_alive()
    thread.cancel()
    await thread.join()
