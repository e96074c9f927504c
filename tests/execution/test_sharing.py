"""Parallel regions executed by machine code: by an event loop, and by helpers that spin for work."""

from typing import cast

import numpy as np
import pytest

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import Outcome, walker
from aioexec.devices.threads import parallel_region as region_state, spinning
from aioexec.devices.threads.workers import Workers
from aioexec.execution.programs import parallel_regions
from aioexec.execution.programs.walk import Walk
from tests.execution.shared_runs import branches, session_of
from tests.tiers import programs, share_all


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


def test_an_owner_past_its_deadline_runs_one_task(run_of_branches):
    run = run_of_branches
    region = parallel_regions.RegionRun(run, run.program.parallel_regions[0])
    frame, found = region._enter(), walker()
    assert found is not None
    count = len(region.link.region.tasks)

    outcomes = [found.lane_released(frame, region.state, parallel_regions._OWNER, 0) for _ in range(count)]

    assert outcomes == [region_state.LaneOutcome.PAUSED] * (count - 1) + [region_state.LaneOutcome.DONE]


def test_a_loop_for_which_nothing_is_ready_comes_back(run_of_branches):
    run = run_of_branches
    region = parallel_regions.RegionRun(run, run.program.parallel_regions[0])
    frame, found = region._enter(), walker()
    assert found is not None
    region.state[region_state.HEADER + region_state.WAITS :: region_state.TASK_WORDS] = 1

    assert (
        found.lane_released(frame, region.state, parallel_regions._OWNER, 0)
        == region_state.LaneOutcome.PAUSED
    )
    assert not region.state[region_state.ASLEEP], "no request for a helper is needed"


# Helpers by machine code


class Spinners:
    """A pool whose threads are the test itself, when it looks."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.waiting = np.zeros(spinning.HEADER + spinning.PLACE_WORDS * count, np.int64)
        self.waiting[spinning.PLACES] = count
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


def region_of(run: Walk, spinners: Spinners) -> parallel_regions.SharedRegion:
    region = parallel_regions.SharedRegion(run, run.program.parallel_regions[0])
    region._workers = cast(Workers, spinners)
    return region


def test_one_who_looks_does_what_the_owner_has_left(run_of_branches):
    spinners = Spinners(2)
    region = region_of(run_of_branches, spinners)
    tasks = len(region.link.region.tasks)

    assert region.help(0) == Outcome.PAUSED
    assert spinners.woken == [2]
    assert spinners.places == [spinning.OFFERED, spinning.OFFERED]
    assert region.state[region_state.LEFT] == tasks - 1
    assert spinners.look() == 0
    assert region.state[region_state.LEFT] == 0
    assert spinners.places == [spinning.FREE, spinning.FREE]
    assert spinners.waiting[spinning.SPINNERS] == 0
    assert region.help(0) == Outcome.DONE


def test_an_offer_that_no_thread_has_accepted_is_withdrawn(run_of_branches):
    spinners = Spinners(2)
    region = region_of(run_of_branches, spinners)

    assert region.help(region_state.ENDLESS) == Outcome.DONE

    assert spinners.places == [spinning.FREE, spinning.FREE]
    assert not region.is_stopped


def test_two_regions_offer_to_places_of_their_own(run_of_branches):
    run, spinners = run_of_branches, Spinners(3)
    one, other = region_of(run, spinners), region_of(run, spinners)

    assert [one.help(0), other.help(0)] == [Outcome.PAUSED] * 2
    assert (
        spinners.places == [spinning.OFFERED] * 3
    )  # two of the first, and as many of the second as there was room for
    assert other.help(region_state.ENDLESS) == Outcome.DONE
    assert spinners.places == [spinning.OFFERED, spinning.OFFERED, spinning.FREE]
    assert one.help(region_state.ENDLESS) == Outcome.DONE
    assert spinners.places == [spinning.FREE] * 3


def test_a_helper_leaves_a_region_for_what_is_urgent(run_of_branches):
    spinners = Spinners()
    spinners.waiting[spinning.URGENT] = 1
    region = region_of(run_of_branches, spinners)
    region.help(0)

    spinners.look()

    assert region.state[region_state.LEFT] == len(region.link.region.tasks) - 1, "it has begun nothing"
    assert region.help(region_state.ENDLESS) == Outcome.DONE


def test_entries_come_before_offers(run_of_branches):
    spinners = Spinners()
    region = region_of(run_of_branches, spinners)
    region.help(0)
    spinners.waiting[spinning.ENTRIES] = 1

    assert spinners.look() == 1

    assert region.state[region_state.LEFT] == len(region.link.region.tasks) - 1
    assert region.help(region_state.ENDLESS) == Outcome.DONE


def test_a_cancelled_region_offers_no_more_work_and_can_be_executed_again(run_of_branches):
    spinners = Spinners()
    region = region_of(run_of_branches, spinners)
    region.help(0)

    region.cancel()
    assert region.execute() == Outcome.CANCELLED
    assert spinners.places == [spinning.FREE]
    assert region.is_stopped

    assert region.help(region_state.ENDLESS) == Outcome.DONE
    assert not region.is_stopped


@pytest.mark.parametrize("goes_on", ["in a worker", "on the loop"])
def test_a_cancelled_run_is_not_over_before_its_helpers_have_left(run_of_branches, goes_on: str):
    run, spinners = run_of_branches, Spinners()
    region = run.frame.shared[0] = region_of(run, spinners)
    assert run.frame.words[walking.PC] == 0
    assert run.walk(Outcome.BREAK, run.walker.resume_inline, 0) == Outcome.PAUSED
    assert spinners.places == [spinning.OFFERED]

    run.cancel()
    if goes_on == "in a worker":
        outcome = run.released(Outcome.PAUSED, cast(Workers, spinners))
    else:
        assert run.helped(Outcome.PAUSED, 0) == Outcome.PAUSED
        assert region.is_stopped, "so it goes on in a worker"
        outcome = run.released(Outcome.PAUSED, cast(Workers, spinners))

    assert outcome == Outcome.CANCELLED
    assert spinners.places == [spinning.FREE]
