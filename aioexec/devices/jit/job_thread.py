"""A worker thread that exists only while it has work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class JobThread(Generic[T]):
    """Runs jobs one after another in a thread of its own, started for the first job and ended after the last.

    The next job is the one with the highest priority; of several the one that was queued first. `work` and `priority` must not
    raise. `_is_sorted` is False when jobs or priorities may have changed since the jobs were sorted.
    """

    def __init__(
        self, name: str, work: Callable[[T], None], priority: Callable[[T], Any] | None = None
    ) -> None:
        self.name = name
        self._work = work
        self._priority = priority
        self._is_sorted = True
        self._lock = threading.Lock()  # guards what follows
        self._jobs: deque[T] = deque()
        self._thread: threading.Thread | None = None  # the one that takes jobs; None once it decided to end
        self._latest: threading.Thread | None = None  # the one started last, perhaps still ending

    @property
    def busy(self) -> bool:
        return self._thread is not None

    def put(self, job: T) -> None:
        """Queue a job; if no thread can be started, run it in the calling one, with jobs that are queued meanwhile."""
        with self._lock:
            self._jobs.append(job)
            self._is_sorted = False
            if self._thread is not None:
                return
            # A daemon: the process must not wait for compilers. The owner joins it at exit.
            thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                self._thread = threading.current_thread()
            else:
                self._thread = self._latest = thread
                return
        self._run()

    def reorder(self) -> None:
        """Determine the priorities anew before the next job is begun; cheap, from any thread."""
        self._is_sorted = False

    def drain(self) -> list[T]:
        """Remove and return the jobs not begun."""
        with self._lock:
            jobs = list(self._jobs)
            self._jobs.clear()
            return jobs

    def join(self, timeout: float | None = None) -> None:
        """Wait until the thread has ended."""
        thread = self._latest
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._thread = None
                    return
                if self._priority is not None and not self._is_sorted:
                    self._is_sorted = True  # first: a priority may change meanwhile
                    self._jobs = deque(sorted(self._jobs, key=self._priority, reverse=True))
                job = self._jobs.popleft()
            self._work(job)
