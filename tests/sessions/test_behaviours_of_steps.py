"""Guarantees of every step: atomicity, a single outcome, the values of the graph."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest

from aioexec.errors import InternalError, InvalidArgumentError, OpError
from aioexec.formats.protos import ConfigProto, OptimizerOptions
from aioexec.graph.graph import Graph
from aioexec.sessions.session import Session
from tests.sessions.waiting import Waiting
from tests.tiers import Ops, Tier, constant, feed, graph, op, reference, session_on


@pytest.mark.behaviour(25)
async def test_only_what_is_asked_for_runs(ops: Ops):
    ran: list[str] = []

    def kernel(context: Any) -> Any:
        def note(x: Any) -> Any:
            ran.append(context.node_name)
            return x

        return note

    ops.add("TestNotes(x:T) -> (y:T) [T:type] {stateful}", lambda x: x, kernel=kernel)
    with graph() as g:
        a = op("TestNotes", constant(1.0), name="a")
        b = op("TestNotes", a, name="b")
        with g.control_dependencies([b]):
            c = op("TestNotes", constant(2.0), name="c")
        op("TestNotes", c, name="beyond")
        op("TestNotes", a, name="beside")

    async with session_on(g, "off") as session:
        await session.run(c)
        assert ran == ["a", "b", "c"]
        ran.clear()

        await session.run(c, {a: 5})
        assert ran == ["b", "c"]


@pytest.mark.behaviour(29)
@pytest.mark.parametrize(
    ("outputs", "returned"), [(1, None), (2, None), (2, (1.0,)), (2, (1.0, None)), (2, (1.0, 2.0, 3.0))]
)
async def test_a_kernel_that_leaves_an_output_out_is_an_internal_error(ops: Ops, outputs: int, returned: Any):
    names = ", ".join(f"y{index}:T" for index in range(outputs))
    ops.add(
        f"TestForgets(x:T) -> ({names}) [T:type] {{stateful}}",
        lambda x: returned,
        shape=lambda context: [()] * outputs,
    )
    with graph() as g:
        made = op("TestForgets", constant(1.0), name="forgets")
        y = op("Neg", made if outputs == 1 else made[0])

    async with session_on(g, "off") as session:
        with pytest.raises(InternalError, match=r"missing output|expected 2") as raised:
            await session.run(y)

    assert "forgets" in str(raised.value)


# The end of a partial run


def waits(names: str) -> tuple[Graph, Any, dict[str, Any]]:
    """A graph of x and, for each letter, an op that waits and passes x on."""
    with graph() as g:
        x = feed([], name="x")
        made = {name: op("TestWaits", x, name=name) for name in names}
    return g, x, made


@pytest.mark.behaviour(57)
async def test_a_partial_run_is_over_once_however_its_nodes_and_calls_end(ops: Ops):
    waiting = Waiting(ops)
    g, x, made = waits("ab")

    async with session_on(g, "off") as session:
        for late_calls in (True, False):
            handle = await session.partial_run_setup([made["a"], made["b"].op], [x])
            waiting.opened.clear()
            if late_calls:
                waiting.opened.set()  # the nodes are done before the last call comes
                assert await session.partial_run(handle, [], {x: 7}) == []
                assert await session.partial_run(handle, made["a"]) == 7
                assert await session.partial_run(handle, made["b"].op) is None
            else:
                before = waiting.entered
                calls = [
                    asyncio.create_task(session.partial_run(handle, made["a"], {x: 7})),
                    asyncio.create_task(session.partial_run(handle, made["b"].op)),
                ]
                await waiting.until_entered(before + 2)
                assert not any(call.done() for call in calls)
                waiting.opened.set()
                assert await asyncio.gather(*calls) == [7, None]

            with pytest.raises(InvalidArgumentError, match="setup"):
                await session.partial_run(handle, made["a"])


@pytest.mark.behaviour(57)
async def test_the_first_error_of_a_partial_run_is_raised_by_every_call(ops: Ops):
    failures: dict[str, asyncio.Future[Any]] = {}
    begun = asyncio.Event()

    def kernel(context: Any) -> Any:
        def wait(step: Any, x: Any) -> Any:
            failures[context.node_name] = asyncio.get_running_loop().create_future()
            if len(failures) == 2:
                begun.set()
            return failures[context.node_name]

        return wait

    ops.add("TestFails(x:T) -> (y:T) [T:type] {stateful}", lambda x: x, kernel=kernel, asynchronous=True)
    with graph() as g:
        x = feed([], name="x")
        a, b = (op("TestFails", x, name=name) for name in "ab")

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup([a, b], [x])
        fetching_a = asyncio.create_task(session.partial_run(handle, a, {x: 1}))
        fetching_b = asyncio.create_task(session.partial_run(handle, b))
        await begun.wait()
        failures["b"].set_exception(InvalidArgumentError("the first"))
        failures["a"].set_exception(InternalError("the second"))

        for call in (fetching_a, fetching_b):
            with pytest.raises(InvalidArgumentError, match="the first"):
                await call
        with pytest.raises(InvalidArgumentError, match="setup"):
            await session.partial_run(handle, a)


# Reference variables


@pytest.mark.behaviour(67)
@pytest.mark.slow
async def test_a_thousand_unguarded_additions_lose_some_and_break_nothing(tier: Tier):
    count = 1024
    with graph() as g:
        v = reference([], name="v")
        init = op("Assign", v, constant(1.0), name="init")
        add = [op("Assign", v, op("Add", op("Identity", v), constant(1.0))).op for _ in range(count)]
        one = op("Assign", v, op("Add", op("Identity", v), constant(1.0))).op
        value = op("Identity", v)

    async with tier.session(g) as session:
        await session.run(init.op)
        await session.run(add)
        in_one_step = await session.run(value)
        await session.run(init.op)
        await asyncio.gather(*(session.run(one) for _ in range(count)))
        in_many_steps = await session.run(value)

    assert 2 <= in_one_step <= count + 1
    assert 2 <= in_many_steps <= count + 1


# Optimisation


def random_graph(seed: int) -> tuple[Graph, Any, list[Any]]:
    """Nodes over constants and one feed, many of them equal to others."""
    choose = random.Random(seed)
    with graph() as g:
        x = feed([3], name="x")
        tensors = [x, *(constant([value] * 3) for value in (1.0, 2.0, 1.0))]
        for _ in range(60):
            kind = choose.choice(["Add", "Mul", "Sub", "Neg", "Identity", "Const"])
            if kind == "Const":
                tensors.append(constant([choose.choice([0.5, 1.0])] * 3))
            else:
                operands = 1 if kind in ("Neg", "Identity") else 2
                tensors.append(op(kind, *choose.choices(tensors[-20:], k=operands)))
    return g, x, tensors


def unoptimized() -> ConfigProto:
    config = ConfigProto()
    config.aioexec.jit = "off"
    config.graph_options.optimizer_options.opt_level = OptimizerOptions.L0
    return config


@pytest.mark.behaviour(160)
@pytest.mark.parametrize("seed", range(8))
async def test_no_optimisation_changes_a_fetched_value_or_a_name(seed: int):
    g, x, tensors = random_graph(seed)
    choose = random.Random(seed)
    values = {x: np.array([0.5, -1, 2], np.float32)}

    async with session_on(g, "off") as session, Session(graph=g, config=unoptimized()) as plain:
        for _ in range(6):
            fetches = choose.choices(tensors, k=5)
            fed = {tensor: np.array([4, 5, 6], np.float32) for tensor in choose.sample(tensors[1:], 2)}
            names = [tensor.name for tensor in fetches]
            expected = await plain.run(fetches, {**values, **fed})

            np.testing.assert_array_equal(await session.run(fetches, {**values, **fed}), expected)
            by_name = {tensor.name: value for tensor, value in {**values, **fed}.items()}
            np.testing.assert_array_equal(await session.run(names, by_name), expected)


@pytest.mark.behaviour(158)
async def test_what_is_folded_still_waits_for_what_it_is_told_to_wait_for(ops: Ops):
    def fail(x: Any) -> Any:
        raise InvalidArgumentError("it ran")

    ops.add("TestRuns(x:T) -> (y:T) [T:type] {stateful}", fail)
    with graph() as g:
        before = op("TestRuns", constant(1.0))
        with g.control_dependencies([before]):
            y = op("Add", constant(1.0), constant(2.0))

    async with session_on(g, "off") as session:
        with pytest.raises(OpError, match="it ran"):
            await session.run(op_in(g, "Neg", y))


def op_in(g: Graph, kind: str, *inputs: Any) -> Any:
    with g.as_default():
        return op(kind, *inputs)
