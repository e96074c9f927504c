"""Several partitions of one step: concurrent, in the requested order, and ended by the first error of any of them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.threads.workers import Workers
from aioexec.errors import AbortedError, InternalError, InvalidArgumentError, OutOfRangeError
from aioexec.execution.step import StepSettings
from aioexec.testing import all_tasks_blocked
from tests.execution.parking import SIGNATURE, Parking
from tests.execution.steps import on_cpu, stepping
from tests.tiers import Ops, constant, feed, graph, op, read, resource

JITS = ("off", "eager")
LARGE = np.ones(100_000, np.float32)


@pytest.fixture
async def parking(ops: Ops) -> Parking:
    return Parking(ops)


@pytest.mark.parametrize("jit", JITS)
async def test_fetches_come_in_the_order_asked_for_wherever_they_are_computed(jit: Any):
    with graph() as g:
        x = feed([])
        nodes = [x]
        for k in range(6):
            with g.device(on_cpu(k % 3)):
                nodes.append(op("Add", nodes[-1], constant(1.0)))
    order = [3, 0, 6, 1, 5, 3, 2, 4]

    async with stepping(g, jit, CPU=3) as made:
        assert await made.run([nodes[k] for k in order], {x: 10}) == [10 + k for k in order]


@pytest.mark.parametrize("jit", JITS)
async def test_two_heavy_partitions_overlap(ops: Ops, jit: Any):
    """Each kernel waits, on its worker, until the other one is there too."""
    barrier = threading.Barrier(2)

    def meet(x: Any) -> Any:
        barrier.wait(20)
        return x + 1

    ops.broken("Meet", meet)
    with graph() as g:
        x = feed(LARGE.shape)
        halves = []
        for k in range(2):
            with g.device(on_cpu(k)):
                halves.append(op("Meet", op("Neg", x)))
        total = op("Add", *halves)
    workers = Workers(2, "test")

    async with stepping(g, jit, CPU=2) as made:
        (result,) = await made.run([total], {x: LARGE}, StepSettings(workers=workers))
    await workers.close()

    np.testing.assert_array_equal(result, 2 * (1 - LARGE))


async def test_a_partition_goes_on_while_another_waits(parking: Parking):
    with graph() as g:
        x, v = feed([]), resource([])
        init, value = op("AssignVariableOp", v, constant(0.0)), read(v)
        with g.device(on_cpu(1)):
            there = op("Park", x)
        add = op("AssignAddVariableOp", v, x)

    async with stepping(g, CPU=2) as made:
        await made.run([init])
        running = asyncio.create_task(made.run([there, add], {x: 1}))
        await parking.all_waiting()
        assert await made.run([value]) == [1]
        parking.let_go()
        assert await running == [1]


async def test_a_value_reaches_several_receivers_on_several_devices(parking: Parking):
    with graph() as g:
        x = feed([])
        source = op("Park", x)
        fetches = []
        for k in range(6):
            with g.device(on_cpu(k % 3)):
                fetches.append(op("Mul", source, constant(float(k))))

    async with stepping(g, CPU=3) as made:
        running = asyncio.create_task(made.run(fetches, {x: 2}))
        await parking.all_waiting()
        parking.let_go()

        assert await running == [0, 2, 4, 6, 8, 10]


# Errors


@pytest.mark.behaviour(75)
@pytest.mark.parametrize("culprit", [0, 1, 2])
async def test_an_error_on_one_device_ends_the_others_and_is_the_one_raised(parking: Parking, culprit: int):
    with graph() as g:
        x = feed([])
        fetches = []
        for k in range(3):
            with g.device(on_cpu(k)):
                fetches.append(op("Park", x, name=f"park{k}"))
        total = op("AddN", fetches)

    async with stepping(g, CPU=3) as made:
        running = asyncio.create_task(made.run([total], {x: 1}))
        await parking.all_waiting(3)
        parking.parked[culprit].set_exception(OutOfRangeError("closed"))

        with pytest.raises(OutOfRangeError, match="closed") as caught:
            await running
        assert caught.value.node == f"park{culprit}"
        assert caught.value.device is not None
        assert caught.value.device.endswith(on_cpu(culprit))
        assert all(future.done() for future in parking.parked)


@pytest.mark.behaviour(41, 75)
async def test_an_error_is_raised_when_the_other_devices_are_quiet(parking: Parking):
    with graph() as g:
        x = feed([])
        here = op("Park", x)
        with g.device(on_cpu(1)):
            there = op("Toil", x)

    async with stepping(g, CPU=2) as made:
        running = asyncio.create_task(made.run([here, there], {x: 1}))
        await parking.entered.wait()
        parking.parked[0].set_exception(InvalidArgumentError("no"))
        await all_tasks_blocked()
        assert not running.done()
        parking.let_go()

        with pytest.raises(InvalidArgumentError, match="no"):
            await running
        assert not parking.on_worker


@pytest.mark.behaviour(75)
async def test_a_device_whose_turn_has_not_come_begins_nothing_after_an_error(ops: Ops):
    """The client's device goes first; what it fails at need not be something others wait for."""

    def fail(x: Any) -> Any:
        raise InvalidArgumentError("no")

    ops.broken("Fail", fail)
    with graph() as g:
        x = feed([])
        failed = op("Fail", x)
        with g.device(on_cpu(1)):
            v = resource([])
            init, value = op("AssignVariableOp", v, constant(0.0)), read(v)
            add = op("AssignAddVariableOp", v, constant(1.0))

    async with stepping(g, CPU=2) as made:
        await made.run([init])
        for _ in range(3):
            with pytest.raises(InvalidArgumentError, match="no"):
                await made.run([failed, add], {x: 1})
        assert await made.run([value]) == [0]


