"""A worker thread that exists only while it has work."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class JobThread(Generic[T]):
    """Runs jobs one after another in a thread of its own, started for the first job and ended after the last.

    `work` must not raise.
    """

    def __init__(self, name: str, work: Callable[[T], None]) -> None:
        self.name = name
        self._work = work
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
                job = self._jobs.popleft()
            self._work(job)
