"""The queue of a pool: FIFO order, for sleeping and for spinning threads."""

import threading
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit.walker import walker
from aioexec.devices.threads import spinning
from aioexec.devices.threads.spinning_queue import SpinningQueue


def test_entries_leave_in_the_order_they_came():
    queue: SpinningQueue[int] = SpinningQueue()
    for entry in range(5):
        queue.put(entry)

    assert [queue.get() for _ in range(5)] == list(range(5))


def test_one_who_looks_is_told_how_many_entries_there_are_and_takes_the_first():
    queue: SpinningQueue[str] = SpinningQueue()
    seen: list[int] = []

    def look(due: Any, nanoseconds: int) -> int:
        queue.put("first")
        queue.put("second")
        seen.append(int(due[0]))
        return 1

    queue.look = look

    assert queue.get() == "first"
    assert queue.get() == "second"  # at once: there was one left
    assert seen == [2]


def test_an_entry_that_comes_when_the_time_is_just_over_is_not_missed():
    queue: SpinningQueue[str] = SpinningQueue()

    def look(due: Any, nanoseconds: int) -> int:
        queue.put("late")  # no thread sleeps, one spins: none is woken
        return 0

    queue.look = look

    assert queue.get() == "late"


def test_who_is_woken_looks_again_before_it_sleeps():
    queue: SpinningQueue[str] = SpinningQueue()
    looks: list[int] = []
    looked, sleeps = threading.Event(), threading.Event()

    class Sleepers(list[Any]):
        def append(self, lock: Any) -> None:
            super().append(lock)
            sleeps.set()

    def look(due: Any, nanoseconds: int) -> int:
        looks.append(nanoseconds)
        if len(looks) == 2:
            looked.set()
        return 0

    queue.look = look
    queue._sleepers = Sleepers()
    thread = threading.Thread(target=queue.get)
    thread.start()
    sleeps.wait()
    queue.wake_up(1)
    looked.wait()
    queue.put("entry")
    thread.join()

    assert len(looks) >= 2


def test_a_thread_that_is_to_be_woken_before_it_sleeps_looks_again():
    queue: SpinningQueue[str] = SpinningQueue()
    looks: list[int] = []

    def look(due: Any, nanoseconds: int) -> int:
        looks.append(nanoseconds)
        if len(looks) == 1:
            queue.wake_up(1)  # its time is over, and it does not sleep yet
        else:
            queue.put("entry")
        return 0

    queue.look = look

    assert queue.get() == "entry"
    assert len(looks) == 2


def test_a_thread_whose_entry_another_one_took_looks_again():
    queue: SpinningQueue[str] = SpinningQueue()
    looks: list[int] = []

    def look(due: Any, nanoseconds: int) -> int:
        looks.append(nanoseconds)
        if len(looks) == 2:
            queue.put("entry")
        return 1

    queue.look = look

    assert queue.get() == "entry"
    assert len(looks) == 2


def test_threads_that_stopped_spinning_are_counted_until_they_are_woken():
    machine = walker()
    if machine is None:
        pytest.skip("no walker on this machine")
    queue: SpinningQueue[str] = SpinningQueue()
    sleeps = threading.Event()

    class Sleepers(list[Any]):
        def append(self, lock: Any) -> None:
            super().append(lock)
            sleeps.set()

    queue._sleepers = Sleepers()
    queue.spin_with(machine.serve_released)
    thread = threading.Thread(target=queue.get)
    thread.start()
    sleeps.wait()
    assert queue.waiting[spinning.PARKED] == 1
    assert queue.waiting[spinning.UNPARKED] == 0

    queue.put("entry")
    thread.join()

    assert queue.waiting[spinning.PARKED] == queue.waiting[spinning.UNPARKED]


def test_as_many_as_look_already_need_not_be_woken():
    queue: SpinningQueue[str] = SpinningQueue()
    locks = [threading.Lock() for _ in range(3)]
    for lock in locks:
        lock.acquire()
    queue._sleepers = list(locks)
    queue.waiting[spinning.SPINNERS] = 1

    queue.wake_up(2)

    assert [lock.locked() for lock in locks] == [True, True, False]


@pytest.mark.parametrize("spins", [True, False])
def test_every_entry_is_taken_once_however_many_sleep(spins: bool):
    queue: SpinningQueue[int | None] = SpinningQueue()
    machine = walker()
    if spins and machine is not None:
        queue.look = machine.serve_released
    taken: list[int] = []

    def take() -> None:
        while (entry := queue.get()) is not None:
            taken.append(entry)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for entry in range(500):
        queue.put(entry)
    for _ in threads:
        queue.put(None)
    for thread in threads:
        thread.join()

    assert sorted(taken) == list(range(500))


def test_machine_code_sees_what_another_thread_writes_and_when_the_time_is_over():
    machine = walker()
    if machine is None:
        pytest.skip("no walker here")
    words = np.zeros(spinning.HEADER, np.int64)
    assert machine.serve_released(words, 1000) == 0

    def write() -> None:
        words[spinning.ENTRIES] = 3

    writer = threading.Thread(target=write)
    writer.start()
    assert machine.serve_released(words, 10**11) == 1
    writer.join()
