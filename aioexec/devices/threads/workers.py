"""Worker threads of a device: they run calls that would block the event loop, and report back to it.

A `Job` is one call on a worker. Awaiting it is safe to cancel: the await continues until the worker has reported, and only then
raises, so nothing a step started outlives it. Threads start when there is work and end with `close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from aioexec.devices.threads.scheduling import give_way
from aioexec.devices.threads.spinning import ENTRIES
from aioexec.devices.threads.spinning_queue import SpinningQueue
from aioexec.errors import ResourceExhaustedError
from aioexec.graph.kernels.interruption import current
from aioexec.in_thread import in_thread, no_thread

Result = TypeVar("Result")

_LOOPS = 4
"""Event loops that may own a parallel region at the same time as each of the workers."""
SWITCH_INTERVAL = 0.0005
"""Seconds a thread may keep the interpreter while another waits, while workers exist: the default of 5 ms is a loop lag."""


class Job(Generic[Result]):
    """One call on a worker; a kernel reads from `interruption.current` whether it `is_cancelled`.

    `_call` is None once it was made. The worker writes `_result` or `_error` before the loop sets `_finished`; `_waiter` is
    used on the loop only.
    """

    __slots__ = ("_call", "_done", "_error", "_finished", "_loop", "_result", "_waiter", "is_cancelled")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[], Result],
        done: Callable[[Job[Result]], None] | None,
    ) -> None:
        self._loop = loop
        self._call: Callable[[], Result] | None = call
        self._done = done
        self._result: Any = None
        self._error: BaseException | None = None
        self._finished = False
        self._waiter: asyncio.Future[None] | None = None
        self.is_cancelled = False

    def run(self) -> None:
        """Make the call, and notify the loop; on the worker."""
        current.job = self
        try:
            self._make()
        finally:
            current.job = None
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._finish)

    def run_here(self) -> None:
        """Make the call on the loop."""
        self._make()
        self._finish()

    def _make(self) -> None:
        call, self._call = self._call, None
        assert call is not None, "a job runs once"
        try:
            self._result = call()
        except BaseException as error:  # raised where the job is awaited
            self._error = error
        del call  # its references are dropped before the loop is notified, not when this thread runs next

    def _finish(self) -> None:
        self._finished = True
        if self._done is not None:
            self._done(self)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def result(self, cancel: Callable[[], None] | None = None) -> Result:
        """Wait for the worker; virtual time stands still meanwhile.

        If the awaiting task is cancelled, call `cancel`, keep waiting, and raise when the worker has reported.
        """
        cancelled: asyncio.CancelledError | None = None
        with held_time(self._loop):
            while not self._finished:
                self._waiter = self._loop.create_future()
                try:
                    await self._waiter
                except asyncio.CancelledError as error:
                    cancelled = error
                    self.is_cancelled = True
                    if cancel is not None:
                        cancel()
        if cancelled is not None:
            raise cancelled
        return self.outcome()

    def outcome(self) -> Result:
        """What the call returned or raised, once it has finished."""
        assert self._finished
        if self._error is not None:
            raise self._error
        result: Result = self._result
        return result


class Workers:
    """A pool of up to `count` threads, for the event loops of any threads.

    Constant: `count`, `name`, `_prepare` (the first call of each thread); `waiting`, the number of queued jobs and the parallel
    regions that are open, for machine code (see `spinning`). `_lock` guards `_threads` and `_closed`, which becomes True once.
    """

    def __init__(self, count: int, name: str, prepare: Callable[[], None] | None = None) -> None:
        self.count = count
        self.name = name
        self._prepare = prepare
        self._queue: SpinningQueue[Job[Any] | None] = SpinningQueue(count + _LOOPS)
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._closed = False
        self.waiting = self._queue.waiting

    def spin_with(self, look: Callable[..., int]) -> None:
        """Set the function by which idle threads spin before they sleep (see `spinning_queue`)."""
        self._queue.spin_with(look)

    @property
    def are_wanted(self) -> bool:
        """Whether a job waits for a thread; from any thread."""
        return bool(self.waiting[ENTRIES]) and not self._closed

    @property
    def closed(self) -> bool:
        """Whether the pool takes no more jobs."""
        return self._closed

    def submit(
        self, call: Callable[[], Result], done: Callable[[Job[Result]], None] | None = None
    ) -> Job[Result]:
        """Queue a call; from the event loop. `done` is called there when it has finished.

        Raises:
            ResourceExhaustedError: the pool has no thread and can start none.
        """
        job = Job(asyncio.get_running_loop(), call, done)
        self.put(job)
        return job

    def put(self, job: Job[Any]) -> None:
        """Queue a job of the running loop.

        Raises:
            ResourceExhaustedError: the pool has no thread and can start none.
        """
        assert not self._closed, f"{self.name}: a job after close"
        if computes_inline(asyncio.get_running_loop()):
            job.run_here()
            return
        if not self._start_thread() and not self._threads:
            raise no_thread(self.name)
        self._queue.put(job)

    def wake_up(self, count: int) -> None:
        """Wake sleeping threads until so many spin, and find the parallel regions that are open."""
        self._queue.wake_up(count)

    def start_all(self) -> None:
        """Start every thread now, for programs with parallel regions."""
        while len(self._threads) < self.count and not self._closed and self._start_thread():
            pass

    def _start_thread(self) -> bool:
        """Start a thread unless there are enough; False if the system refuses."""
        if len(self._threads) >= self.count:
            return True  # the usual case needs no lock
        with self._lock:
            if len(self._threads) < self.count and not self._closed:
                name, target = f"{self.name}-{len(self._threads)}", partial(self._work, switch_interval)
                thread = threading.Thread(target=target, name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._threads.append(thread)
        return True

    def _work(self, interval: SwitchInterval) -> None:
        give_way()
        if self._prepare is not None:
            self._prepare()
        with interval:
            while (job := self._queue.get()) is not None:
                job.run()
                del (
                    job
                )  # else an idle thread keeps the objects of the last step alive, and the frames of its error

    async def close(self) -> None:
        """End the threads, after the jobs that are queued."""
        self.dismiss()
        with self._lock:
            threads, self._threads = self._threads, []
        for thread in threads:
            if thread.is_alive():
                with contextlib.suppress(
                    ResourceExhaustedError
                ):  # there is no thread to wait in; the threads end nevertheless
                    await in_thread(thread.join)

    def dismiss(self) -> None:
        """Accept no more jobs, and request the threads to end after those that are queued; does not wait."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._queue.put(None)


class SwitchInterval:
    """The interpreter's switch interval, lowered while any thread is inside; `_lock` guards the count and the setting."""

    def __init__(
        self,
        get: Callable[[], float] = sys.getswitchinterval,
        put: Callable[[float], None] = sys.setswitchinterval,
    ) -> None:
        self._get = get
        self._put = put
        self._lock = threading.Lock()
        self._inside = 0
        self._before = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = self._get()
                self._put(min(self._before, SWITCH_INTERVAL))
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._put(self._before)


switch_interval = SwitchInterval()
"""The instance of this process; each worker thread is inside until it ends."""


def computes_inline(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a loop makes every call itself, at once: in simulations, where no order may depend on threads or durations
    (see `testing.deterministic`)."""
    return getattr(loop, "computes_inline", False)


def held_time(loop: asyncio.AbstractEventLoop) -> contextlib.AbstractContextManager[None]:
    """Keep the clock of a loop in virtual time (see `testing.clock`) from jumping while a thread works for it; other loops have
    no such clock."""
    hold: Callable[[], contextlib.AbstractContextManager[None]] = getattr(
        loop, "hold_time", contextlib.nullcontext
    )
    return hold()


def processors() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
