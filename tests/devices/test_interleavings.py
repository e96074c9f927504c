"""The queue of a pool and its threads under every schedule of few threads, with up to two preemptions."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from aioexec.devices.threads import spinning_queue, workers as workers_module
from aioexec.devices.threads.spinning_queue import SpinningQueue
from aioexec.devices.threads.workers import Workers
from tests.devices.interleavings import Schedule, explore


def test_a_deadlock_is_found():
    def make(schedule: Schedule) -> Any:
        first, second = schedule.lock(), schedule.lock()

        def take(one: Any, other: Any) -> None:
            with one, other:
                pass

        return [lambda: take(first, second), lambda: take(second, first)], lambda: None

    with pytest.raises(AssertionError, match="a deadlock"):
        explore(make)


def test_a_lost_update_is_found():
    def make(schedule: Schedule) -> Any:
        lock, numbers = schedule.lock(), [0]

        def add() -> None:
            with lock:
                before = numbers[0]
            with lock:
                numbers[0] = before + 1

        def check() -> None:
            assert numbers == [2]

        return [add, add], check

    with pytest.raises(AssertionError, match="1"):
        explore(make)


@pytest.mark.parametrize(
    ("entries", "preemptions"),
    [
        pytest.param([[1, 2]], 1, marks=pytest.mark.slow),
        pytest.param([[1, 2], [3]], 1, marks=pytest.mark.sweep),
        pytest.param([[1, 2]], 3, marks=pytest.mark.sweep),
    ],
)
def test_every_entry_is_taken_once_whichever_thread_is_preempted(
    monkeypatch: pytest.MonkeyPatch, entries: list[list[int]], preemptions: int
):
    count = sum(map(len, entries))

    def make(schedule: Schedule) -> Any:
        monkeypatch.setattr(spinning_queue, "threading", SimpleNamespace(Lock=schedule.lock))
        queue: SpinningQueue[int] = SpinningQueue()
        taken: list[int] = []

        def put(several: list[int]) -> None:
            for entry in several:
                queue.put(entry)

        def take(count: int) -> None:
            for _ in range(count):
                taken.append(queue.get())  # noqa: PERF401

        def check() -> None:
            assert sorted(taken) == list(range(1, count + 1))
            assert not queue.waiting[:2].any()

        return [lambda: take(count - 1), lambda: take(1), *(partial(put, each) for each in entries)], check

    assert explore(make, preemptions) > 50


@pytest.mark.slow
def test_two_loops_start_no_thread_too_many_and_each_thread_is_told_to_end(monkeypatch: pytest.MonkeyPatch):
    started: list[str] = []

    class Started:
        def __init__(self, target: Any, name: str, daemon: bool) -> None:
            self.name = name

        def start(self) -> None:
            started.append(self.name)

    def make(schedule: Schedule) -> Any:
        stand_in = SimpleNamespace(Lock=schedule.lock, Thread=Started)
        monkeypatch.setattr(spinning_queue, "threading", stand_in)
        monkeypatch.setattr(workers_module, "threading", stand_in)
        pool = Workers(1, "pool")
        started.clear()

        def submit() -> None:
            pool._start_thread()
            pool._queue.put(lambda: None)  # type: ignore[arg-type]

        def check() -> None:
            ends = [entry for entry in pool._queue._entries if entry is None]
            assert len(started) <= 1
            assert len(ends) == len(started)

        return [submit, submit, pool.dismiss], check

    assert explore(make) > 100