@pytest.mark.behaviour(74)
async def test_an_abort_while_four_receives_wait_ends_the_step_and_all_later_receives(
    ops: Ops, parking: Parking
):
    steps: list[Any] = []

    def remember(step: Any, x: Any) -> Any:
        steps.append(step)
        return x

    ops.add(f"Remember{SIGNATURE}", remember, asynchronous=True)
    with graph() as g:
        x = feed([])
        sources = [op("Park", op("Remember", x)) for _ in range(5)]
        with g.device(on_cpu(1)):
            received = [op("Neg", source).op for source in sources[:4]]

    async with stepping(g, CPU=2) as made:
        running = asyncio.create_task(made.run([*received, sources[4]], {x: 1}))
        await parking.all_waiting(5)
        assert len(steps[0].rendezvous._table.unmatched()) == 4
        parking.parked[4].set_exception(AbortedError("peer is gone"))

        with pytest.raises(AbortedError, match="peer is gone"):
            await running
        for receive in (steps[0].rendezvous.try_recv, steps[0].rendezvous.recv):
            with pytest.raises(AbortedError, match="peer is gone"):
                receive("any;key")


@pytest.mark.behaviour(76)
async def test_a_value_of_another_dtype_than_declared_is_refused_by_the_receiver(ops: Ops, parking: Parking):
    ops.broken("Lie", lambda x: x.astype(np.int32))
    with graph() as g:
        x = feed([])
        lie = op("Lie", x)
        with g.device(on_cpu(1)):
            fetches = [op("Neg", lie), op("Park", x)]

    async with stepping(g, CPU=2) as made:
        with pytest.raises(InternalError, match="type int32 does not match declared output type float32"):
            await made.run(fetches, {x: 1})
        assert not parking.waiting


# Loops over devices


@pytest.mark.behaviour(97)
@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("parallel", [1, 2, 10])
async def test_a_loop_goes_from_device_to_device_in_each_iteration(jit: Any, parallel: int):
    with graph() as g:
        x, limit = feed([]), feed([])

        def body(i: Any, value: Any) -> Any:
            with g.device(on_cpu(1)):
                doubled = value * 2
            with g.device(on_cpu(2)):
                return i + 1, doubled + x

        result = ax.while_loop(
            lambda i, value: i < limit, body, [ax.constant(0.0), x], parallel_iterations=parallel
        )[1]

    async with stepping(g, jit, CPU=3) as made:
        for times in (0, 1, 7):
            assert await made.run([result], {x: 3, limit: times}) == [3 * (2 ** (times + 1) - 1)]


@pytest.mark.behaviour(75, 97)
async def test_an_error_in_a_loop_on_another_device_ends_the_loop_on_all(parking: Parking):
    with graph() as g:
        x = feed([])

        def body(i: Any, value: Any) -> Any:
            with g.device(on_cpu(1)):
                return i + 1, op("Park", value)

        result = ax.while_loop(lambda i, value: i < 5, body, [ax.constant(0), x])[1]

    async with stepping(g, CPU=2) as made:
        running = asyncio.create_task(made.run([result], {x: 1}))
        await parking.all_waiting()
        parking.let_go()
        await parking.all_waiting()
        parking.parked[1].set_exception(OutOfRangeError("closed"))

        with pytest.raises(OutOfRangeError, match="closed"):
            await running

        again = asyncio.create_task(made.run([result], {x: 1}))
        for _ in range(5):
            await parking.all_waiting()
            parking.let_go()
        assert await again == [1]


@pytest.mark.behaviour(68, 97)
@pytest.mark.parametrize("taken", [False, True])
async def test_a_loop_over_two_devices_on_a_branch(taken: bool):
    with graph() as g:
        x, p = feed([]), feed([], "bool")

        def looped() -> Any:
            def body(value: Any) -> Any:
                with g.device(on_cpu(1)):
                    return value * 2

            return ax.while_loop(lambda value: value < 100, body, [x])

        result = ax.cond(p, looped, lambda: op("Neg", x))

    async with stepping(g, CPU=2) as made:
        for _ in range(2):
            assert await made.run([result], {x: 3, p: taken}) == [192 if taken else -3]
