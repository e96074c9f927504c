"""Loops and conditionals as single nodes: their results, how long they occupy the loop, and how they end."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from tests.execution.steps import Stepping, stepping
from tests.tiers import constant, feed, graph, op, read, resource

JITS = pytest.mark.parametrize("jit", ["off", "eager"])


def programs(made: Stepping) -> list[Any]:
    return [
        program
        for executor in made.executors.values()
        for runner in executor.runners
        for program in runner.cache.programs.values()
    ]


@JITS
async def test_results_that_are_swapped_each_round_are_all_the_old_ones(jit: Any):
    with graph() as g:
        n, x, y, z = feed([], "int32"), feed([2]), feed([2]), feed([2])
        results = ax.while_loop(
            lambda i, a, b, c: i < n, lambda i, a, b, c: (i + 1, b, c, a), [ax.constant(0), x, y, z]
        )

    values = [np.array([k, -k], np.float32) for k in (1, 2, 3)]
    async with stepping(g, jit) as made:
        for rounds in range(5):
            found = await made.run(results[1:], dict(zip((n, x, y, z), [rounds, *values], strict=True)))
            expected = [values[(k + rounds) % 3] for k in range(3)]
            np.testing.assert_array_equal(found, expected)


@JITS
async def test_a_value_whose_shape_changes_is_carried_all_the_same(jit: Any):
    with graph() as g:
        n, x = feed([], "int32"), feed([None])
        _, grown, total = ax.while_loop(
            lambda i, v, s: i < n,
            lambda i, v, s: (i + 1, op("ConcatV2", [v, v], ax.constant(0)), s + 1.0),
            [ax.constant(0), x, constant(np.float32(0))],
            shape_invariants=[ax.TensorShape([]), ax.TensorShape([None]), ax.TensorShape([])],
        )

    async with stepping(g, jit) as made:
        found = await made.run([grown, total], {n: 3, x: [1, 2]})

        np.testing.assert_array_equal(found[0], [1, 2] * 8)
        assert found[1] == 3


@JITS
async def test_what_an_object_is_given_in_a_round_is_not_what_was_written_there_in_that_round(jit: Any):
    with graph() as g:
        n, x, y = feed([], "int32"), feed([None]), feed([None])
        _, doubled, before = ax.while_loop(
            lambda i, a, b: i < n,
            lambda i, a, b: (i + 1, a * 2.0, a),
            [ax.constant(0), x, y],
            shape_invariants=[ax.TensorShape([]), ax.TensorShape([None]), ax.TensorShape([None])],
        )

    async with stepping(g, jit) as made:
        found = await made.run([doubled, before], {n: 3, x: [1, 2], y: [0, 0, 0]})

        np.testing.assert_array_equal(found[0], [8, 16])
        np.testing.assert_array_equal(found[1], [4, 8])


@JITS
async def test_what_the_condition_only_waits_for_may_be_used_in_the_rounds(jit: Any):
    with graph() as g:
        step, zero = feed([], "int32"), ax.constant(0)
        enter = op("Enter", zero, frame_name="counting")
        step_inside = op("Enter", step, frame_name="counting", is_constant=True)
        merge = g.create_op("Merge", [enter, enter])
        with g.control_dependencies([merge]):
            less = op("Neg", step_inside)
        with g.control_dependencies([less.op]):
            limit = ax.constant(10)
        goes_on = op("LoopCond", op("Less", merge.outputs[0], limit))
        out, again = g.create_op("Switch", [merge.outputs[0], goes_on]).outputs
        merge.set_input(1, op("NextIteration", op("Sub", again, less)))
        result = op("Exit", out)

    async with stepping(g, jit) as made:
        for _ in range(2):
            assert await made.run([result], {step: 3}) == [12]


@JITS
async def test_a_branch_that_is_not_taken_may_read_a_variable_that_has_no_value(jit: Any):
    with graph() as g:
        p, v = feed([], "bool"), resource([], name="v")
        result = ax.cond(p, lambda: read(v) * 2.0, lambda: constant(np.float32(7)))
        init = op("AssignVariableOp", v, constant(np.float32(4)))

    async with stepping(g, jit) as made:
        assert await made.run([result], {p: False}) == [7]
        with pytest.raises(ax.errors.FailedPreconditionError, match="uninitialized value v"):
            await made.run([result], {p: True})
        await made.run([init])
        assert await made.run([result], {p: True}) == [8]


@JITS
async def test_a_branch_that_is_not_taken_may_read_what_a_reference_refers_to_before_there_is_anything(
    jit: Any,
):
    with graph() as g:
        variable = ax.Variable(np.full(2, 3.0, np.float32), use_resource=False)
        start = ax.cond(
            ax.is_variable_initialized(variable), variable.read_value, lambda: variable.initial_value
        )

    async with stepping(g, jit) as made:
        np.testing.assert_array_equal(await made.run([start]), [[3, 3]])


@JITS
async def test_a_variable_written_in_a_branch_or_a_loop_has_what_was_written(jit: Any):
    with graph() as g:
        p, n, v = feed([], "bool"), feed([], "int32"), resource([], name="v")
        init = op("AssignVariableOp", v, constant(np.float32(1)))

        def doubled() -> Any:
            with g.control_dependencies([op("AssignVariableOp", v, read(v) * 2.0)]):
                return read(v) + 0.0

        conditional = ax.cond(p, doubled, lambda: read(v) + 0.0)
        loop = ax.while_loop(lambda i, last: i < n, lambda i, last: (i + 1, doubled()), [0, 0.0])

    async with stepping(g, jit) as made:
        await made.run([init])
        assert await made.run([conditional], {p: True}) == [2]
        assert await made.run([conditional], {p: False}) == [2]
        assert await made.run([loop[1]], {n: 3}) == [16]
        assert await made.run([conditional], {p: False}) == [16]


@JITS
async def test_an_error_inside_names_the_node_inside(jit: Any):
    with graph() as g:
        n = feed([], "int32")
        result = ax.while_loop(
            lambda i: i < n,
            lambda i: op("FloorDiv", i + 1, i - 2, name="divided") * 0 + i + 1,
            [ax.constant(0)],
        )

    async with stepping(g, jit) as made:
        assert await made.run([result], {n: 2}) == [2]
        with pytest.raises(InvalidArgumentError, match="divided"):
            await made.run([result], {n: 5})
        assert await made.run([result], {n: 1}) == [1]


@JITS
async def test_a_loop_without_an_end_is_cancelled_with_its_step(jit: Any):
    with graph() as g:
        n = feed([], "int32")
        result = ax.while_loop(lambda i: i < n, lambda i: (i + 1) % 1000, [ax.constant(0)])

    async with stepping(g, jit) as made:
        assert await made.run([result], {n: 5}) == [5]
        step = asyncio.ensure_future(made.run([result], {n: 1000}))
        for _ in range(20):
            await asyncio.sleep(0)  # it has begun, and moved to a worker if it has used up its time
        step.cancel()
        with pytest.raises(asyncio.CancelledError):
            await step
        assert await made.run([result], {n: 7}) == [7]


async def test_a_program_whose_loop_takes_long_moves_to_a_worker_and_comes_back():
    with graph() as g:
        n = feed([], "int32")
        result = ax.while_loop(lambda i: i < n, lambda i: i + 1, [ax.constant(0)])

    async with stepping(g, "eager") as made:
        assert await made.run([result], {n: 3}) == [3]
        (program,) = programs(made)
        program.inline = True
        rounds = 2_000_000  # some milliseconds of rows, for 50 us of fuel
        assert await made.run([result], {n: rounds}) == [rounds]
        assert len(program.frames) == 1
        for _ in range(200):
            assert await made.run([result], {n: 3}) == [3]
        assert program.inline


@pytest.mark.parametrize("count", [0, 1, 5, 100])
async def test_what_a_gradient_needs_of_each_round_is_kept_in_the_program(count: int):
    with graph() as g:
        n, x = feed([], "int32"), feed([3])
        _, y = ax.while_loop(
            lambda i, y: i < n, lambda i, y: (i + 1, op("Sin", y) * 1.5), [ax.constant(0), x]
        )
        (gradient,) = ax.gradients(y, [x])

    value = np.array([0.5, 1, 2], np.float32)
    expected, factor = value.astype(np.float64), np.ones(3)
    for _ in range(count):
        factor = factor * 1.5 * np.cos(expected)
        expected = 1.5 * np.sin(expected)
    async with stepping(g, "eager") as made:
        for _ in range(2):  # the second time lists have room from the start
            found = await made.run([y, gradient], {n: count, x: value})
            np.testing.assert_allclose(found[0], expected, rtol=1e-4)
            np.testing.assert_allclose(found[1], factor, rtol=1e-3, atol=1e-6)
        (program,) = programs(made)
        assert not program.variant.breaks


async def test_an_array_is_read_and_written_by_rows_and_its_mistakes_are_told():
    with graph() as g:
        n, x = feed([], "int32"), feed([5, 3])
        inputs = ax.TensorArray(ax.float32, 5, element_shape=[3]).unstack(x)
        written = ax.TensorArray(ax.float32, 5, element_shape=[3])
        _, written = ax.while_loop(
            lambda i, array: i < n,
            lambda i, array: (i + 1, array.write(i, inputs.read(i) * 2.0)),
            [0, written],
        )
        result = written.stack()

    value = np.arange(15, dtype=np.float32).reshape(5, 3)
    async with stepping(g, "eager") as made:
        found = await made.run([result], {n: 5, x: value})
        np.testing.assert_array_equal(found[0], value * 2)
        found = await made.run([result], {n: 2, x: value})
        np.testing.assert_array_equal(found[0], np.where(np.arange(5)[:, None] < 2, value * 2, 0))
        (program,) = programs(made)
        assert not program.variant.breaks
        with pytest.raises(InvalidArgumentError, match="index"):
            await made.run([result], {n: 6, x: value})
        found = await made.run([result], {n: 5, x: value})
        np.testing.assert_array_equal(found[0], value * 2)


def list_of_rows(x: Any) -> Any:
    return op("TensorListFromTensor", x, np.array([3], np.int32))


def rows_of(made: Any) -> Any:
    return op("TensorListStack", made, np.array([3], np.int32), element_dtype=ax.float32, num_elements=4)


@pytest.mark.parametrize("rounds", [0, 3, 4])
async def test_lists_are_read_then_changed_and_added_up_in_memory(rounds: int):
    row = np.array([3], np.int32)

    def body(i: Any, left: Any, total: Any) -> Any:
        emptied = op("TensorListSetItem", left, i, np.zeros(3, np.float32))
        element = op("TensorListGetItem", left, i, row, element_dtype=ax.float32)  # as it was before
        mine = op("TensorListReserve", row, 4, element_dtype=ax.float32)
        mine = op("TensorListSetItem", mine, i, element * 2.0)
        return i + 1, emptied, op("AddN", [mine, total, list_of_rows(np.ones((4, 3), np.float32))])

    with graph() as g:
        n, x = feed([], "int32"), feed([4, 3])
        given = list_of_rows(x)
        variables = [ax.constant(0), given, op("ZerosLike", list_of_rows(x * 3.0))]
        _, left, total = ax.while_loop(lambda i, left, total: i < n, body, variables)
        results = [rows_of(left), rows_of(total)]

    value = np.arange(12, dtype=np.float32).reshape(4, 3)
    done = (np.arange(4) < rounds)[:, None]
    async with stepping(g, "eager") as made:
        for _ in range(2):
            found = await made.run(results, {n: rounds, x: value})
            np.testing.assert_array_equal(found[0], np.where(done, 0, value))
            np.testing.assert_array_equal(found[1], np.where(done, value * 2, 0) + rounds)
        (program,) = programs(made)
        assert not program.variant.breaks


@JITS
async def test_zeros_like_two_lists_of_one_are_two(jit: Any):
    with graph() as g:
        x = feed([4, 3])
        given = list_of_rows(x)
        changed = op("TensorListSetItem", op("ZerosLike", given), 1, np.ones(3, np.float32))
        results = [rows_of(changed), rows_of(op("ZerosLike", given)), rows_of(op("AddN", [given, changed]))]

    value = np.arange(12, dtype=np.float32).reshape(4, 3)
    one = np.zeros((4, 3))
    one[1] = 1
    async with stepping(g, jit) as made:
        found = await made.run(results, {x: value})

        for result, expected in zip(found, [one, np.zeros((4, 3)), value + one], strict=True):
            np.testing.assert_array_equal(result, expected)


@JITS
async def test_a_branch_may_change_a_list_and_hand_it_on_as_it_was(jit: Any):
    row = np.array([3], np.int32)
    with graph() as g:
        p, x = feed([], "bool"), feed([4, 3])
        given = list_of_rows(x)

        def changed() -> Any:
            other = op("TensorListSetItem", given, 1, np.ones(3, np.float32))
            return given, op("TensorListGetItem", other, 1, row, element_dtype=ax.float32)

        def handed_on() -> Any:
            other = op("TensorListSetItem", given, 2, np.ones(3, np.float32))
            return other, op("TensorListGetItem", other, 1, row, element_dtype=ax.float32)

        kept, element = ax.cond(p, changed, handed_on)
        results = [rows_of(kept), element]

    value = np.arange(12, dtype=np.float32).reshape(4, 3)
    async with stepping(g, jit) as made:
        for taken in (True, False):
            found = await made.run(results, {p: taken, x: value})
            expected = value.copy()
            expected[2] = expected[2] if taken else 1
            np.testing.assert_array_equal(found[0], expected)
            np.testing.assert_array_equal(found[1], [1, 1, 1] if taken else value[1])


@JITS
@pytest.mark.parametrize("how", ["set", "summed", "set in a branch"])
async def test_a_list_from_outside_is_in_each_round_what_it_was(jit: Any, how: str):
    with graph() as g:
        n, x = feed([], "int32"), feed([4, 3])
        given = list_of_rows(x)
        ones = list_of_rows(np.ones((4, 3), np.float32))

        def body(i: Any, total: Any) -> Any:
            def changed() -> Any:
                return rows_of(op("TensorListSetItem", given, i, np.ones(3, np.float32)))

            if how == "summed":
                return i + 1, total + rows_of(op("AddN", [given, ones]))
            if how == "set":
                return i + 1, total + changed()
            return i + 1, total + ax.cond(i >= 0, changed, lambda: rows_of(given))

        _, total = ax.while_loop(
            lambda i, total: i < n, body, [ax.constant(0), ax.constant(np.zeros((4, 3), np.float32))]
        )

    value = np.arange(12, dtype=np.float32).reshape(4, 3)
    expected = 3 * value + 3
    if how != "summed":
        expected = 3 * value
        expected[:3] = 2 * value[:3] + 1
    async with stepping(g, jit) as made:
        for _ in range(2):
            (found,) = await made.run([total], {n: 3, x: value})
            np.testing.assert_array_equal(found, expected)


@JITS
async def test_a_branch_that_is_not_taken_reads_no_uninitialized_variable(jit: Any):
    with graph() as g:
        v = ax.Variable(np.array([1, 2], np.float32), use_resource=True)
        result = ax.cond(v.is_initialized(), lambda: v.read_value() * 2.0, lambda: ax.constant([5.0, 6.0]))

    async with ax.Session(graph=g, config=ax.ConfigProto(aioexec={"jit": jit})) as session:
        np.testing.assert_array_equal(await session.run(result), [5, 6])
        await session.run(v.initializer)
        np.testing.assert_array_equal(await session.run(result), [2, 4])
