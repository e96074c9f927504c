"""`all_tasks_blocked`: runs all other tasks until each waits, without advancing time.

A task that awaits a future refers to it (`_fut_waiter`, in C and Python tasks alike); a runnable one has none, or a finished
one. Callbacks between a finished future and the task that awaits it (`gather`, `wait`, a chain of done callbacks) are not
visible on uvloop, so the loop must be idle for several iterations in a row; on the standard library's loop its ready queue is
checked too.
"""

import asyncio
from typing import Any
from weakref import WeakSet

QUIET_PASSES = 32
"""Iterations without a runnable task after which the loop counts as idle: one per link in a chain of callbacks."""

_waiting: "WeakSet[asyncio.Task[Any]]" = WeakSet()  # tasks inside all_tasks_blocked, on any loop


async def all_tasks_blocked(max_passes: int = 100_000) -> None:
    """Return when every other task of the running loop waits for something.

    Timers are not advanced; work in threads or other processes is not waited for.

    Raises:
        RuntimeError: after `max_passes` iterations of the loop some tasks still run: they call `sleep(0)` in a loop.
    """
    loop = asyncio.get_running_loop()
    me = asyncio.current_task()
    assert me is not None, "a coroutine runs in a task"
    _waiting.add(me)
    try:
        await _quiet(loop, max_passes)
    finally:
        _waiting.discard(me)


async def _quiet(loop: asyncio.AbstractEventLoop, max_passes: int) -> None:
    quiet = 0
    for _ in range(max_passes):
        await asyncio.sleep(0)
        quiet = quiet + 1 if _is_quiet(loop) else 0
        if quiet >= QUIET_PASSES:
            return
    running = ", ".join(sorted(task.get_name() for task in _runnable(loop)))
    raise RuntimeError(f"all_tasks_blocked: after {max_passes} passes these tasks still run: {running}")


def _is_quiet(loop: asyncio.AbstractEventLoop) -> bool:
    ready = getattr(loop, "_ready", ())  # uvloop hides its own
    others = len(_waiting) - 1
    return len(ready) <= others and not _runnable(loop)


def _runnable(loop: asyncio.AbstractEventLoop) -> list["asyncio.Task[Any]"]:
    return [task for task in asyncio.all_tasks(loop) if task not in _waiting and not _is_blocked(task)]


def _is_blocked(task: "asyncio.Task[Any]") -> bool:
    waiter: asyncio.Future[Any] | None = getattr(task, "_fut_waiter", None)
    return waiter is not None and not waiter.done()
