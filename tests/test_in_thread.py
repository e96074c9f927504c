"""Calls in the loop's threads: their results, their cancellation, and a system without threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aioexec.errors import ResourceExhaustedError
from aioexec.in_thread import in_thread
from tests.thread_faults import no_threads


async def test_a_call_runs_in_another_thread_in_the_context_of_its_caller():
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")
    variable.set(7)

    thread, value = await in_thread(lambda: (threading.current_thread(), variable.get()))

    assert thread is not threading.current_thread()
    assert value == 7


async def test_what_a_call_raises_is_raised_where_it_is_awaited():
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 1, 0)


async def test_a_call_for_which_there_is_no_thread_is_refused_and_never_made():
    made: list[Any] = []
    with (
        no_threads(),
        pytest.raises(ResourceExhaustedError, match="append: the system starts no more threads"),
    ):
        in_thread(made.append, "refused")

    await in_thread(made.append, "made")

    assert made == ["made"]


async def test_a_call_that_a_thread_has_begun_already_is_awaited():
    """The executor may fail to start another thread while one of its own takes the call."""
    held, begun = threading.Event(), threading.Event()
    executor = ThreadPoolExecutor()
    asyncio.get_running_loop().set_default_executor(executor)

    def hold() -> None:
        begun.set()
        held.wait()

    first = in_thread(hold)
    begun.wait()
    with no_threads(), pytest.raises(ResourceExhaustedError):
        in_thread(int)
    held.set()
    await first
    with executor._idle_semaphore:
        pass  # the pool has counted its thread as idle, which it does after the call's result is there

    with no_threads():
        assert await in_thread(int) == 0


async def test_a_call_after_the_executor_has_shut_down_is_the_error_of_python():
    loop = asyncio.get_running_loop()
    await loop.shutdown_default_executor()

    with pytest.raises(RuntimeError, match="shutdown"):
        in_thread(int)
