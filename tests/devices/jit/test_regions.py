"""Parallel regions: the walker's own IR under every interleaving of the steps of few threads.

In each, every task is executed once and after its predecessors, no two threads use one lane, no thread is in a region that has
ended, whose memory its owner then writes, and from every state the end is reachable.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aioexec.devices.threads import spinning
from tests.devices.jit.llvm_machine import FaultError
from tests.devices.jit.region_model import Model, changed, walker_text

ONE: list[list[int]] = [[]]
TWO: list[list[int]] = [[], []]
CHAIN = [[1], []]
JOIN = [[2], [2], []]
SPLIT = [[1, 2], [], []]

slow, sweep = pytest.mark.slow, pytest.mark.sweep


def by_loop(
    tasks: Sequence[Sequence[int]],
    regions: int = 1,
    helpers: int = 1,
    failing: int | None = None,
    text: str | None = None,
) -> Model:
    """A loop does regions in slices, with as many helpers."""
    model = Model(helpers, text)
    region = model.region(tasks, helpers, failing)
    model.thread("loop_owner", region.words, region.team, model.looked, region.state, regions)
    for _ in range(helpers):
        model.thread("helper", model.looked)
    return model


def by_worker(
    tasks: Sequence[Sequence[int]], regions: int = 1, helpers: int = 1, failing: int | None = None
) -> Model:
    """A worker does regions, with as many helpers."""
    model = Model(helpers)
    region = model.region(tasks, helpers, failing)
    model.thread("worker_owner", region.words, region.team, model.looked, regions)
    for _ in range(helpers):
        model.thread("helper", model.looked)
    return model


@pytest.mark.parametrize(
    ("tasks", "regions", "helpers"),
    [
        (ONE, 2, 1),
        pytest.param(JOIN, 1, 1, marks=slow),
        pytest.param(SPLIT, 2, 1, marks=sweep),
        pytest.param(JOIN, 2, 1, marks=sweep),
        pytest.param([[1], [2], [3], []], 2, 1, marks=sweep),
        pytest.param([[2], [3], [], []], 2, 1, marks=sweep),
        pytest.param(ONE, 1, 2, marks=sweep),
    ],
)
def test_regions_of_a_loop_end_with_every_task_done_once(tasks, regions: int, helpers: int):
    assert by_loop(tasks, regions, helpers).explore() > 1000


@pytest.mark.parametrize(
    ("tasks", "regions", "helpers"),
    [
        (CHAIN, 1, 1),
        pytest.param(JOIN, 1, 1, marks=slow),
        pytest.param(JOIN, 3, 1, marks=sweep),
        pytest.param(ONE, 2, 2, marks=sweep),
        pytest.param(TWO, 1, 2, marks=sweep),
    ],
)
def test_regions_of_a_worker_end_with_every_task_done_once(tasks, regions: int, helpers: int):
    assert by_worker(tasks, regions, helpers).explore() > 1000


@pytest.mark.parametrize("owned", [by_loop, by_worker])
@pytest.mark.parametrize("failing", [0, pytest.param(1, marks=slow), pytest.param(2, marks=sweep)])
def test_a_region_with_a_task_that_fails_is_left_by_all_threads_and_executed_again(owned, failing: int):
    assert owned(JOIN, 2, failing=failing).explore() > 100


@pytest.mark.parametrize(
    "tasks", [pytest.param(ONE, marks=slow), *(pytest.param(each, marks=sweep) for each in (TWO, JOIN))]
)
def test_a_step_that_is_cancelled_before_or_while_a_worker_continues_it_leaves_no_thread_in_its_memory(tasks):
    model = Model()
    region = model.region(tasks)
    job = model.memory.allocate([0, 0])
    model.thread("handing_over", region.words, region.team, model.looked, job, region.helpers)
    model.thread("taking_over", region.words, region.team, model.looked, job)
    model.thread("helper", model.looked)

    assert model.explore() > 1000


@pytest.mark.parametrize("tasks", [pytest.param(ONE, marks=slow), pytest.param(JOIN, marks=sweep)])
def test_a_helper_goes_to_other_work_whenever_there_is_any(tasks):
    model = by_worker(tasks)
    model.thread("put", model.looked)

    assert model.explore() > 1000


def test_a_helper_begins_no_task_while_a_job_waits():
    model = Model()
    region = model.region(JOIN)
    model.memory.words[(model.looked >> 3) + spinning.ENTRIES] = 1
    model.thread("helper_first", region.words, region.team, model.looked)

    assert model.explore() > 10


@pytest.mark.parametrize(
    ("tasks", "places", "regions", "helpers"),
    [
        (ONE, 1, 1, 0),
        pytest.param(ONE, 1, 1, 1, marks=sweep),
        pytest.param(ONE, 2, 1, 1, marks=sweep),
        pytest.param(ONE, 1, 2, 1, marks=sweep),
    ],
)
def test_two_owners_share_the_places_of_the_queue(tasks, places: int, regions: int, helpers: int):
    model = Model(places)
    for _ in range(2):
        region = model.region(tasks)
        model.thread("worker_owner", region.words, region.team, model.looked, regions)
    for _ in range(helpers):
        model.thread("helper", model.looked)

    assert model.explore() > 500


# Errors that the exploration must find

CLAIM = (
    "%pair = cmpxchg ptr %waits.k, i64 0, i64 -1 seq_cst seq_cst\n  %mine = extractvalue { i64, i1 } %pair, 1"
)
HELP = "call void @help(ptr %team, ptr %place, ptr %words)"
LEAVE = "%left = atomicrmw add ptr %place, i64 1 seq_cst"
CLOSED = "br i1 %is.free, label %exit, label %wait"
WRITE = "store ptr %team, ptr %team.at"
RELEASE = "%before = atomicrmw sub ptr %successor.waits, i64 1 seq_cst"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        pytest.param(
            CLAIM,
            "store atomic i64 -1, ptr %waits.k seq_cst, align 8\n  %mine = icmp eq i64 0, 0",
            "a data race|done twice",
            id="a task is taken without a look whether it is still there",
        ),
        pytest.param(
            CLOSED,
            "br label %exit",
            "a data race",
            id="the owner does not wait for its helpers",
        ),
        pytest.param(
            RELEASE,
            f"{RELEASE}\n  %again = atomicrmw sub ptr %successor.waits, i64 1 seq_cst",
            "expected the results|before what it waits for|no end",
            id="a task counts twice for one that waits for it",
            marks=slow,
        ),
        pytest.param(
            "%ignored = atomicrmw sub ptr %state, i64 1 seq_cst",
            "%ignored = add i64 0, 0",
            "no end can be reached",
            id="a task that is done is not counted",
        ),
        pytest.param(
            LEAVE, "%left = add i64 0, 0", "no end can be reached", id="a helper that leaves is not counted"
        ),
    ],
)
def test_a_fault_in_the_code_is_found(old: str, new: str, fault: str):
    with pytest.raises(FaultError, match=fault):
        by_loop(CHAIN, 2, text=changed(walker_text(), old, new)).explore()


def test_a_helper_that_is_counted_as_gone_when_it_enters_is_found():
    text = changed(walker_text(), LEAVE, "%left = add i64 0, 0")
    text = changed(text, HELP, f"{LEAVE}\n  {HELP}")

    with pytest.raises(FaultError, match=r"a data race|outside of memory|done twice"):
        by_loop(CHAIN, 2, text=text).explore()


def test_a_place_that_is_open_before_it_is_written_is_found():
    text = walker_text()
    early = "%early = add i64 %closed, 8589934592\n  store atomic i64 %early, ptr %place seq_cst, align 8"
    text = changed(text, WRITE, f"{early}\n  {WRITE}")

    with pytest.raises(FaultError, match=r"a data race|outside of memory"):
        by_loop(CHAIN, text=text).explore()


def cancelled(text: str | None = None) -> Model:
    """A region of a worker, whose run is cancelled by another thread at any time."""
    model = Model(1, text)
    region = model.region(ONE)
    model.thread("wait_to_the_end", region.words, region.team, model.looked)
    model.thread("cancel", region.words, region.team, region.helpers)
    return model


def test_a_region_that_begins_while_its_run_is_cancelled_is_cancelled_in_all_lanes():
    assert cancelled().explore() > 100


def test_a_cancellation_that_the_owner_overwrites_is_found():
    text = changed(
        walker_text(), "%before = atomicrmw or ptr %cancel.at, i64 %cancel seq_cst", "%before = add i64 0, 0"
    )

    with pytest.raises(FaultError, match="a lane is not cancelled"):
        cancelled(text).explore()


def test_a_task_that_is_released_before_it_is_done_is_found():
    early = "%early.at = getelementptr i64, ptr %waits.at, i64 4\n  %early = atomicrmw sub ptr %early.at, i64 1 seq_cst\n"
    text = changed(
        walker_text(),
        "%outcome = call i64 @walk(ptr %frame)\n  %reached.at",
        f"{early}  %outcome = call i64 @walk(ptr %frame)\n  %reached.at",
    )
    text = changed(text, RELEASE, "%before = add i64 1, 0")

    with pytest.raises(FaultError, match=r"a data race|before what it waits for"):
        by_loop(CHAIN, text=text).explore()
