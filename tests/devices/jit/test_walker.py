"""The walker: rows in order, every way of stopping, resuming, and arrays bound by their data pointers."""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.linker import Linker
from aioexec.devices.jit.target import IrCompiler, host
from aioexec.devices.jit.walker import (
    CANCEL,
    HEADER,
    INLINE_FUEL,
    PC,
    ROW_COUNT,
    ROW_WORDS,
    ROWS,
    STAMPS,
    STATUS,
    Outcome,
    Walker,
    walker,
)

KernelType = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)


def found() -> Walker:
    made = walker()
    assert made is not None, "this machine has a walker"
    return made


class Table:
    """A program of Python kernels. `log` has the number of each row that ran, `seen` whether the interpreter lock was held."""

    def __init__(
        self,
        rows: list[Callable[[int], int] | None],
        costs: list[int] | None = None,
        slots: int = 4,
        traced: bool = False,
    ) -> None:
        self.log: list[int] = []
        self.kernels = [
            None if row is None else KernelType(self._logged(k, row)) for k, row in enumerate(rows)
        ]
        self.rows = np.zeros((max(len(rows), 1), ROW_WORDS), np.int64)
        self.blocks = np.arange(len(rows) + 1, dtype=np.int64)
        for k, kernel in enumerate(self.kernels):
            address = 0 if kernel is None else ctypes.cast(kernel, ctypes.c_void_p).value or 0
            cost = costs[k] if costs is not None else 1
            block = self.blocks.ctypes.data + 8 * k if address else 0
            self.rows[k] = address, block, cost, 0
        self.frame = np.zeros(HEADER + slots, np.int64)
        self.frame[ROWS] = self.rows.ctypes.data
        self.frame[ROW_COUNT] = len(rows)
        self.frame[INLINE_FUEL] = 10**6
        self.stamps = np.zeros((len(rows), 2), np.int64)
        if traced:
            self.frame[STAMPS] = self.stamps.ctypes.data

    def _logged(self, k: int, row: Callable[[int], int]) -> Callable[[int, int], int]:
        def kernel(block: int, frame: int) -> int:
            assert ctypes.c_int64.from_address(block).value == k
            assert frame == self.frame.ctypes.data
            self.log.append(k)
            return row(k)

        return kernel


def fine(k: int) -> int:
    return 0


ENTRIES = ["inline", "released", "traced inline", "traced released"]


def entries(name: str) -> tuple[Any, Any]:
    made = found()
    if name.endswith("inline"):
        return made.start_inline, made.resume_inline
    return made.start_released, made.resume_released


def is_traced(name: str) -> bool:
    return name.startswith("traced")


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("count", [0, 1, 7])
def test_rows_run_in_order_to_the_end(name: str, count: int):
    start, _ = entries(name)
    table = Table([fine] * count, traced=is_traced(name))

    for _ in range(2):
        assert start(table.frame) == Outcome.DONE
        assert table.frame[PC] == count

    assert table.log == list(range(count)) * 2


@pytest.mark.parametrize("name", ENTRIES)
def test_a_failed_row_stops_the_walk_with_its_status(name: str):
    start, resume = entries(name)
    table = Table([fine, lambda k: 42, fine], traced=is_traced(name))

    assert start(table.frame) == Outcome.FAILED
    assert (table.frame[PC], table.frame[STATUS], table.log) == (1, 42, [0, 1])

    table.frame[PC] += 1
    assert resume(table.frame) == Outcome.DONE
    assert table.frame[STATUS] == 0
    assert table.log == [0, 1, 2]


@pytest.mark.parametrize("name", ENTRIES)
def test_a_break_stops_the_walk_and_it_goes_on_behind(name: str):
    start, resume = entries(name)
    table = Table([None, fine, None, None, fine], traced=is_traced(name))

    stops = [start(table.frame)]
    while stops[-1] == Outcome.BREAK:
        stops.append(int(table.frame[PC]))
        table.frame[PC] += 1
        stops.append(resume(table.frame))

    assert stops == [Outcome.BREAK, 0, Outcome.BREAK, 2, Outcome.BREAK, 3, Outcome.DONE]
    assert table.log == [1, 4]


