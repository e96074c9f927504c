"""The leak check names leftovers, and accepts what ends by itself."""

import asyncio
import os
import socket
import threading
from collections.abc import Coroutine

import pytest

from aioexec.testing import LeakCheck, LeakError


def test_a_clean_block_passes():
    with LeakCheck():
        left, right = socket.socketpair()
        left.close()
        right.close()


def test_an_open_socket_is_reported():
    with pytest.raises(LeakError, match=r"file descriptor \d+: socket:"), LeakCheck(join_seconds=0.01):
        left, right = socket.socketpair()
        left.close()

    right.close()


def test_a_file_that_takes_the_number_of_a_closed_one_is_reported(tmp_path):
    flags = os.O_RDWR | os.O_CREAT
    first = os.open(tmp_path / "first", flags)

    with pytest.raises(LeakError, match=r"second"), LeakCheck(join_seconds=0.01):
        os.close(first)
        second = os.open(tmp_path / "second", flags)

    os.close(second)
    assert second == first


def test_a_thread_that_keeps_running_is_reported():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="stubborn")

    with pytest.raises(LeakError, match="thread 'stubborn'"), LeakCheck(join_seconds=0.01):
        thread.start()

    stop.set()
    thread.join()


def test_a_thread_about_to_end_is_joined():
    with LeakCheck():
        threading.Thread(target=lambda: None).start()


def test_threads_of_the_process_may_stay():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="aioexec-process-worker-0")

    with LeakCheck():
        thread.start()

    stop.set()
    thread.join()


def test_a_descriptor_of_the_process_may_stay():
    opened: list[socket.socket] = []

    with LeakCheck(lasting_descriptors=lambda: [end.fileno() for end in opened]):
        opened.extend(socket.socketpair())

    for end in opened:
        end.close()


def test_the_error_of_the_block_comes_first():
    with pytest.raises(KeyError), LeakCheck():
        left, right = socket.socketpair()
        raise KeyError("the cause")

    left.close()
    right.close()


@pytest.mark.both_loops
async def test_a_task_left_running_is_named_with_its_place():
    async def forgotten() -> None:
        await asyncio.Event().wait()

    with pytest.raises(LeakError, match=r"task 'lost' \(.*forgotten\) at .*test_leaks.py:\d+"):
        async with LeakCheck():
            task = asyncio.create_task(forgotten(), name="lost")

    task.cancel()
    await asyncio.wait([task])


@pytest.mark.both_loops
async def test_a_cancelled_task_gets_time_to_finish():
    async with LeakCheck():
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        task.cancel()


@pytest.mark.both_loops
class Compiled(Coroutine):
    """A coroutine without Python code, like those of libraries written in C or Cython."""

    def __init__(self, waited):
        self._steps = waited.__await__()

    def send(self, value):
        return self._steps.send(value)

    def throw(self, *error):
        return self._steps.throw(*error)

    def close(self):
        self._steps.close()

    def __await__(self):
        return self


async def test_a_task_of_a_compiled_library_may_wait_for_a_thread():
    loop, goes_on = asyncio.get_running_loop(), threading.Event()
    left = loop.run_in_executor(None, goes_on.wait)

    async with LeakCheck(threads=False, task_passes=1):
        task = asyncio.ensure_future(Compiled(left))
        loop.call_later(0.01, goes_on.set)

    assert task.done()


async def test_a_task_of_a_compiled_library_that_does_not_end_is_reported():
    never = asyncio.get_running_loop().create_future()

    with pytest.raises(LeakError, match="task"):
        async with LeakCheck(threads=False, join_seconds=0.01):
            task = asyncio.ensure_future(Compiled(never))

    never.cancel()
    await asyncio.wait([task])


async def test_the_executor_of_the_loop_is_no_leak():
    async with LeakCheck():
        assert await asyncio.to_thread(lambda: 7) == 7
