"""A serial executor: calls run one at a time, in FIFO order, on the threads of a shared pool.

Sessions use it for planning and building: with a thread for each session, the event loop would wait for every thread to start,
and a thousand threads would compete for the interpreter. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from aioexec.devices.threads.pools import dismiss_pool
from aioexec.devices.threads.workers import Job, Workers
from aioexec.errors import OpError

Result = TypeVar("Result")


class Sequence:
    """Makes calls in a shared pool, to which it holds a reference.

    `_line` are the jobs that wait for the running one; `_is_busy` while there is one; `_is_dismissed` once no more are
    accepted; `_idle` is an event for the end of the last job, while `close` waits for it.
    """

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self._line: deque[Job[Any]] = deque()
        self._is_busy = False
        self._is_dismissed = False
        self._idle = asyncio.Event()

    def submit(
        self, call: Callable[[], Result], done: Callable[[Job[Result]], None] | None = None
    ) -> Job[Result]:
        """Queue a call; `done` is called on the loop when it has finished.

        Raises:
            ResourceExhaustedError: the pool has no thread and can start none.
        """
        assert not self._is_dismissed, f"{self.workers.name}: a job after close"
        job = Job(asyncio.get_running_loop(), call, partial(self._on_call_ended, done))
        if self._is_busy:
            self._line.append(job)
            return job
        self._is_busy = True
        try:
            self.workers.put(job)
        except OpError:
            self._is_busy = False
            raise
        return job

    def dismiss(self) -> None:
        """Accept no more calls, and release the pool when the queued ones have finished."""
        if not self._is_dismissed:
            self._is_dismissed = True
            if not self._is_busy:
                self._release()

    async def close(self) -> None:
        """Dismiss, and wait until every call has finished and, if there is no other holder, the pool's threads have ended."""
        self.dismiss()
        if self._is_busy:
            await self._idle.wait()
        if self.workers.closed:
            await self.workers.close()

    def _on_call_ended(self, done: Callable[[Job[Any]], None] | None, job: Job[Any]) -> None:
        try:
            if done is not None:
                done(job)
        finally:
            if self._line:
                self.workers.put(self._line.popleft())
            else:
                self._is_busy = False
                if self._is_dismissed:
                    self._release()

    def _release(self) -> None:
        dismiss_pool(self.workers)
        self._idle.set()