@pytest.mark.parametrize("name", ENTRIES)
def test_a_walk_cancelled_before_it_starts_runs_nothing(name: str):
    start, resume = entries(name)
    table = Table([fine, fine], traced=is_traced(name))
    table.frame[PC] = 2  # of an earlier run
    table.frame[CANCEL] = 1

    assert start(table.frame) == Outcome.CANCELLED
    assert table.frame[PC] == 0
    assert resume(table.frame) == Outcome.CANCELLED
    assert table.log == []


@pytest.mark.parametrize("name", ENTRIES)
def test_a_walk_cancelled_on_its_way_stops_before_the_next_row(name: str):
    start, resume = entries(name)

    def cancel(k: int) -> int:
        table.frame[CANCEL] = 1
        return 0

    table = Table([fine, cancel, fine], traced=is_traced(name))

    assert start(table.frame) == Outcome.CANCELLED
    assert (table.frame[PC], table.log) == (2, [0, 1])
    table.frame[CANCEL] = 0
    assert resume(table.frame) == Outcome.DONE
    assert table.log == [0, 1, 2]


def test_cancelling_the_last_row_is_too_late():
    def cancel(k: int) -> int:
        table.frame[CANCEL] = 1
        return 0

    table = Table([fine, cancel])

    assert found().start_inline(table.frame) == Outcome.DONE


@pytest.mark.parametrize("name", ["traced inline", "traced released"])
def test_a_traced_walk_reads_the_clock_before_and_after_each_row_that_runs(name: str):
    start, resume = entries(name)
    inside: list[int] = []

    def look(k: int) -> int:
        inside.append(perf_counter_ns())
        return 9 if k == 3 else 0

    table = Table([look, None, look, look, look], traced=is_traced(name))

    began = perf_counter_ns()
    assert start(table.frame) == Outcome.BREAK
    table.frame[PC] += 1
    assert resume(table.frame) == Outcome.FAILED
    ended = perf_counter_ns()

    first, broken, second, failed, never = table.stamps.tolist()
    times = [began, first[0], inside[0], first[1], second[0], inside[1], second[1], *failed, ended]
    assert times == sorted(times)
    assert failed[0] <= inside[2] <= failed[1]
    assert broken == never == [0, 0]


def test_an_inline_walk_pauses_when_its_fuel_is_spent_and_always_gets_on():
    table = Table([fine] * 5, costs=[60, 60, 10, 500, 10])
    table.frame[INLINE_FUEL] = 100
    walk = found()

    outcomes = [walk.start_inline(table.frame)]
    stopped = [int(table.frame[PC])]
    while outcomes[-1] == Outcome.PAUSED:
        outcomes.append(walk.resume_inline(table.frame))
        stopped.append(int(table.frame[PC]))

    assert stopped == [2, 4, 5]
    assert table.log == [0, 1, 2, 3, 4]


def test_a_paused_walk_goes_on_in_a_worker_slice_by_slice():
    table = Table([fine] * 5, costs=[10**6] * 2 + [10**9] * 3)
    walk = found()

    assert walk.start_inline(table.frame) == Outcome.PAUSED
    outcomes = [walk.resume_released(table.frame) for _ in range(3)]

    assert outcomes == [Outcome.PAUSED, Outcome.PAUSED, Outcome.DONE]
    assert table.log == [0, 1, 2, 3, 4]


SPIN = """
define i64 @spin(ptr %block, ptr %frame) {
entry:
  store volatile i64 1, ptr %block
  %go.at = getelementptr i64, ptr %block, i64 1
  br label %again
again:
  %go = load volatile i64, ptr %go.at
  %stay = icmp eq i64 %go, 0
  br i1 %stay, label %again, label %end
end:
  ret i64 0
}
"""


def test_the_released_entry_lets_other_threads_run():
    """A row waits for a word that another thread sets once it has seen the row begin."""
    words = np.zeros(2, np.int64)
    table = Table([fine])
    linker = Linker({})
    table.rows[0, :2] = linker.link(IrCompiler(host()).compile_ir("spin", SPIN)), words.ctypes.data

    def answer() -> None:
        while not words[0]:
            pass
        words[1] = 1

    thread = threading.Thread(target=answer)
    thread.start()
    assert found().start_released(table.frame) == Outcome.DONE
    thread.join()


