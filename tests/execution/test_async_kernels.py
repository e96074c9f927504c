"""Asynchronous kernels: their results, the order of waits, and the state after a step that ends early."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import numpy as np
import pytest

from aioexec.devices.threads.workers import Workers
from aioexec.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    OutOfRangeError,
    UnknownError,
)
from aioexec.execution.step import StepSettings
from aioexec.observability.step_stats import StepStatsCollector
from aioexec.testing import all_tasks_blocked
from tests.execution.parking import SIGNATURE, Parking, cancelled
from tests.execution.steps import stepping
from tests.tiers import Ops, constant, feed, graph, op, read, resource

JITS = ("off", "eager")


@pytest.fixture
async def parking(ops: Ops) -> Parking:
    return Parking(ops)


# Results of kernels


@pytest.mark.parametrize("jit", JITS)
async def test_a_kernel_gives_its_value_at_once_in_a_future_or_in_a_coroutine(ops: Ops, jit: Any):
    loop = asyncio.get_running_loop()

    def in_future(step: Any, x: Any) -> asyncio.Future[Any]:
        future = loop.create_future()
        future.set_result(x * 3)
        return future

    async def in_coroutine(step: Any, x: Any) -> Any:
        await asyncio.sleep(0)
        return x * 5

    ops.add(f"AtOnce{SIGNATURE}", lambda step, x: x * 2, asynchronous=True)
    ops.add(f"InFuture{SIGNATURE}", in_future, asynchronous=True)
    ops.add(f"InCoroutine{SIGNATURE}", in_coroutine, asynchronous=True)
    with graph() as g:
        x = feed([2])
        fetches = [op(name, op("Neg", x)) for name in ("AtOnce", "InFuture", "InCoroutine")]
        total = op("AddN", fetches)

    async with stepping(g, jit) as made:
        results = await made.run([*fetches, total], {x: [1, 2]})
        alone = [await made.run([fetch], {x: [1, 2]}) for fetch in fetches]

    for result, factor in zip(results, (2, 3, 5, 10), strict=True):
        np.testing.assert_array_equal(result, np.array([-factor, -2 * factor]))
    np.testing.assert_array_equal(alone, [[result] for result in results[:3]])


async def test_a_kernel_of_several_outputs_and_one_of_none(ops: Ops):
    seen: list[Any] = []

    async def halves(step: Any, x: Any) -> tuple[Any, Any]:
        return x[:1], x[1:]

    async def sink(step: Any, x: Any) -> None:
        seen.append(x.tolist())

    ops.add(
        "Halves(x:T) -> (a:T, b:T) [T:type] {stateful}",
        halves,
        asynchronous=True,
        shape=lambda _: [None, None],
    )
    ops.add("Sink(x:T) -> () [T:type] {stateful}", sink, asynchronous=True, shape=lambda _: [])
    with graph() as g:
        x = feed([2])
        a, b = op("Halves", x)
        target = op("Sink", b)

    async with stepping(g) as made:
        results = await made.run([b, a, target], {x: [1, 2]})

    assert [result.tolist() for result in results] == [[2], [1]]
    assert seen == [[2]]


@pytest.mark.parametrize("result", [None, (1, 2)])
@pytest.mark.parametrize("waits", [False, True])
async def test_a_kernel_that_returns_the_wrong_number_of_values_is_named(ops: Ops, result: Any, waits: bool):
    async def later(step: Any, x: Any) -> Any:
        return result

    two = "Two(x:T) -> (a:T, b:T) [T:type] {stateful}"
    compute = later if waits else lambda step, x: result
    if result is None:
        ops.add(f"Wrong{SIGNATURE}", compute, asynchronous=True)
    else:
        ops.add(
            two.replace("Two", "Wrong").replace("b:T", "b:T, c:T"),
            compute,
            asynchronous=True,
            shape=lambda _: [()] * 3,
        )
    with graph() as g:
        x = feed([])
        outputs = op("Wrong", x, name="culprit")
    first = outputs if result is None else outputs[0]

    async with stepping(g) as made:
        with pytest.raises(InternalError, match=r"missing output.*culprit"):
            await made.run([first], {x: 1})


# The order of waits


async def test_two_kernels_wait_at_the_same_time(parking: Parking):
    with graph() as g:
        x = feed([])
        both = op("Add", op("Park", x), op("Stroll", op("Neg", x)))

    async with stepping(g) as made:
        running = asyncio.create_task(made.run([both], {x: 3}))
        await parking.all_waiting(2)
        second, first = reversed(parking.waiting)
        second.set_result(np.float32(10))
        await all_tasks_blocked()
        assert not running.done()
        first.set_result(np.float32(4))

        assert await running == [14]


@pytest.mark.parametrize("jit", JITS)
async def test_a_step_may_wait_for_what_it_puts_in_itself(ops: Ops, jit: Any):
    """run([dequeue + z * 3, enqueue(x * 2)]): nothing waits for an event that it does not depend on."""
    loop = asyncio.get_running_loop()
    queue: list[Any] = []
    waiters: list[asyncio.Future[Any]] = []

    def dequeue(step: Any) -> Any:
        if queue:
            return queue.pop()
        waiters.append(loop.create_future())
        return waiters[-1]

    def enqueue(step: Any, x: Any) -> None:
        if waiters:
            waiters.pop().set_result(x)
        else:
            queue.append(x)

    ops.add("Take() -> (y:float) {stateful}", dequeue, asynchronous=True, shape=lambda _: [()])
    ops.add("Put(x:float) -> () {stateful}", enqueue, asynchronous=True, shape=lambda _: [])
    with graph() as g:
        x, z = feed([]), feed([])
        taken = op("Add", op("Take"), op("Mul", z, constant(3.0)))
        put = op("Put", op("Mul", x, constant(2.0)))

    async with stepping(g, jit) as made:
        for _ in range(3):
            async with asyncio.timeout(20):
                assert await made.run([taken, put], {x: 5, z: 7}) == [31]


async def test_what_does_not_depend_on_a_kernel_that_waits_goes_on(parking: Parking):
    with graph() as g:
        x, v = feed([]), resource([])
        init = op("AssignVariableOp", v, constant(0.0))
        add = op("AssignAddVariableOp", v, x)
        parked = op("Park", x)
        value = read(v)

    async with stepping(g) as made:
        await made.run([init])
        running = asyncio.create_task(made.run([parked, add], {x: 3}))
        await parking.all_waiting()
        assert await made.run([value]) == [3]
        parking.let_go()
        assert await running == [3]


async def test_steps_of_one_plan_run_side_by_side(parking: Parking):
    with graph() as g:
        x = feed([])
        y = op("Neg", op("Park", x))

    async with stepping(g) as made:
        running = [asyncio.create_task(made.run([y], {x: k})) for k in range(100)]
        await parking.all_waiting(100)
        parking.let_go()

        assert await asyncio.gather(*running) == [[-k] for k in range(100)]


# Errors


def three_parked(g: Any) -> tuple[Any, list[Any]]:
    x = feed([])
    return x, [op("Park", x, name=f"park{k}") for k in range(3)]


@pytest.mark.behaviour(75)
@pytest.mark.parametrize("culprit", [0, 1, 2])
async def test_the_first_error_cancels_what_waits_and_is_the_one_raised(parking: Parking, culprit: int):
    with graph() as g:
        x, fetches = three_parked(g)

    async with stepping(g) as made:
        running = asyncio.create_task(made.run(fetches, {x: 1}))
        await parking.all_waiting(3)
        parking.parked[culprit].set_exception(OutOfRangeError("closed"))

        with pytest.raises(OutOfRangeError, match="closed") as caught:
            await running
        assert caught.value.node == fetches[culprit].op.name
        others = parking.parked[:culprit] + parking.parked[culprit + 1 :]
        assert all(future.cancelled() for future in others)


@pytest.mark.behaviour(75)
async def test_of_two_errors_at_once_the_first_is_raised_and_the_other_is_not_missed(parking: Parking):
    with graph() as g:
        x, fetches = three_parked(g)

    async with stepping(g) as made:
        running = asyncio.create_task(made.run(fetches, {x: 1}))
        await parking.all_waiting(3)
        parking.parked[2].set_exception(OutOfRangeError("first"))
        parking.parked[0].set_exception(InvalidArgumentError("second"))

        with pytest.raises(OutOfRangeError, match="first"):
            await running


@pytest.mark.behaviour(75)
async def test_nothing_begins_after_an_error(ops: Ops, parking: Parking):
    def fail(step: Any, x: Any) -> Any:
        raise InvalidArgumentError("no")

    ops.add(f"Fail{SIGNATURE}", fail, asynchronous=True)
    with graph() as g:
        x, v = feed([]), resource([])
        init = op("AssignVariableOp", v, constant(0.0))
        with g.control_dependencies([op("Park", x)]):
            add = op("AssignAddVariableOp", v, x)
        with g.control_dependencies([op("Park", x)]):
            failed = op("Fail", x)
        value = read(v)

    async with stepping(g) as made:
        await made.run([init])
        running = asyncio.create_task(made.run([add, failed], {x: 1}))
        await parking.all_waiting(2)
        for future in reversed(parking.parked):
            future.set_result(np.float32(1))
        with pytest.raises(InvalidArgumentError, match="no"):
            await running
        after = await made.run([value])

    assert after == [0] or after == [1]


@pytest.mark.behaviour(41, 75)
@pytest.mark.parametrize("kind", ["Stubborn", "Toil", "Plod"])
async def test_an_error_is_raised_only_when_every_kernel_has_ended(parking: Parking, kind: str):
    with graph() as g:
        x = feed([])
        failing = op("Park", x)
        slow = op(kind, x if kind != "Plod" else op("Fill", constant([100_000], "int32"), x))

    async with stepping(g) as made:
        running = asyncio.create_task(made.run([failing, slow], {x: 1}))
        if kind != "Stubborn":
            await parking.entered.wait()
        await all_tasks_blocked()
        next(future for future in parking.parked).set_exception(InvalidArgumentError("no"))
        await all_tasks_blocked()
        assert not running.done()
        parking.let_go()

        with pytest.raises(InvalidArgumentError, match="no"):
            await running
        assert not parking.waiting
        assert not parking.on_worker


@pytest.mark.parametrize("kind", ["at once", "later"])
async def test_a_foreign_exception_becomes_an_error_that_names_the_node(ops: Ops, kind: str):
    class Odd(Exception):
        pass

    def at_once(step: Any, x: Any) -> Any:
        raise Odd("strange")

    async def later(step: Any, x: Any) -> Any:
        raise Odd("strange")

    ops.add(f"Foreign{SIGNATURE}", at_once if kind == "at once" else later, asynchronous=True)
    with graph() as g:
        x = feed([])
        y = op("Foreign", x, name="culprit")

    async with stepping(g) as made:
        with pytest.raises(UnknownError, match="strange") as caught:
            await made.run([y], {x: 1})

    assert caught.value.node == "culprit"
    assert isinstance(caught.value.__cause__, Odd)


class Verdict(BaseException):
    """No Exception: handlers of those let it pass."""


@pytest.mark.parametrize("kind", ["raises", "inline", "awaited"])
async def test_whatever_a_kernel_raises_ends_the_step(ops: Ops, kind: str):
    def fail() -> Any:
        raise Verdict(kind)

    async def fail_later() -> Any:
        await asyncio.sleep(0)
        fail()

    if kind == "raises":
        ops.add("Fails(x:T) -> (y:T) [T:type]", lambda x: fail())
    else:
        ops.add(
            f"Fails{SIGNATURE}",
            lambda step, x: fail() if kind == "inline" else fail_later(),
            asynchronous=True,
        )
    with graph() as g:
        x = feed([])
        failing, other = op("Fails", x), op("Neg", x)

    async with stepping(g) as made:
        for _ in range(2):
            with pytest.raises(Verdict, match=kind):
                await made.run([failing, other], {x: 1})
        assert await made.run([other], {x: 1}) == [-1]


@pytest.mark.parametrize("alone", [False, True])
async def test_a_kernel_that_is_cancelled_by_others_fails_its_step(parking: Parking, alone: bool):
    """The caller was not cancelled, so it must not see a cancellation."""
    with graph() as g:
        x = feed([])
        fetches = [op("Stroll", x, name="culprit")] + ([] if alone else [op("Park", x)])

    async with stepping(g) as made:
        running = asyncio.create_task(made.run(fetches, {x: 1}))
        await all_tasks_blocked()
        parking.parked[-1].cancel()

        with pytest.raises(CancelledError, match="culprit"):
            await running


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("kind", ["Park", "Stroll", "Toil"])
async def test_an_error_in_the_tick_in_which_a_kernel_begins_leaves_nothing_behind(
    ops: Ops, parking: Parking, kind: str, traced: bool
):
    def fail(step: Any, x: Any) -> Any:
        raise InvalidArgumentError("no")

    ops.add(f"Fail{SIGNATURE}", fail, asynchronous=True)
    with graph() as g:
        x = feed([])
        fetches = [op(kind, x), op("Fail", op("Neg", x))]
    collector = StepStatsCollector() if traced else None

    parking.gate.set()
    workers = Workers(1, "test")
    async with stepping(g) as made:
        with pytest.raises(InvalidArgumentError, match="no"):
            await made.run(fetches, {x: 1}, StepSettings(workers=workers, collector=collector))
        await workers.submit(lambda: None).result()
        assert not parking.entered.is_set()
        assert not parking.waiting
    await workers.close()


# Arguments of kernels


async def test_context_variables_of_the_caller_reach_kernels_on_the_loop_and_on_workers(ops: Ops):
    variable: contextvars.ContextVar[float] = contextvars.ContextVar("variable", default=0.0)

    async def later(step: Any, x: Any) -> Any:
        await asyncio.sleep(0)
        return x + variable.get()

    ops.add(f"AtOnce{SIGNATURE}", lambda step, x: x + variable.get(), asynchronous=True)
    ops.add(f"Later{SIGNATURE}", later, asynchronous=True)
    ops.add(
        f"OnWorker{SIGNATURE}",
        lambda step, x: step.run_in_worker(lambda: x + variable.get()),
        asynchronous=True,
    )
    with graph() as g:
        x = feed([])
        first = op("Later", x)
        y = op("AddN", [op(name, first) for name in ("AtOnce", "Later", "OnWorker")])

    async with stepping(g) as made:

        async def run(value: float) -> Any:
            variable.set(value)
            return await made.run([y], {x: 1})

        results = await asyncio.gather(*(run(k) for k in range(4)))

    assert results == [[3 + 6 * k] for k in range(4)]
    assert variable.get() == 0


async def test_what_is_in_the_container_of_a_step_vanishes_with_it(ops: Ops, parking: Parking):
    class Thing:
        pass

    containers: list[str] = []

    def kernel(context: Any) -> Any:
        def keep(step: Any, x: Any) -> Any:
            containers.append(step.container)
            context.resources.create(step.container, "thing", Thing())
            return x

        return keep

    ops.add(f"Keep{SIGNATURE}", lambda: None, kernel=kernel, asynchronous=True)
    with graph() as g:
        x = feed([])
        y = op("Park", op("Keep", x))

    async with stepping(g) as made:
        (device,) = made.devices.devices
        running = [asyncio.create_task(made.run([y], {x: 1})) for _ in range(2)]
        await parking.all_waiting(2)
        assert len(set(containers)) == 2
        for container in containers:
            device.resources.lookup(Thing, container, "thing")
        running[0].cancel()
        assert await cancelled(running[0])
        parking.let_go()
        await running[1]

        assert not device.resources._containers.keys() & set(containers)


async def test_the_step_says_who_it_is_and_when_it_must_be_over(ops: Ops):
    seen: list[Any] = []

    def look(step: Any, x: Any) -> Any:
        seen.append((step.step_id, step.deadline))
        return x

    ops.add(f"Look{SIGNATURE}", look, asynchronous=True)
    with graph() as g:
        x = feed([])
        y = op("Look", x)
    deadline = asyncio.get_running_loop().time() + 1000

    async with stepping(g) as made:
        await made.run([y], {x: 1})
        await made.run([y], {x: 1}, StepSettings(deadline=deadline))

    (first, none), (second, given) = seen
    assert first < second
    assert none is None
    assert given == deadline
