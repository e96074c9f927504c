"""Parallel regions executed by machine code: by an owner with and without a deadline, and by helpers that spin for work."""

from typing import cast

import numpy as np
import pytest

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import Outcome, walker
from aioexec.devices.threads import parallel_region as region_state, spinning
from aioexec.devices.threads.spinning import FREE, HELD, OPEN
from aioexec.devices.threads.workers import Workers
from aioexec.execution.programs.parallel_regions import RegionRun
from aioexec.execution.programs.walk import Walk
from tests.execution.shared_runs import branches, session_of
from tests.tiers import programs, share_all

OPENED, CLOSED = HELD + OPEN + 2, HELD + 2
"""The words of places in which there is room for two helpers."""


@pytest.fixture
async def run_of_branches(monkeypatch):
    share_all(monkeypatch)
    array = np.ones((17, 31), np.float32)
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        (found,) = (each for each in programs(session) if each.parallel_regions)
        run = Walk(found, [array], False)
        assert run.start(run.walker.start_inline) == 4, "it comes to the region"
        yield run
        run.give_back(False)


class Spinners:
    """A pool whose threads are the test itself, when it looks."""

    def __init__(self, places: int = 1) -> None:
        self.count = places
        self.waiting = np.zeros(spinning.HEADER + spinning.PLACE_WORDS * places, np.int64)
        self.waiting[spinning.PLACES] = places
        self.waiting[spinning.PARKED] = 1
        self.woken: list[int] = []

    def wake_up(self, count: int) -> None:
        self.woken.append(count)

    @property
    def places(self) -> list[int]:
        return self.waiting[spinning.HEADER :][: self.count].tolist()

    def look(self) -> int:
        found = walker()
        assert found is not None
        return found.serve_released(self.waiting, 1000)


def region_of(run: Walk, spinners: Spinners) -> RegionRun:
    region = RegionRun(run.program, run.program.parallel_regions[0], run.frame.words)
    region._workers = cast(Workers, spinners)
    return region


# The owner


def test_an_owner_past_its_deadline_runs_one_task(run_of_branches):
    region = region_of(run_of_branches, Spinners())
    count = len(region.link.region.tasks)

    outcomes = [region.execute(0) for _ in range(count)]

    assert outcomes == [Outcome.PAUSED] * (count - 1) + [Outcome.DONE]


def test_an_owner_with_a_deadline_comes_back_though_nothing_is_ready(run_of_branches):
    region = region_of(run_of_branches, Spinners())
    region.execute(0)
    region.state[region_state.HEADER + region_state.WAITS :: region_state.TASK_WORDS] = 1

    assert region.execute(0) == Outcome.PAUSED


def test_an_owner_without_a_place_runs_all_tasks(run_of_branches):
    run, spinners = run_of_branches, Spinners(1)
    one, other = region_of(run, spinners), region_of(run, spinners)

    assert [one.execute(0), other.execute(0)] == [Outcome.PAUSED] * 2
    assert other.execute() == Outcome.DONE
    assert spinners.places == [OPENED]
    assert one.execute() == Outcome.DONE
    assert spinners.places == [FREE]


def test_threads_are_woken_when_tasks_become_ready_in_a_region_that_was_closed(run_of_branches):
    spinners = Spinners()
    region = region_of(run_of_branches, spinners)
    region.execute(0)
    region.state[region_state.CALLS] = 1

    assert region.execute() == Outcome.DONE

    assert spinners.woken == [2] * 4, "before and after it begins, before it continues, and for the call"


def test_no_thread_is_woken_while_enough_spin(run_of_branches):
    spinners = Spinners()
    region = region_of(run_of_branches, spinners)
    region.execute(0)
    region.state[region_state.CALLS] = 1
    spinners.waiting[spinning.SPINNERS] = 2

    assert region.execute() == Outcome.DONE

    assert spinners.woken == [2] * 3


# Helpers


