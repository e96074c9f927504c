"""Forks as machine code does them: one strand after the other, by an event loop and by guests who look for work."""

from typing import cast

import numpy as np
import pytest

from aioexec.devices.jit import patience, strands as doing, walker as walking
from aioexec.devices.jit.walker import Outcome, walker
from aioexec.devices.workers import Workers
from aioexec.execution import forks
from aioexec.execution.walk import Walk
from tests.execution.shared_runs import branches, session_of
from tests.tiers import programs, share_all


@pytest.fixture
async def run_of_branches(monkeypatch):
    share_all(monkeypatch)
    array = np.ones((17, 31), np.float32)
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        (found,) = (each for each in programs(session) if each.forks)
        run = Walk(found, [array], False)
        assert run.start(run.walker.start_inline) == 4, "it comes to the fork"
        yield run
        run.give_back(False)


def test_who_is_late_does_one_strand(run_of_branches):
    run = run_of_branches
    fork = forks.ForkRun(run, run.program.forks[0])
    frame, found = fork._enter(), walker()
    assert found is not None
    count = len(fork.link.fork.strands)

    shifts = [found.lane_released(frame, fork.state, forks._HOST, 0) for _ in range(count)]

    assert shifts == [doing.Shift.PAUSED] * (count - 1) + [doing.Shift.DONE]


def test_a_loop_for_which_nothing_is_ready_comes_back(run_of_branches):
    run = run_of_branches
    fork = forks.ForkRun(run, run.program.forks[0])
    frame, found = fork._enter(), walker()
    assert found is not None
    fork.state[doing.HEADER + doing.WAITS :: doing.STRAND_WORDS] = 1

    assert found.lane_released(frame, fork.state, forks._HOST, 0) == doing.Shift.PAUSED
    assert not fork.state[doing.ASLEEP], "nobody need call it"


# Guests by machine code


class Lookers:
    """A pool whose threads are the test itself, when it looks."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.waiting = np.zeros(patience.HEADER + patience.PLACE_WORDS * count, np.int64)
        self.waiting[patience.PLACES] = count
        self.woken: list[int] = []

    def wake_up(self, count: int) -> None:
        self.woken.append(count)

    @property
    def places(self) -> list[int]:
        return self.waiting[patience.HEADER :][: self.count].tolist()

    def look(self) -> int:
        found = walker()
        assert found is not None
        return found.serve_released(self.waiting, 1000)


def fork_of(run: Walk, lookers: Lookers) -> forks.SharedFork:
    fork = forks.SharedFork(run, run.program.forks[0])
    fork._workers = cast(Workers, lookers)
    return fork


def test_one_who_looks_does_what_the_host_has_left(run_of_branches):
    lookers = Lookers(2)
    fork = fork_of(run_of_branches, lookers)
    strands = len(fork.link.fork.strands)

    assert fork.help(0) == Outcome.PAUSED
    assert lookers.woken == [2]
    assert lookers.places == [patience.INVITED, patience.INVITED]
    assert fork.state[doing.LEFT] == strands - 1
    assert lookers.look() == 0
    assert fork.state[doing.LEFT] == 0
    assert lookers.places == [patience.FREE, patience.FREE]
    assert lookers.waiting[patience.LOOKERS] == 0
    assert fork.help(0) == Outcome.DONE


def test_an_invitation_nobody_has_followed_is_taken_back(run_of_branches):
    lookers = Lookers(2)
    fork = fork_of(run_of_branches, lookers)

    assert fork.help(doing.ENDLESS) == Outcome.DONE

    assert lookers.places == [patience.FREE, patience.FREE]
    assert not fork.is_stopped


def test_two_forks_invite_to_places_of_their_own(run_of_branches):
    run, lookers = run_of_branches, Lookers(3)
    one, other = fork_of(run, lookers), fork_of(run, lookers)

    assert [one.help(0), other.help(0)] == [Outcome.PAUSED] * 2
    assert (
        lookers.places == [patience.INVITED] * 3
    )  # two of the first, and as many of the second as there was room for
    assert other.help(doing.ENDLESS) == Outcome.DONE
    assert lookers.places == [patience.INVITED, patience.INVITED, patience.FREE]
    assert one.help(doing.ENDLESS) == Outcome.DONE
    assert lookers.places == [patience.FREE] * 3


def test_a_guest_leaves_a_fork_for_what_is_urgent(run_of_branches):
    lookers = Lookers()
    lookers.waiting[patience.URGENT] = 1
    fork = fork_of(run_of_branches, lookers)
    fork.help(0)

    lookers.look()

    assert fork.state[doing.LEFT] == len(fork.link.fork.strands) - 1, "it has begun nothing"
    assert fork.help(doing.ENDLESS) == Outcome.DONE


def test_entries_come_before_invitations(run_of_branches):
    lookers = Lookers()
    fork = fork_of(run_of_branches, lookers)
    fork.help(0)
    lookers.waiting[patience.ENTRIES] = 1

    assert lookers.look() == 1

    assert fork.state[doing.LEFT] == len(fork.link.fork.strands) - 1
    assert fork.help(doing.ENDLESS) == Outcome.DONE


def test_a_fork_that_is_cancelled_invites_nobody_any_more_and_can_be_done_again(run_of_branches):
    lookers = Lookers()
    fork = fork_of(run_of_branches, lookers)
    fork.help(0)

    fork.cancel()
    assert fork.host() == Outcome.CANCELLED
    assert lookers.places == [patience.FREE]
    assert fork.is_stopped

    assert fork.help(doing.ENDLESS) == Outcome.DONE
    assert not fork.is_stopped


@pytest.mark.parametrize("goes_on", ["in a worker", "on the loop"])
def test_a_cancelled_run_is_not_over_before_its_guests_have_left(run_of_branches, goes_on: str):
    run, lookers = run_of_branches, Lookers()
    fork = run.frame.shared[0] = fork_of(run, lookers)
    assert run.frame.words[walking.PC] == 0
    assert run.walk(Outcome.BREAK, run.walker.resume_inline, 0) == Outcome.PAUSED
    assert lookers.places == [patience.INVITED]

    run.cancel()
    if goes_on == "in a worker":
        outcome = run.released(Outcome.PAUSED, cast(Workers, lookers))
    else:
        assert run.helped(Outcome.PAUSED, 0) == Outcome.PAUSED
        assert fork.is_stopped, "so it goes on in a worker"
        outcome = run.released(Outcome.PAUSED, cast(Workers, lookers))

    assert outcome == Outcome.CANCELLED
    assert lookers.places == [patience.FREE]
