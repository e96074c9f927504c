"""Deadlines of steps, in virtual time: the errors after a timeout, and that no kernel runs then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioexec.errors import DeadlineExceededError, InvalidArgumentError
from aioexec.execution.step import StepSettings
from aioexec.testing import VirtualClock, all_tasks_blocked
from tests.execution.parking import Parking, cancelled
from tests.execution.steps import Stepping, on_cpu, stepping
from tests.tiers import Ops, feed, graph, op

pytestmark = pytest.mark.usefixtures("virtual_clock")


@pytest.fixture
async def parking(virtual_clock: VirtualClock, ops: Ops) -> Parking:
    return Parking(ops)


def within(seconds: float) -> StepSettings:
    return StepSettings(deadline=asyncio.get_running_loop().time() + seconds)


def of_kinds(*kinds: str, device: str = "") -> tuple[Any, Any, list[Any]]:
    """A graph, its feed, and nodes of these kinds."""
    with graph() as g:
        x = feed([])
        with g.device(device):
            return g, x, [op(kind, x) for kind in kinds]


@pytest.mark.behaviour(40)
@pytest.mark.parametrize("kinds", [["Park"], ["Stroll"], ["Park", "Stroll", "Neg"]])
async def test_a_step_that_waits_beyond_its_deadline_fails(
    virtual_clock: VirtualClock, parking: Parking, kinds: list[str]
):
    g, x, fetches = of_kinds(*kinds)

    async with stepping(g) as made:
        began = virtual_clock.time()
        with pytest.raises(DeadlineExceededError, match="Timed out waiting for notification"):
            await made.run(fetches, {x: 1}, within(5))

        assert virtual_clock.time() == began + 5
        assert all(future.cancelled() for future in parking.parked)
        await runs_again(made, parking, x, fetches)


async def runs_again(made: Stepping, parking: Parking, x: Any, fetches: list[Any]) -> None:
    running = asyncio.create_task(made.run(fetches, {x: 1}, within(5)))
    await all_tasks_blocked()
    parking.let_go()
    assert len(await running) == len(fetches)


@pytest.mark.behaviour(40)
async def test_a_deadline_ends_what_waits_on_another_device(parking: Parking):
    g, x, fetches = of_kinds("Park", device=on_cpu(1))

    async with stepping(g, CPU=2) as made:
        with pytest.raises(DeadlineExceededError):
            await made.run(fetches, {x: 1}, within(5))

        assert parking.parked[0].cancelled()


@pytest.mark.behaviour(41)
async def test_the_step_is_quiet_before_the_error_is_raised(virtual_clock: VirtualClock, parking: Parking):
    g, x, fetches = of_kinds("Toil", "Stubborn")

    async with stepping(g) as made:
        running = asyncio.create_task(made.run(fetches, {x: 1}, within(5)))
        await parking.entered.wait()
        with virtual_clock.hold():
            virtual_clock.advance(6)
            await all_tasks_blocked()
            assert not running.done()
            parking.gate.set()
        await asyncio.sleep(100)
        assert not running.done()
        parking.let_go()

        with pytest.raises(DeadlineExceededError):
            await running
        assert not parking.on_worker
        assert not parking.waiting


async def test_a_step_that_ends_in_time_leaves_no_timer_behind(virtual_clock: VirtualClock, parking: Parking):
    g, x, fetches = of_kinds("Park")

    async with stepping(g) as made:
        running = asyncio.create_task(made.run(fetches, {x: 1}, within(5)))
        await asyncio.sleep(4)
        parking.let_go()
        assert await running == [1]

        await asyncio.sleep(100)
        assert running.result() == [1]


async def test_an_error_before_the_deadline_is_the_one_raised(parking: Parking):
    g, x, fetches = of_kinds("Park", "Stubborn")

    async with stepping(g) as made:
        running = asyncio.create_task(made.run(fetches, {x: 1}, within(5)))
        await asyncio.sleep(1)
        parking.parked[0].set_exception(InvalidArgumentError("no"))
        await asyncio.sleep(100)
        parking.let_go()

        with pytest.raises(InvalidArgumentError, match="no"):
            await running


@pytest.mark.behaviour(40, 41)
@pytest.mark.parametrize(("deadline", "timeout"), [(5, 9), (9, 5)])
async def test_of_a_deadline_and_a_timeout_the_one_that_expired_is_told(
    virtual_clock: VirtualClock, parking: Parking, deadline: float, timeout: float
):
    g, x, fetches = of_kinds("Park", "Stroll")
    began = virtual_clock.time()

    async with stepping(g) as made:
        with pytest.raises(DeadlineExceededError if deadline < timeout else TimeoutError):
            async with asyncio.timeout(timeout):
                await made.run(fetches, {x: 1}, within(deadline))

        assert virtual_clock.time() == began + 5
        assert not parking.waiting


@pytest.mark.behaviour(41)
async def test_a_timeout_is_told_when_the_step_is_quiet(virtual_clock: VirtualClock, parking: Parking):
    g, x, fetches = of_kinds("Stubborn")

    async with stepping(g) as made:

        async def run() -> None:
            async with asyncio.timeout(5):
                await made.run(fetches, {x: 1})

        running = asyncio.create_task(run())
        await asyncio.sleep(50)
        assert not running.done()
        parking.let_go()

        with pytest.raises(TimeoutError):
            await running


async def test_a_caller_that_is_cancelled_before_the_deadline_is_cancelled(parking: Parking):
    g, x, fetches = of_kinds("Park")

    async with stepping(g) as made:
        running = asyncio.create_task(made.run(fetches, {x: 1}, within(5)))
        await asyncio.sleep(1)
        running.cancel()

        assert await cancelled(running)


async def test_a_timeout_that_a_kernel_raises_is_no_deadline(ops: Ops, virtual_clock: VirtualClock):
    async def late(step: Any, x: Any) -> Any:
        async with asyncio.timeout(2):
            await asyncio.sleep(10)

    ops.add("Late(x:T) -> (y:T) [T:type] {stateful}", late, asynchronous=True)
    g, x, fetches = of_kinds("Late")

    async with stepping(g) as made:
        with pytest.raises(Exception, match=r"Late") as caught:
            await made.run(fetches, {x: 1}, within(5))

    assert isinstance(caught.value.__cause__, TimeoutError)
    assert virtual_clock.time() < 5


@pytest.mark.behaviour(40)
async def test_a_partial_step_has_a_deadline_from_its_beginning(
    virtual_clock: VirtualClock, parking: Parking
):
    g, x, fetches = of_kinds("Park", "Neg")

    async with stepping(g) as made:
        step = made.executor(fetches, [x], partial=True).open(within(5))
        waiting = asyncio.create_task(step.fetch([1]))
        await asyncio.sleep(6)

        with pytest.raises(DeadlineExceededError):
            await waiting
        with pytest.raises(DeadlineExceededError):
            await step.finish()
        assert step.is_over
