"""Explores the interleavings of threads at lock operations, up to a number of preemptions.

Threads are real, but one runs at a time: each stops before it acquires a lock and after it releases one, and the explorer
chooses the thread that continues. A schedule in which no thread can continue although one has not ended is a deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

Body = Callable[[], object]


class _AbandonedError(BaseException):
    """Ends the threads of a schedule that has failed."""


class _Thread:
    def __init__(self, schedule: Schedule, body: Body) -> None:
        self.wants: Lock | None = None
        self.has_ended = False
        self.go = threading.Semaphore(0)
        self._schedule = schedule
        self._body = body
        self.thread = threading.Thread(target=self._run)

    @property
    def is_ready(self) -> bool:
        return not self.has_ended and not (self.wants is not None and self.wants.is_held)

    def _run(self) -> None:
        self.go.acquire()
        try:
            if not self._schedule.is_abandoned:
                self._schedule.present.value = self
                self._body()
        except _AbandonedError:
            pass
        except Exception as error:
            self._schedule.error = error
        self.has_ended = True
        self._schedule.stopped.release()


class Lock:
    """A lock of a schedule; outside of its threads it is taken and given back at once."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.is_held = False

    def acquire(self) -> bool:
        self._schedule.stop(self)
        assert not self.is_held
        self.is_held = True
        return True

    def release(self) -> None:
        assert self.is_held
        self.is_held = False
        self._schedule.stop(None)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.is_held = False
        if error[0] is None:
            self._schedule.stop(None)


class Schedule:
    """One run of some threads. `choices` are the first threads to continue; `made`, all choices with their alternatives."""

    def __init__(self, choices: Sequence[int], preemptions: int) -> None:
        self._choices = choices
        self._preemptions = preemptions
        self.made: list[tuple[int, int]] = []
        self.stopped = threading.Semaphore(0)
        self.present: Any = threading.local()
        self.is_abandoned = False
        self.error: Exception | None = None

    def lock(self) -> Any:
        return Lock(self)

    def stop(self, wants: Lock | None) -> None:
        me: _Thread | None = getattr(self.present, "value", None)
        if me is None or self.is_abandoned:
            return
        me.wants = wants
        self.stopped.release()
        me.go.acquire()
        if self.is_abandoned:
            raise _AbandonedError
        me.wants = None

    def run(self, bodies: Sequence[Body]) -> bool:
        """Run the bodies; whether all have ended."""
        threads = [_Thread(self, body) for body in bodies]
        for each in threads:
            each.thread.start()
        last: _Thread | None = None
        while ready := [each for each in threads if each.is_ready]:
            if last in ready:  # going on is the first choice, and another a preemption
                ready.remove(last)
                ready = [last, *ready] if self._preemptions > 0 else [last]
            number = len(self.made)
            choice = self._choices[number] if number < len(self._choices) else 0
            self.made.append((choice, len(ready)))
            self._preemptions -= last is ready[0] and choice > 0
            last = ready[choice]
            last.go.release()
            self.stopped.acquire()
        all_ended = all(each.has_ended for each in threads)
        self.is_abandoned = True
        for each in threads:
            each.go.release()
            each.thread.join()
        if self.error is not None:
            raise self.error
        return all_ended


def explore(make: Callable[[Schedule], tuple[Sequence[Body], Body]], preemptions: int = 2) -> int:
    """Run every schedule, and check what each leaves; return how many there were.

    Args:
        make: the bodies of the threads of a schedule, and what checks the end.
    """
    choices: list[int] = []
    count = 0
    while True:
        schedule = Schedule(choices, preemptions)
        bodies, check = make(schedule)
        assert schedule.run(bodies), f"a deadlock after {schedule.made}"
        check()
        count += 1
        made = schedule.made
        while made and made[-1][0] + 1 == made[-1][1]:
            made.pop()
        if not made:
            return count
        choices = [choice for choice, _ in made]
        choices[-1] += 1