@pytest.mark.parametrize("name", ENTRIES)
def test_arrays_are_bound_to_slots_by_where_their_data_lie(name: str):
    start, _ = entries(name)
    table = Table([fine], slots=7, traced=is_traced(name))
    base = np.arange(24, dtype=np.float32)
    arrays: list[Any] = [
        base,
        base[8:],
        base.reshape(4, 6)[1:],
        np.zeros((), np.int8),
        np.zeros((0, 3)),
        np.zeros(5, bool),
    ]

    assert start(table.frame, *arrays) == Outcome.DONE

    assert table.frame[HEADER:].tolist() == [array.ctypes.data for array in arrays] + [0]


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("wrong", ["strided", "transposed", "misaligned"])
def test_an_array_that_does_not_fit_is_refused_and_nothing_runs(name: str, wrong: str):
    start, _ = entries(name)
    table = Table([fine], traced=is_traced(name))
    table.frame[PC] = 1
    raw = np.zeros(41, np.uint8)
    array: Any = {
        "strided": np.zeros(10)[::2],
        "transposed": np.zeros((2, 3)).T,
        "misaligned": raw[1:].view(np.float64),
    }[wrong]

    assert start(table.frame, np.zeros(3), array) == Outcome.UNALIGNED

    assert table.log == []
    assert table.frame[PC] == 0, "what a run that never began has reached"
    assert start(table.frame, np.zeros(3), np.require(array, requirements=["C", "A"])) == Outcome.DONE


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the control register of x86")
@pytest.mark.parametrize("name", ENTRIES)
def test_denormals_are_flushed_inside_and_only_there(name: str):
    start, _ = entries(name)
    tiny = np.full(4, 1e-40, np.float32)
    inside: list[float] = []

    def multiply(k: int) -> int:
        inside.append(float((tiny * np.float32(1.5))[0]))
        return 0

    table = Table([multiply, lambda k: 7], traced=is_traced(name))

    assert start(table.frame) == Outcome.FAILED
    assert inside == [0.0]
    assert (tiny * np.float32(1.5))[0] > 0


def test_walks_in_several_threads_do_not_meddle():
    counts = np.zeros(4, np.int64)

    def work(k: int) -> None:
        mine = Table([fine, fine, None, fine])
        for _ in range(200):
            assert found().start_released(mine.frame) == Outcome.BREAK
            mine.frame[PC] += 1
            assert found().resume_released(mine.frame) == Outcome.DONE
            counts[k] += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert counts.tolist() == [200] * 4


RowKind = st.sampled_from(["fine", "break", "fail", "cancel"])


@given(rows=st.lists(st.tuples(RowKind, st.integers(0, 5)), max_size=15), fuel=st.integers(0, 8))
def test_whatever_stops_it_a_walk_runs_each_row_once_and_in_order(rows: list[tuple[str, int]], fuel: int):
    def kernel(kind: str) -> Callable[[int], int] | None:
        def run(k: int) -> int:
            if kind == "cancel":
                table.frame[CANCEL] = 1
            return 3 if kind == "fail" else 0

        return None if kind == "break" else run

    table = Table([kernel(kind) for kind, _ in rows], [cost for _, cost in rows])
    table.frame[INLINE_FUEL] = fuel
    walk = found()

    outcome = walk.start_inline(table.frame)
    stops = 0
    while outcome != Outcome.DONE:
        stops += 1
        assert stops <= 3 * len(rows) + 3
        if outcome in (Outcome.BREAK, Outcome.FAILED):
            assert rows[int(table.frame[PC])][0] == ("break" if outcome == Outcome.BREAK else "fail")
            table.frame[PC] += 1
        if outcome == Outcome.CANCELLED:
            table.frame[CANCEL] = 0
        outcome = walk.resume_inline(table.frame)

    assert table.log == [k for k, (kind, _) in enumerate(rows) if kind != "break"]


def test_the_text_of_the_walker_needs_no_x86_elsewhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")

    assert "x86" not in walking.emit()
