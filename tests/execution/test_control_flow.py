"""Conditionals and loops in steps: which nodes run, how often, with which values, on each tier."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.testing import all_tasks_blocked
from tests.execution.parking import SIGNATURE, Parking
from tests.execution.steps import on_cpu, stepping
from tests.tiers import Ops, constant, feed, graph, op, reference, resource

JITS = pytest.mark.parametrize("jit", ["off", "eager"])


@pytest.fixture
async def parking(ops: Ops) -> Parking:
    return Parking(ops)


class Counted:
    """An op `Count` x -> x; `values` are those it has seen."""

    def __init__(self, ops: Ops) -> None:
        self.values: list[float] = []
        ops.broken("Count", self._compute)

    def _compute(self, x: Any) -> Any:
        self.values.append(x.tolist())
        return x


# Which nodes run


@JITS
@pytest.mark.behaviour(68, 69, 70)
async def test_of_a_conditional_only_the_branch_taken_runs(ops: Ops, jit: Any):
    counted = Counted(ops)
    with graph():
        x, p = feed([]), feed([], "bool")
        result = ax.cond(p, lambda: op("Count", x), lambda: op("Count", op("Neg", x)))

    async with stepping(result.graph, jit) as made:
        for taken, expected in ((True, 3), (False, -3), (True, 3)):
            counted.values.clear()
            assert await made.run([result], {x: 3, p: taken}) == [expected]
            assert counted.values == [expected]


@JITS
@pytest.mark.behaviour(69)
async def test_a_dead_value_does_not_kill_what_does_not_depend_on_it(ops: Ops, jit: Any):
    """Both stand side by side, and fit into one program but for that."""
    counted = Counted(ops)
    with graph() as g:
        x, p = feed([]), feed([], "bool")
        outputs = g.create_op("Switch", [x, p]).outputs
        dead = [op("Count", op("Neg", output)).op for output in outputs]
        alive = op("Count", op("Mul", x, constant(10.0)))

    async with stepping(g, jit) as made:
        assert await made.run([alive, *dead], {x: 1, p: True}) == [10]

    assert sorted(counted.values) == [-1, 10]


@JITS
@pytest.mark.behaviour(68)
async def test_fetching_what_is_dead_is_refused(jit: Any):
    with graph() as g:
        x, p = feed([]), feed([], "bool")
        outputs = g.create_op("Switch", [x, p], name="switch").outputs
        fetches = [op("Neg", output, name=f"branch{k}") for k, output in enumerate(outputs)]

    async with stepping(g, jit) as made:
        with pytest.raises(InvalidArgumentError, match=r"Retval\[1\] does not have value.*branch0"):
            await made.run([x, fetches[0]], {x: 1, p: True})
        assert await made.run([fetches[1]], {x: 1, p: True}) == [-1]


@JITS
async def test_nested_conditionals_update_the_variable_of_one_branch(jit: Any):
    with graph():
        p, q = feed([], "bool"), feed([], "bool")
        variables = [ax.Variable(0.0, use_resource=True) for _ in range(4)]

        def update(k: int) -> Any:
            return lambda: variables[k].assign_add(1.0)

        outer = ax.cond(p, lambda: ax.cond(q, update(3), update(2)), lambda: ax.cond(q, update(1), update(0)))
        values = [variable.read_value() for variable in variables]

    async with stepping(outer.graph, jit) as made:
        await made.run([variable.initializer for variable in variables])
        for k in (3, 0, 3, 1):
            assert await made.run([outer], {p: k >= 2, q: k % 2 == 1}) >= [1]
        assert await made.run(values) == [1, 1, 0, 2]


@JITS
@pytest.mark.behaviour(71, 72)
async def test_a_loop_runs_its_body_as_often_as_its_condition_holds(ops: Ops, jit: Any):
    counted = Counted(ops)
    with graph() as g:
        x, limit, factor = feed([]), feed([]), feed([])
        result = ax.while_loop(lambda value: value < limit, lambda value: op("Count", value) * factor, [x])

    async with stepping(g, jit) as made:
        for _ in range(2):
            counted.values.clear()
            assert await made.run([result], {x: 3, limit: 20, factor: 2}) == [24]
            assert counted.values == [3, 6, 12]
        counted.values.clear()
        assert await made.run([result], {x: 3, limit: 3, factor: 2}) == [3]
        assert counted.values == []


@JITS
@pytest.mark.slow
@pytest.mark.behaviour(71, 73)
async def test_nested_loops_with_several_exits(jit: Any):
    with graph() as g:
        rows, columns = feed([], "int32"), feed([], "int32")

        def row(i: Any, total: Any, cells: Any) -> Any:
            _, total, cells = ax.while_loop(
                lambda j, total, cells: j < columns,
                lambda j, total, cells: [j + 1, total + i * j, cells + 1],
                [ax.constant(0), total, cells],
            )
            return [i + 1, total, cells]

        zero = [ax.constant(0) for _ in range(3)]
        results = ax.while_loop(lambda i, total, cells: i < rows, row, zero)

    async with stepping(g, jit) as made:
        for m, n in ((3, 4), (0, 4), (3, 0), (5, 5)):
            expected = [m, sum(i * j for i in range(m) for j in range(n)), m * n]
            assert await made.run(results, {rows: m, columns: n}) == expected


@JITS
@pytest.mark.slow
async def test_a_loop_on_a_branch_in_a_loop(jit: Any):
    """Halve while even, else 3x + 1, until 1: the steps of Collatz, the halving in a loop of its own."""

    def halve(value: Any) -> Any:
        return ax.while_loop(lambda v: ax.equal(v % 2, 0), lambda v: v // 2, [value])

    with graph() as g:
        x = feed([], "int32")

        def body(value: Any, rounds: Any) -> Any:
            return [ax.cond(ax.equal(value % 2, 0), lambda: halve(value), lambda: 3 * value + 1), rounds + 1]

        results = ax.while_loop(lambda value, rounds: value > 1, body, [x, ax.constant(0)])

    async with stepping(g, jit) as made:
        for start in (1, 2, 7, 27):
            value, rounds = start, 0
            while value > 1:
                if value % 2:
                    value = 3 * value + 1
                else:
                    while value % 2 == 0:
                        value //= 2
                rounds += 1
            assert await made.run(results, {x: start}) == [value, rounds]


@JITS
async def test_a_loop_over_arrays_whose_shape_grows(jit: Any):
    with graph() as g:
        x = feed([None])
        result = ax.while_loop(
            lambda k, value: k < 4,
            lambda k, value: [k + 1, op("ConcatV2", [value, value], ax.constant(0))],
            [ax.constant(0), x],
            shape_invariants=[ax.TensorShape([]), ax.TensorShape([None])],
        )[1]

    async with stepping(g, jit) as made:
        (grown,) = await made.run([result], {x: [1, 2]})

    np.testing.assert_array_equal(grown, np.tile([1, 2], 16))


@pytest.mark.behaviour(71)
@pytest.mark.parametrize("parallel", [1, 2, 5])
async def test_iterations_overlap_as_far_as_the_loop_allows(parking: Parking, parallel: int):
    with graph() as g:
        x = feed([])
        slow: list[Any] = []

        def body(i: Any, total: Any) -> Any:
            slow.append(op("Park", i))
            return [i + 1, total + slow[-1]]

        result = ax.while_loop(
            lambda i, total: i < 5, body, [ax.constant(0.0), x], parallel_iterations=parallel
        )[1]

    async with stepping(g) as made:
        running = asyncio.create_task(made.run([result], {x: 100}))
        await all_tasks_blocked()
        first = len(parking.waiting)
        while not running.done():
            parking.let_go()
            await all_tasks_blocked()

        assert await running == [110]
    assert first == parallel


# References


async def test_a_plain_switch_passes_the_value_of_a_variable_on(ops: Ops):
    """The value is that of the moment: what is assigned later is not seen behind it."""
    with graph() as g:
        v, p = reference([]), feed([], "bool")
        init = op("Assign", v, constant(5.0))
        switch = g.create_op("Switch", [v, p])
        with g.control_dependencies([switch]):
            later = op("AssignAdd", v, constant(1.0))
        with g.control_dependencies([later]):
            results = [op("Neg", output) for output in switch.outputs]

    async with stepping(g) as made:
        await made.run([init])
        assert await made.run([results[1]], {p: True}) == [-5]
        assert await made.run([results[0]], {p: False}) == [-6]


async def test_a_plain_merge_passes_the_value_of_a_variable_on():
    with graph() as g:
        v, p = reference([]), feed([], "bool")
        init = op("Assign", v, constant(5.0))
        switch = g.create_op("RefSwitch", [v, p])
        merged = g.create_op("Merge", [op("Neg", switch.outputs[0]), switch.outputs[1]]).outputs[0]
        result = op("Mul", merged, constant(2.0))

    async with stepping(g) as made:
        await made.run([init])
        assert await made.run([result], {p: True}) == [10]
        assert await made.run([result], {p: False}) == [-10]


async def test_references_go_through_switches_and_merges():
    with graph() as g:
        v, w, p = reference([]), reference([]), feed([], "bool")
        init = [op("Assign", v, constant(1.0)), op("Assign", w, constant(2.0))]
        branches = [g.create_op("RefSwitch", [w, p]).outputs[0], g.create_op("RefSwitch", [v, p]).outputs[1]]
        chosen = g.create_op("RefMerge", branches).outputs[0]
        add = op("AssignAdd", chosen, constant(10.0))

    async with stepping(g) as made:
        await made.run(init)
        assert await made.run([add], {p: True}) == [11]
        assert await made.run([add], {p: False}) == [12]
        assert await made.run([v, w]) == [11, 12]


@JITS
@pytest.mark.behaviour(70)
async def test_a_variable_made_on_a_branch_is_the_one_chosen(jit: Any):
    with graph() as g:
        p = feed([], "bool")
        init = [
            op("AssignVariableOp", resource([], name=name), constant(value))
            for name, value in (("left", 1.0), ("right", 2.0))
        ]

        def handle(name: str) -> Any:
            return op("VarHandleOp", dtype=ax.float32, shape=[], shared_name=name)

        chosen = ax.cond(p, lambda: handle("left"), lambda: handle("right"))
        value = op("ReadVariableOp", chosen, dtype=ax.float32)

    async with stepping(g, jit) as made:
        await made.run(init)
        assert await made.run([value], {p: True}) == [1]
        assert await made.run([value], {p: False}) == [2]


# Errors


async def test_a_predicate_that_is_no_scalar_is_refused():
    with graph() as g:
        x, p = feed([]), feed(None, "bool")
        switch = g.create_op("Switch", [x, p], name="culprit")

    async with stepping(g) as made:
        with pytest.raises(InvalidArgumentError, match=r"culprit.*must be a scalar.*\(2,\)"):
            await made.run([switch.outputs[0]], {x: 1, p: [True, False]})


async def test_a_switch_of_a_variable_without_value_is_refused():
    with graph() as g:
        v, p = reference([]), feed([], "bool")
        switch = g.create_op("Switch", [v, p], name="culprit")

    async with stepping(g) as made:
        with pytest.raises(FailedPreconditionError, match="culprit"):
            await made.run([switch.outputs[0]], {p: False})


@pytest.mark.parametrize("kind", ["Fail", "FailLater"])
async def test_an_error_in_an_iteration_ends_the_loop(ops: Ops, parking: Parking, kind: str):
    def fail(x: Any) -> Any:
        if x >= 3:
            raise InvalidArgumentError("too far")
        return x

    async def fail_later(step: Any, x: Any) -> Any:
        await asyncio.sleep(0)
        return fail(x)

    ops.broken("Fail", fail)
    ops.add(f"FailLater{SIGNATURE}", fail_later, asynchronous=True)
    with graph() as g:
        x = feed([])
        result = ax.while_loop(lambda i: i < 100, lambda i: op(kind, i, name="culprit") + 1, [x], name="loop")
        fetches = [result, op("Park", x)]

    async with stepping(g) as made:
        with pytest.raises(InvalidArgumentError, match=r"loop/culprit.*too far"):
            await made.run(fetches, {x: 0})
        assert not parking.waiting
        with pytest.raises(InvalidArgumentError, match="too far"):
            await made.run([result], {x: 0})


# Size and fairness


@pytest.mark.behaviour(66)
async def test_nodes_without_inputs_and_nothing_at_all_run():
    with graph() as g:
        lonely = [op("NoOp") for _ in range(3)]
        value = constant(2.0)

    async with stepping(g) as made:
        assert await made.run(lonely) == []
        assert await made.run([*lonely, value]) == [2]
        assert await made.run([]) == []


def layers(width: int, depth: int) -> tuple[Graph, Any]:
    """Layers of nodes without data; each node waits for all of the layer before, by way of one node between."""
    with graph() as g:
        between = op("NoOp")
        for _ in range(depth):
            with g.control_dependencies([between]):
                layer = [op("NoOp") for _ in range(width)]
            with g.control_dependencies(layer):
                between = op("NoOp")
    return g, between


@pytest.mark.slow
@pytest.mark.behaviour(78)
async def test_planning_and_running_no_ops_grows_with_their_number_only():
    async def calls(width: int, depth: int) -> int:
        g, last = layers(width, depth)
        made_calls: list[str] = []
        async with stepping(g) as made:
            sys.setprofile(
                lambda frame, event, argument: made_calls.append(event) if "call" in event else None
            )
            try:
                await made.run([last])
            finally:
                sys.setprofile(None)
            (partition,) = made.executor([last]).plan.partitions
            assert len(partition.items) == 1
        return len(made_calls)

    small = await calls(16, 16)

    assert await calls(64, 16) < 4.4 * small
    assert await calls(16, 64) < 4.4 * small


class Depth:
    """An asynchronous op `Deep` x -> x that notes how deep the stack is."""

    def __init__(self, ops: Ops) -> None:
        self.depths: set[int] = set()
        ops.add(f"Deep{SIGNATURE}", self._compute, asynchronous=True)

    def _compute(self, step: Any, x: Any) -> Any:
        depth, frame = 0, sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        self.depths.add(depth)
        return x


@pytest.mark.slow
@pytest.mark.behaviour(32)
@pytest.mark.parametrize("devices", [1, 2])
async def test_a_deep_chain_does_not_recurse(ops: Ops, devices: int):
    depth = Depth(ops)
    with graph() as g:
        x = y = feed([])
        for k in range(600):
            with g.device(on_cpu(k % devices)):
                y = op("Deep", y)

    async with stepping(g, CPU=devices) as made:
        assert await made.run([y], {x: 3}) == [3]

    assert max(depth.depths) - min(depth.depths) <= 12


@pytest.mark.slow
@pytest.mark.behaviour(32)
async def test_a_long_loop_does_not_recurse_and_lets_others_in(ops: Ops):
    depth = Depth(ops)
    with graph() as g:
        x = feed([])
        result = ax.while_loop(lambda i: i < 1000, lambda i: op("Deep", i) + 1, [x])
    beats = 0

    async with stepping(g) as made:
        running = asyncio.create_task(made.run([result], {x: 0}))
        while not running.done():
            await asyncio.sleep(0)
            beats += 1
        assert await running == [1000]

    assert beats > 3
    assert max(depth.depths) - min(depth.depths) <= 12


async def test_a_frame_may_hold_nothing_and_what_is_inside_one_cannot_be_fetched():
    with graph() as g:
        x = feed([])
        entered = op("Enter", x, frame_name="f")
        inside = op("Identity", entered, name="inside")
        left = op("Exit", inside)

    async with stepping(g) as steps:
        assert await steps.run([left], {x: 5.0}) == [5]
        assert await steps.run([entered.op], {x: 5.0}) == []
        for each in (entered, inside):
            with pytest.raises(InvalidArgumentError, match="is inside a loop"):
                await steps.run([each], {x: 5.0})
