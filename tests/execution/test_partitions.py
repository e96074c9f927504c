"""Steps over several devices: the same results as on one, for any placement."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import dtypes
from aioexec.errors import AbortedError, InternalError
from aioexec.execution.executor import Executor
from aioexec.execution.rendezvous import IntraProcessRendezvous
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.subgraph import Signature
from tests.execution.steps import Stepping, stepping
from tests.tiers import Ops, constant, feed, graph, op


def transfers(made: Stepping) -> int:
    """How many Sends there are in what has been run."""
    return sum(
        item.node.row.role is Role.SEND
        for executor in made.executors.values()
        for partition in executor.plan.partitions
        for item in partition.items
    )


@pytest.mark.behaviour(63)
async def test_two_received_values_are_added_and_the_sum_is_sent():
    with graph() as g:
        a, b = feed([], name="a"), feed([], name="b")
        with g.device("/cpu:1"):
            total = op("Add", a, b)

    async with stepping(g, CPU=2) as made:
        (result,) = await made.run([total], {a: 1, b: 1})

        assert transfers(made) == 3
    assert result == 2


@pytest.mark.behaviour(64)
async def test_a_value_is_doubled_ten_times_from_device_to_device():
    with graph() as g:
        v = x = feed([], name="x")
        for k in range(10):
            with g.device(f"/cpu:{k % 2}"):
                v = op("Add", v, v)

    async with stepping(g, CPU=2) as made:
        (result,) = await made.run([v], {x: 1})

        assert transfers(made) == 10
    assert result == 1024


@pytest.mark.slow
@pytest.mark.behaviour(65)
async def test_a_random_tree_over_4096_uses_of_one_value():
    choose = random.Random(5)
    with graph() as g:
        x = feed([], name="x")
        trees = [x] * 4096
        while len(trees) > 1:
            left, right = (trees.pop(choose.randrange(len(trees))) for _ in range(2))
            with g.device(f"/cpu:{choose.randrange(2)}"):
                trees.append(op("Add", left, right))

    async with stepping(g, CPU=2) as made:
        (result,) = await made.run(trees, {x: 3})

        assert transfers(made) > 100
    assert result == 3 * 4096


@pytest.mark.behaviour(68)
@pytest.mark.parametrize("taken", [False, True])
async def test_what_a_switch_does_not_take_is_dead_on_another_device_too(taken: bool):
    with graph() as g:
        x, p = feed([], name="x"), feed([], "bool", name="p")
        outputs = g.create_op("Switch", [x, p], name="switch").outputs
        with g.device("/cpu:1"):
            branches = [op("Neg", outputs[0]), op("Exp", outputs[1])]
        value, index = g.create_op("Merge", branches, name="merge").outputs

    async with stepping(g, CPU=2) as made:
        result, which = await made.run([value, index], {x: 1, p: taken})

        assert transfers(made) == 4
    assert which == taken
    np.testing.assert_allclose(result, np.exp(1) if taken else -1, rtol=1e-6)


async def test_a_control_edge_orders_across_devices():
    with graph() as g:
        with g.device("/cpu:1"):
            v = ax.Variable(1.0, use_resource=True, name="v")
            add = v.assign_add(10.0)
        with g.control_dependencies([add]):
            token = op("NoOp")
        with g.device("/cpu:1"), g.control_dependencies([token]):
            after = v.read_value()

    async with stepping(g, CPU=2) as made:
        await made.run([v.initializer])
        for expected in (11, 21, 31):
            assert await made.run([after]) == [expected]


@pytest.mark.behaviour(66)
async def test_graphs_without_edges_and_without_nodes_run():
    with graph() as g:
        nodes = []
        for k in range(6):
            with g.device(f"/cpu:{k % 3}"):
                nodes += [op("NoOp"), constant(float(k))]

    async with stepping(g, CPU=3) as made:
        assert await made.run(nodes) == [0, 1, 2, 3, 4, 5]
        assert await made.run([]) == []


# Failing steps


@pytest.mark.behaviour(74)
async def test_an_error_on_one_device_ends_the_receives_that_wait_on_another(ops: Ops):
    def fail(x: Any) -> Any:
        raise AbortedError("given up")

    ops.broken("GivesUp", fail)
    with graph() as g:
        x = feed([], name="x")
        with g.device("/cpu:1"):
            failed = op("GivesUp", x)
            waited_for = [op("Add", failed, constant(float(k))) for k in range(4)]
        results = [op("Neg", value) for value in waited_for]

    async with stepping(g, CPU=2) as made:
        for _ in range(2):
            with pytest.raises(AbortedError, match="given up"):
                await made.run(results, {x: 1})


@pytest.mark.behaviour(76)
@pytest.mark.parametrize("declared", ["int32", "float32_ref"])
async def test_a_value_of_another_dtype_than_declared_fails_the_step(declared: str):
    with graph() as g:
        x = feed([], name="x")
        with g.device("/cpu:1"):
            y = op("Neg", x)
            z = op("Exp", y)

    async with stepping(g, CPU=2) as made:
        plan = made.planner.plan(Signature((x,), (y, z), ()))
        for partition in plan.partitions:
            for node in partition.subgraph.nodes:
                if node.feed is None and node.row.role is Role.RECV and node.device.endswith("CPU:1"):
                    node.op.set_outputs([dtypes.as_dtype(declared)], [()])
        with pytest.raises(InternalError, match=f"does not match declared output type {declared}"):
            await Executor(plan, made.engine).step([np.array(1, np.float32)])


# Random programs: plain data, run by the graph and by NumPy

Program = tuple[Any, ...]


def program(choose: random.Random, depth: int) -> list[Program]:
    """Statements over a pool of values, each of which adds one; operands are drawn when it runs."""
    statements: list[Program] = [
        ("arithmetic", choose.randrange(5), choose.random(), choose.random())
        for _ in range(choose.randrange(1, 4))
    ]
    if depth:
        kind = choose.choice(["cond", "while", "while", "plain"])
        inner = [program(choose, depth - 1) for _ in range(2)]
        statements.append((kind, choose.random(), choose.random(), inner, choose.randrange(4)))
        statements.append(("arithmetic", choose.randrange(5), choose.random(), 0.999))
    return statements


def at(pool: list[Any], share: float) -> Any:
    return pool[int(share * len(pool))]


ARITHMETIC: list[tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = [
    (np.minimum, ax.minimum),
    (np.maximum, ax.maximum),
    (lambda a, b: np.float32(0.5) * (a + b), lambda a, b: 0.5 * (a + b)),
    (lambda a, b: np.float32(0.5) * a - b * np.float32(0.25), lambda a, b: 0.5 * a - b * 0.25),
    (lambda a, b: a, lambda a, b: ax.identity(a)),
]


def computed(statements: list[Program], pool: list[Any]) -> Any:
    """The result of a program for NumPy scalars."""
    pool = list(pool)
    for kind, first, second, *rest in statements:
        if kind == "arithmetic":
            pool.append(ARITHMETIC[first][0](at(pool, second), at(pool, rest[0])))
        elif kind == "cond":
            branch = rest[0][0] if at(pool, first) < at(pool, second) else rest[0][1]
            pool.append(computed(branch, pool))
        elif kind == "while":
            value = at(pool, first)
            for _ in range(rest[1]):
                value = computed(rest[0][0], [*pool, value])
            pool.append(value)
    return pool[-1]


class Builder:
    """Builds the graph of a program, each node on a device drawn for it."""

    def __init__(self, g: Graph, devices: random.Random, count: int) -> None:
        self.graph = g
        self.devices = devices
        self.count = count

    @contextlib.contextmanager
    def anywhere(self) -> Iterator[None]:
        with self.graph.device(f"/cpu:{self.devices.randrange(self.count)}"):
            yield

    def build(self, statements: list[Program], pool: list[Any]) -> Any:
        pool = list(pool)
        for kind, first, second, *rest in statements:
            if kind == "arithmetic":
                a, b = at(pool, second), at(pool, rest[0])
                with self.anywhere(), self.graph.control_dependencies([b] if first == 4 else []):
                    pool.append(ARITHMETIC[first][1](a, b))
            elif kind == "cond":
                pool.append(self.cond(at(pool, first), at(pool, second), rest[0], pool))
            elif kind == "while":
                pool.append(self.loop(at(pool, first), rest[0][0], pool, rest[1]))
        return pool[-1]

    def cond(self, a: Any, b: Any, branches: list[list[Program]], pool: list[Any]) -> Any:
        with self.anywhere():
            less = ax.less(a, b)
        with self.anywhere():
            return ax.cond(less, lambda: self.build(branches[0], pool), lambda: self.build(branches[1], pool))

    def loop(self, start: Any, body: list[Program], pool: list[Any], times: int) -> Any:
        def goes_on(k: Any, value: Any) -> Any:
            with self.anywhere():
                return ax.less(k, times)

        def step(k: Any, value: Any) -> Any:
            value = self.build(body, [*pool, value])
            with self.anywhere():
                return k + 1, value

        with self.anywhere():
            parallel = self.devices.choice([1, 2, 10])
            return ax.while_loop(goes_on, step, [0, ax.identity(start)], parallel_iterations=parallel)[1]


@pytest.fixture
def left_over(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys of what was sent and not received, or the other way round, when a step ended."""
    found: list[str] = []
    close = IntraProcessRendezvous.close
    monkeypatch.setattr(IntraProcessRendezvous, "close", lambda rendezvous: found.extend(close(rendezvous)))
    return found


async def check(seed: int) -> int:
    """Run one program over three devices; how many transfers it took."""
    choose = random.Random(seed)
    statements = program(choose, 3)
    with graph() as g:
        x = feed([], name="x")
        y = Builder(g, choose, 3).build(statements, [x])
    async with stepping(g, CPU=3) as made:
        for start in (0.25, -3.0):
            (result,) = await made.run([y], {x: start})
            expected = computed(statements, [np.float32(start)])
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6, err_msg=f"seed {seed}")
        return transfers(made)


@pytest.mark.slow
async def test_random_programs_over_three_devices_compute_what_numpy_computes(left_over: list[str]):
    assert sum([await check(seed) for seed in range(40)]) > 200
    assert left_over == []


@pytest.mark.sweep
@pytest.mark.timeout(600)
async def test_thousands_of_random_programs_over_three_devices(left_over: list[str]):
    for seed in range(1000, 4000):
        await check(seed)
        assert left_over == [], f"seed {seed}"
