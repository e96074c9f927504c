"""The table of a task's steps, under any sequence of calls by masters and peers, and without calls."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from aioexec.distributed.worker.step_table import StepEntry, StepTable
from aioexec.errors import AbortedError, OpError, ResourceExhaustedError
from aioexec.execution.remote_rendezvous import RemoteRendezvous
from aioexec.execution.rendezvous import Received

IDLE = 100.0
HERE = "/job:worker/replica:0/task:0"


def never(key: str) -> asyncio.Future[Received]:
    raise AssertionError(f"{key} is asked for elsewhere")


def new_table(most_steps: int = 1 << 16) -> StepTable:
    return StepTable(lambda step_id: RemoteRendezvous(HERE, never), most_steps, IDLE)


def ignore(error: OpError) -> None:
    pass


class Users:
    """Masters and peers that come and go: `entered` are at work with a step, `running` have begun something in it."""

    def __init__(self, table: StepTable) -> None:
        self.table = table
        self.entered: list[StepEntry] = []
        self.running: list[StepEntry] = []

    def enter(self, step_id: int) -> None:
        try:
            self.entered.append(self.table.enter(step_id))
        except ResourceExhaustedError:
            assert len(self.table) == 3

    def own(self, step_id: int) -> None:
        if step_id in self.table:
            self.table.rendezvous(step_id)

    def begin(self, step_id: int) -> None:
        for entry in self._mine(step_id):
            entry.begin_run("session", ignore)
            self.running.append(entry)

    def over(self, step_id: int) -> None:
        if self.running:
            self.running.pop().end_run()

    def leave(self, step_id: int) -> None:
        for entry in self._mine(step_id):
            if entry not in self.running:
                self.entered.remove(entry)
                self.table.leave(entry)

    def end(self, step_id: int) -> None:
        self.table.end(step_id)
        assert self.table.has_ended(step_id)
        assert step_id not in self.table

    def end_of(self, step_id: int) -> None:
        self.table.end_steps_of("session")
        assert all(entry.rendezvous.error is not None for entry in self.running)

    def _mine(self, step_id: int) -> list[StepEntry]:
        return [entry for entry in self.entered if entry.step_id == step_id][-1:]


EVENTS = st.lists(
    st.tuples(st.sampled_from([name for name in vars(Users) if not name.startswith("_")]), st.integers(1, 4)),
    max_size=40,
)


@given(EVENTS)
def test_whatever_happens_the_table_is_sound_and_empties_in_the_end(events):
    async def check() -> None:
        users = Users(new_table(most_steps=3))
        for event, step_id in events:
            getattr(users, event)(step_id)
            users.table.check_invariants()
        for entry in users.entered:
            users.table.leave(entry)
        users.table.close()
        users.table.check_invariants()
        assert len(users.table) == 0

    asyncio.run(check())


async def test_a_step_is_the_same_for_all_until_it_ends_and_another_one_then():
    table = new_table()
    first = table.enter(1)
    first.begin_run("session", ignore)

    assert table.enter(1) is first
    assert table.rendezvous(1) is first.rendezvous
    table.end(1)

    assert first.rendezvous.error is not None
    assert table.enter(1) is not first
    table.close()


async def test_ending_a_step_stops_its_executions_and_waits_for_their_end():
    table = new_table()
    reported: list[OpError] = []
    step = table.enter(1)
    step.begin_run("session", reported.append)

    ending = asyncio.create_task(table.end_and_wait(1))
    await asyncio.sleep(0)
    assert isinstance(reported[0], AbortedError)
    assert not ending.done()

    step.end_run()
    table.leave(step)
    await ending
    await table.end_and_wait(1)  # again: nothing is left


async def test_an_idle_step_is_dropped_after_a_time(virtual_clock):
    table = new_table()
    busy, idle = table.enter(1), table.enter(2)
    for each in (busy, idle):
        each.begin_run("session", ignore)
    table.rendezvous(3)
    idle.end_run()
    table.leave(idle)

    await asyncio.sleep(2.5 * IDLE)

    assert [step_id in table for step_id in (1, 2, 3)] == [True, False, True]
    assert isinstance(idle.rendezvous.error, AbortedError)
    table.close()


async def test_a_step_that_has_only_requests_is_forgotten_with_the_last_one():
    table = new_table()
    one, other = table.enter(1), table.enter(1)

    table.leave(one)
    assert 1 in table
    table.leave(other)

    assert 1 not in table
    assert not table.has_ended(1)


async def test_there_is_room_for_a_bounded_number_of_steps():
    table = new_table(most_steps=2)
    done = table.enter(1)
    done.begin_run("session", ignore)
    done.end_run()
    table.leave(done)
    table.enter(2)

    table.enter(3)  # takes the place of the idle one

    assert [step_id in table for step_id in (1, 2, 3)] == [False, True, True]
    with pytest.raises(ResourceExhaustedError, match="2 steps are under way"):
        table.enter(4)
    table.close()
