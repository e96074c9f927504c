"""`LeakCheck`: checks that everything started in the block is gone at its end.

It checks tasks of the running loop (`async with` only), threads, and open file descriptors, including sockets. Leftovers get a
grace period: a few iterations of the loop, a join, a garbage collection; only if there are any, so a clean block costs almost
nothing.

Threads that belong to the process rather than to the tested code (the workers of the devices) are named `aioexec-process-…` by
their owners and are not counted.
"""

import asyncio
import gc
import os
import threading
from collections.abc import Callable, Iterable
from time import monotonic, sleep
from types import CoroutineType, TracebackType
from typing import Any, Self

LASTING_THREADS = ("aioexec-process",)
"""Prefixes of the names of threads that live as long as the process."""

LASTING_FILES = ("/dev/", "/proc/", "/sys/")
"""Prefixes of files that libraries open once and keep open, such as /dev/urandom."""

LASTING_TASKS = ("TestRunner._call_in_runner_task", "TestRunner._run_tests_and_fixtures")
"""The coroutines in whose tasks anyio's pytest plugin runs a test and its fixtures."""

AnyTask = asyncio.Task[Any]


class LeakError(AssertionError):
    """Something outlived the block that started it."""


class LeakCheck:
    """Raise `LeakError` if tasks, threads or file descriptors are left at the end of the block.

    `lasting_threads` are prefixes of names; `lasting_descriptors` returns at the end those that belong to the process.
    `task_passes` are the loop iterations in which a cancelled task must finish; `join_seconds` the total real time in which
    threads that are about to end must finish, and tasks of compiled libraries.

    The plain `with` form is for code around an event loop; `async with` also checks the loop's tasks. A block that raises is
    not checked, so that its own error is seen.
    """

    def __init__(
        self,
        *,
        tasks: bool = True,
        threads: bool = True,
        descriptors: bool = True,
        lasting_threads: Iterable[str] = (),
        lasting_descriptors: Callable[[], Iterable[int]] = tuple,
        join_seconds: float = 2.0,
        task_passes: int = 16,
    ) -> None:
        self._check_tasks = tasks
        self._check_threads = threads
        self._check_descriptors = descriptors
        self._lasting = (*LASTING_THREADS, *lasting_threads)
        self._lasting_descriptors = lasting_descriptors
        self._join_seconds = join_seconds
        self._task_passes = task_passes
        # State on entry, by identity, so that a reused name or number does not hide a leak.
        self._tasks: set[AnyTask] = set()
        self._threads: set[threading.Thread] = set()
        self._descriptors: dict[int, str] = {}

    def __enter__(self) -> Self:
        self._threads = set(threading.enumerate())
        self._descriptors = open_descriptors() if self._check_descriptors else {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            _raise_if_any([*self._left_threads(), *self._left_descriptors()])

    async def __aenter__(self) -> Self:
        # The loop's own executor outlives the block and ends with the loop.
        self._lasting = (*self._lasting, "asyncio_", "uvloop_")
        self._tasks = asyncio.all_tasks()
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            tasks = await self._left_tasks()
            _raise_if_any([*tasks, *self._left_threads(), *self._left_descriptors()])

    async def _left_tasks(self) -> list[str]:
        left: set[AnyTask] = set()
        for _ in range(self._task_passes if self._check_tasks else 0):
            left = {task for task in asyncio.all_tasks() - self._tasks if not _is_lasting(task)}
            if not left:
                break
            await asyncio.sleep(0)
        if left and not any(isinstance(task.get_coro(), CoroutineType) for task in left):
            _, left = await asyncio.wait(
                left, timeout=self._join_seconds
            )  # tasks of compiled libraries wait for their threads
        return sorted(map(describe_task, left))

    def _left_threads(self) -> list[str]:
        if not self._check_threads:
            return []
        deadline = monotonic() + self._join_seconds
        left = []
        for thread in threading.enumerate():
            if thread in self._threads or thread.name.startswith(self._lasting):
                continue
            thread.join(max(0.0, deadline - monotonic()))
            if thread.is_alive():
                left.append(f"thread {thread.name!r}{' (daemon)' if thread.daemon else ''}")
        return sorted(left)

    def _left_descriptors(self) -> list[str]:
        if not self._check_descriptors or not self._new_descriptors():
            return []
        gc.collect()  # a socket or file in a reference cycle is closed by the collector, with a warning
        deadline = monotonic() + self._join_seconds
        while self._new_descriptors() and monotonic() < deadline:
            sleep(0.005)  # threads of libraries close their descriptors with a delay
        return [f"file descriptor {number}: {target}" for number, target in self._new_descriptors()]

    def _new_descriptors(self) -> list[tuple[int, str]]:
        new = [
            (number, target)
            for number, target in open_descriptors().items()
            if self._descriptors.get(number) != target and not target.startswith(LASTING_FILES)
        ]
        lasting = set(self._lasting_descriptors()) if new else set()
        return [(number, target) for number, target in new if number not in lasting]


def open_descriptors() -> dict[int, str]:
    """Return the target of each open file descriptor of this process; empty if unknown."""
    descriptors = {}
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return {}
    for name in names:
        try:
            descriptors[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the descriptor that listed the directory
    return descriptors


def describe_task(task: AnyTask) -> str:
    """Name a task, its coroutine and the line it waits at."""
    stack = task.get_stack(limit=1)
    where = f" at {stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else ""
    return f"task {task.get_name()!r} ({_name_of(task)}){where}"


def _is_lasting(task: AnyTask) -> bool:
    return task is asyncio.current_task() or _name_of(task) in LASTING_TASKS


def _name_of(task: AnyTask) -> str:
    coroutine = task.get_coro()
    return str(getattr(coroutine, "__qualname__", repr(coroutine)))


def _raise_if_any(left: list[str]) -> None:
    if left:
        raise LeakError("left over: " + "; ".join(left))
