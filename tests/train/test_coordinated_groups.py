"""Random groups of tasks end in time, with the right error, and leave no task behind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from hypothesis import given, strategies as st

from aioexec.errors import AbortedError
from aioexec.testing.clock import VirtualClockLoop
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.coordination.task_thread import TaskThread

KINDS = ("listens", "ends", "fails", "stays")


@dataclass(frozen=True)
class Plan:
    """The events of a group: members of a kind, each ending at a given time; an external stop request; the grace period."""

    members: tuple[tuple[str, int], ...]
    asked_at: int
    grace: int

    def stop(self) -> tuple[float, str]:
        """When a stop is requested, and the error."""
        fails = [(when, f"error at {when}") for kind, when in self.members if kind == "fails"]
        return min([(self.asked_at, ""), *fails])

    def end(self) -> tuple[float, str, list[str]]:
        """When `join` ends, with which error, and which members were late."""
        stopped, error = self.stop()
        ends = {
            f"{kind} {when}": {"listens": stopped, "stays": float("inf")}.get(kind, when)
            for kind, when in self.members
        }
        if all(when < stopped for when in ends.values()):
            return max(ends.values(), default=0), "", []
        over = stopped + self.grace
        late = sorted(name for name, when in ends.items() if when > over)
        return (over if late else max(stopped, *ends.values())), error, [] if error else late


async def behave(coord: Coordinator, kind: str, when: int) -> None:
    with coord.stop_on_exception():
        if kind == "listens":
            await coord.wait_for_stop()
        elif kind == "stays":
            await asyncio.get_running_loop().create_future()
        else:
            await asyncio.sleep(when)
            if kind == "fails":
                raise AbortedError(f"error at {when}")


async def carry_out(plan: Plan) -> tuple[float, str, list[str]]:
    coord = Coordinator()
    loop = asyncio.get_running_loop()
    asking = loop.call_at(plan.asked_at, coord.request_stop)
    threads = [
        TaskThread(partial(behave, coord, *member), "{} {}".format(*member)) for member in plan.members
    ]
    for thread in threads:
        thread.start()
    error, late = "", []
    try:
        await coord.join(threads, stop_grace_period_secs=plan.grace)
    except AbortedError as raised:
        error = str(raised)
    except RuntimeError as raised:
        names = str(raised).removeprefix("Coordinator stopped with threads still running: ").split()
        late = [" ".join(pair) for pair in zip(names[::2], names[1::2], strict=True)]
    asking.cancel()
    assert coord.joined
    assert not any(thread.is_alive() for thread in threads)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return loop.time(), error, late


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Groups in which no two things happen at once."""
    times = draw(st.permutations(range(2, 40, 2)))
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=6))
    return Plan(tuple(zip(kinds, times, strict=False)), times[-1], draw(st.integers(0, 12)) * 2 + 1)


@given(plans())
def test_any_group_ends_when_it_should_with_the_error_it_should(plan: Plan):
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        assert runner.run(carry_out(plan)) == plan.end()
