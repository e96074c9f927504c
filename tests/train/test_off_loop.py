"""Blocking calls from coroutines end before their caller does."""

import asyncio
import threading

import pytest

from aioexec.train.off_loop import off_loop


async def test_a_blocking_call_gives_its_result_from_another_thread():
    assert await off_loop(lambda number: (number, threading.get_ident()), 3) != (3, threading.get_ident())


async def test_an_error_of_the_call_is_raised():
    def fail():
        raise FileNotFoundError("nowhere")

    with pytest.raises(FileNotFoundError, match="nowhere"):
        await off_loop(fail)


async def test_a_caller_cancelled_twice_leaves_only_when_the_call_has_returned():
    may_end, ended = threading.Event(), threading.Event()
    seen = asyncio.Event()
    loop = asyncio.get_running_loop()

    def block():
        loop.call_soon_threadsafe(seen.set)
        may_end.wait()
        ended.set()

    calling = asyncio.create_task(off_loop(block))
    await seen.wait()
    calling.cancel()
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.sleep(0)
    assert not calling.done()

    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert ended.is_set()