def test_a_helper_does_what_the_owner_has_left(run_of_branches):
    spinners = Spinners(2)
    region = region_of(run_of_branches, spinners)
    tasks = len(region.link.region.tasks)

    assert region.execute(0) == Outcome.PAUSED
    assert spinners.woken == [2] * 2
    assert spinners.places == [OPENED, FREE]
    assert region.state[region_state.LEFT] == tasks - 1
    assert spinners.look() == 0
    assert region.state[region_state.LEFT] == 0
    assert spinners.places == [CLOSED, FREE]
    assert spinners.waiting[spinning.SPINNERS] == 0
    assert region.execute(0) == Outcome.DONE
    assert spinners.places == [FREE, FREE]


@pytest.mark.parametrize("reason", ["stopped", "nothing ready", "nothing left"])
def test_a_helper_without_a_task_closes_the_region(run_of_branches, reason: str):
    spinners = Spinners()
    region = region_of(run_of_branches, spinners)
    region.execute(0)
    left = region.state[region_state.LEFT]
    if reason == "stopped":
        region.state[region_state.STOPPED] = 1
    else:
        waits = region.state[region_state.HEADER + region_state.WAITS :: region_state.TASK_WORDS]
        waits[:] = 1 if reason == "nothing ready" else -1

    assert spinners.look() == 0

    assert region.state[region_state.LEFT] == left
    assert spinners.places == [CLOSED]


def test_a_region_that_no_helper_enters_is_closed_at_its_end(run_of_branches):
    spinners = Spinners(2)
    region = region_of(run_of_branches, spinners)

    assert region.execute() == Outcome.DONE

    assert spinners.places == [FREE, FREE]
    assert not region.is_stopped


def test_two_regions_have_places_of_their_own(run_of_branches):
    run, spinners = run_of_branches, Spinners(3)
    one, other = region_of(run, spinners), region_of(run, spinners)

    assert [one.execute(0), other.execute(0)] == [Outcome.PAUSED] * 2
    assert spinners.places == [OPENED, OPENED, FREE]
    assert one.execute() == Outcome.DONE
    assert spinners.places == [FREE, OPENED, FREE]
    assert other.execute() == Outcome.DONE
    assert spinners.places == [FREE] * 3


def test_entries_come_before_regions(run_of_branches):
    spinners = Spinners()
    region = region_of(run_of_branches, spinners)
    region.execute(0)
    spinners.waiting[spinning.ENTRIES] = 1

    assert spinners.look() == 1

    assert region.state[region_state.LEFT] == len(region.link.region.tasks) - 1
    assert region.execute() == Outcome.DONE


# Cancellation


def test_a_cancelled_region_is_closed_knows_what_has_run_and_can_be_executed_again(run_of_branches):
    spinners = Spinners()
    region = region_of(run_of_branches, spinners)
    region.execute(0)

    region.cancel()
    assert region.execute() == Outcome.CANCELLED
    assert spinners.places == [FREE]
    assert region.is_stopped
    first, *others = region.link.region.tasks
    assert all(region.has_run(row) for row in range(first.start, first.end))
    assert not any(region.has_run(row) for task in others for row in range(task.start, task.end))

    assert region.execute() == Outcome.DONE
    assert not region.is_stopped


@pytest.mark.parametrize("goes_on", ["in a worker", "on the loop"])
def test_a_cancelled_run_is_not_over_before_its_helpers_have_left(run_of_branches, goes_on: str):
    run, spinners = run_of_branches, Spinners()
    region = run.frame.regions[0] = region_of(run, spinners)
    assert run.frame.words[walking.PC] == 0
    assert run.walk(Outcome.BREAK, run.walker.resume_inline, 0) == Outcome.PAUSED
    assert spinners.places == [OPENED]

    run.cancel()
    if goes_on == "in a worker":
        outcome = run.walk_released(Outcome.PAUSED, cast(Workers, spinners))
    else:
        assert run.walk_inline(Outcome.PAUSED, 0) == Outcome.PAUSED
        assert region.is_stopped, "so it goes on in a worker"
        outcome = run.walk_released(Outcome.PAUSED, cast(Workers, spinners))

    assert outcome == Outcome.CANCELLED
    assert spinners.places == [FREE]
