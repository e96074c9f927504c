"""Folding: which loops and conditionals become single nodes, and which stay with the executor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.planning.instruction import Instruction, with_inner
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition
from tests.planning.planned import plan
from tests.tiers import constant, feed, graph, op


def kinds(made: Partition) -> list[Kind]:
    return [item.kind for item in made.items]


def everything(made: Partition) -> list[Instruction]:
    return [each for item in made.items for each in with_inner(item.instructions)]


def ops_of(instructions: Sequence[Instruction]) -> list[str]:
    return [each.node.row.name for each in instructions]


def test_a_loop_is_one_node_of_one_program():
    with graph():
        limit = feed([], "int32")
        result = ax.while_loop(lambda i: i < limit, lambda i: i + 1, [ax.constant(0)])

    made = plan([result], [limit])

    assert kinds(made) == [Kind.PROGRAM]
    (loop,) = made.items[0].instructions
    assert loop.structure is not None
    assert loop.structure.is_loop
    condition, body = loop.structure.regions
    assert ops_of(condition.instructions) == ["Less"]
    assert ops_of(body.instructions) == ["AddV2"]


def test_a_variable_that_does_not_change_is_a_parameter_and_goes_by_the_loop():
    with graph():
        limit, x = feed([], "int32"), feed([3])
        count, kept = ax.while_loop(
            lambda i, same: i < limit, lambda i, same: (i + 1, same), [ax.constant(0), x]
        )

    made = plan([count, kept], [limit, x])

    (loop,) = [each for each in everything(made) if each.structure is not None]
    assert len(loop.outputs) == 1
    assert made.fetches[1] == made.feeds[1]


@pytest.mark.parametrize("rounds", range(3))
@pytest.mark.parametrize("inner_rounds", range(2))
@pytest.mark.parametrize("parallel", [1, 10])
async def test_a_variable_does_not_go_by_a_loop_that_is_alive_less_often(
    rounds: int, inner_rounds: int, parallel: int
):
    """An outer loop that stays with the executor: without the inner loop's liveness its variable would go on for ever."""
    with graph() as g:
        x = feed([], "int32")
        with g.device("/cpu:1"):
            doubled = x + x

        def body(i: Any, value: Any) -> Any:
            with g.device("/cpu:1"):
                i = i + 1
            _, kept = ax.while_loop(
                lambda j, same: j < inner_rounds, lambda j, same: (j + 1, same), [ax.constant(0), x]
            )
            return i, kept

        with g.device("/cpu:0"):
            _, result = ax.while_loop(
                lambda i, value: i < rounds, body, [ax.constant(0), doubled], parallel_iterations=parallel
            )

    async with ax.Session(graph=g, config=ax.ConfigProto(device_count={"CPU": 2})) as session:
        async with asyncio.timeout(60):
            assert await session.run(result, {x: 3}) == (3 if rounds else 6)


def test_a_conditional_is_one_node_with_a_region_for_each_way():
    with graph():
        p, x = feed([], "bool"), feed([3])
        result = ax.cond(p, lambda: op("Exp", x), lambda: op("Neg", op("Sqrt", x)))

    made = plan([result], [p, x])

    (conditional,) = made.items[0].instructions
    assert conditional.structure is not None
    assert not conditional.structure.is_loop
    false, true = conditional.structure.regions
    assert ops_of(true.instructions) == ["Exp"]
    assert ops_of(false.instructions) == ["Sqrt", "Neg"]


def test_conditionals_and_loops_nest():
    with graph():
        limit, x = feed([], "int32"), feed([])

        def body(i: Any, y: Any) -> Any:
            return i + 1, ax.cond(
                y > 1.0, lambda: ax.while_loop(lambda z: z > 1.0, lambda z: z / 2.0, [y]), lambda: y * 3.0
            )

        results = ax.while_loop(lambda i, y: i < limit, body, [ax.constant(0), x])

    made = plan(results, [limit, x])

    (outer,) = made.items[0].instructions
    inside = [each for each in with_inner([outer]) if each.structure is not None]
    assert [each.structure.is_loop for each in inside if each.structure] == [True, False, True]


def test_what_a_backward_branch_takes_from_the_forward_one_is_a_result_of_one_way():
    with graph():
        p, x = feed([], "bool"), feed([3])
        y = ax.cond(p, lambda: op("Exp", x), lambda: x * 2.0)
        (gradient,) = ax.gradients(ax.reduce_sum(y * y), [x])

    made = plan([gradient], [p, x])

    conditionals = [each for each in everything(made) if each.structure is not None]
    assert len(conditionals) == 2
    forward = conditionals[0].structure
    assert forward is not None
    ways = list(zip(*(region.results for region in forward.regions), strict=True))
    assert [None in pair for pair in ways] == [
        False,
        True,
        True,
    ]  # the result; of either way what its gradient needs


def test_a_predicate_that_decides_two_things_makes_two_nodes_if_they_have_nothing_in_common():
    with graph():
        p, x = feed([], "bool"), feed([3])
        first = ax.cond(p, lambda: op("Exp", x), lambda: x)
        second = ax.cond(p, lambda: op("Neg", first), lambda: first)

    made = plan([first, second], [p, x])

    assert sum(each.structure is not None for each in everything(made)) == 2


async def waits() -> Any:
    return np.float32(1)


def test_what_waits_inside_stays_with_the_executor():
    with graph():
        p = feed([], "bool")
        result = ax.cond(
            p, lambda: ax.py_func(waits, [], ax.float32), lambda: constant(np.float32(0)), name="awaits"
        )

    made = plan([result], [p])

    assert Kind.MERGE in kinds(made)
    assert all(each.structure is None for each in everything(made))


def test_a_loop_around_what_waits_stays_and_a_conditional_beside_it_is_folded():
    with graph():
        limit, x = feed([], "int32"), feed([])

        def body(i: Any, y: Any) -> Any:
            came = ax.py_func(waits, [], ax.float32)
            came.set_shape([])
            return i + 1, ax.cond(y > 1.0, lambda: y - 1.0, lambda: y + 1.0) + came

        results = ax.while_loop(lambda i, y: i < limit, body, [ax.constant(0), x])

    made = plan(results, [limit, x])

    assert Kind.NEXT_ITERATION in kinds(made)
    assert [each.structure.is_loop for each in everything(made) if each.structure] == [False]


def test_a_reference_chosen_by_a_branch_stays_with_the_executor():
    with graph():
        p = feed([], "bool")
        v = op("VariableV2", shape=[], dtype=ax.float32)
        chosen = op("RefSwitch", v, p)
        merged = op("RefMerge", [chosen[0], chosen[1]])

    made = plan([op("Identity", merged[0])], [p])

    assert Kind.MERGE in kinds(made)
