"""Random conditionals and loops yield the same values node by node, as single nodes, and in native programs."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import aioexec as ax
from tests.control_flow_programs import (
    INPUTS,
    SIZE,
    Body,
    Conditional,
    Expression,
    Loop,
    built,
    evaluated,
    programs,
    small_programs,
)
from tests.tiers import Tier, share_all, tier as tier

WAYS: dict[str, tuple[Any, str]] = {
    "piece by piece": (-1, "off"),
    "as single nodes": (0, "off"),
    "in native programs": (0, "eager"),
}
"""Level of optimisation (below 0 nothing is folded) and `jit`."""

LONG = 1026
"""A length of vectors that are worth a place of their own among what workers share."""


async def results_of(graph: ax.Graph, way: str, fetches: Any, feeds: list[Any], inputs: Any) -> list[Any]:
    """The values and ticks of runs with each of the inputs."""
    level, jit = WAYS[way]
    config = ax.ConfigProto(intra_op_parallelism_threads=3, use_per_session_threads=True)
    config.graph_options.optimizer_options.opt_level = level
    config.aioexec.jit = jit
    results, counter = fetches
    found = []
    async with ax.Session(graph=graph, config=config) as session:
        for each in inputs:
            await session.run(counter.initializer)
            *integers, numbers = each
            vector = np.resize(np.float32(numbers), feeds[2].shape.as_list())
            values = await session.run(results, dict(zip(feeds, (*integers, vector), strict=True)))
            found.append((values, int(await session.run(counter))))
    return found


def assert_same(actual: Any, expected: Any) -> None:
    assert actual[1] == expected[1], f"{actual[1]} ticks instead of {expected[1]}, with {actual[0]}"
    for got, wanted in zip(actual[0], expected[0], strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def check(program: Body, inputs: Any, length: int = SIZE) -> None:
    """Run a program in each way."""
    expected = [evaluated(program, each, length) for each in inputs]
    with ax.Graph().as_default() as graph:
        feeds, results, counter = built(ax, program, length)
    for way in WAYS:
        actual = asyncio.run(results_of(graph, way, (results, counter), feeds, inputs))
        for got, wanted in zip(actual, expected, strict=True):
            assert_same(got, wanted)


SOME_INPUTS = st.lists(INPUTS, min_size=2, max_size=3)


@pytest.mark.slow
@settings(max_examples=20)
@given(programs(), SOME_INPUTS)
def test_random_programs_compute_what_numpy_computes(program: Body, inputs: Any):
    check(program, inputs)


@pytest.mark.slow
@settings(max_examples=100)
@given(small_programs(), SOME_INPUTS)
def test_what_is_needed_behind_the_last_operation_is_still_there(program: Body, inputs: Any):
    check(program, inputs)


@pytest.mark.slow
@settings(max_examples=20)
@given(programs(), SOME_INPUTS)
def test_random_programs_compute_the_same_when_workers_share_all_of_them(program: Body, inputs: Any):
    with pytest.MonkeyPatch.context() as patch:
        share_all(patch)
        check(program, inputs, LONG)


@pytest.mark.sweep
@pytest.mark.timeout(0)
@pytest.mark.parametrize("length", [SIZE, LONG])
@settings(max_examples=2000)
@given(programs(blocks=9, depth=4), SOME_INPUTS)
def test_many_large_random_programs_compute_what_numpy_computes(length: int, program: Body, inputs: Any):
    with pytest.MonkeyPatch.context() as patch:
        if length == LONG:
            share_all(patch)
        check(program, inputs, length)


async def test_a_variable_begins_the_next_round_with_what_another_one_was(tier: Tier):
    with ax.Graph().as_default() as graph:
        first = ax.placeholder(ax.float32, [3])
        state = [0, first, first + 1.0, first * 2.0]

        found = ax.while_loop(lambda k, *_: k < 3, lambda k, a, b, c: [k + 1, c * 0.5, a, b], state)[1:]

    async with tier.session(graph) as session:
        for _ in range(3):
            results = await session.run(found, {first: [1.0, 2.0, -4.0]})
            expected = [[0.5, 1.0, -2.0], [1.0, 1.5, -1.5], [1.0, 2.0, -4.0]]
            np.testing.assert_array_equal(results, expected)


async def test_what_was_made_before_a_loop_is_the_same_in_each_round(tier: Tier):
    """Though the last operation of a round could make its result in the same place."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2, 2])
        before = ax.matmul(x, x)
        found = ax.while_loop(lambda k, y: k < 5, lambda k, y: [k + 1, before + y], [0, ax.zeros([2, 2])])

    async with tier.session(graph) as session:
        for _ in range(3):
            result = await session.run(found[1], {x: [[1.0, 2.0], [3.0, 4.0]]})
            np.testing.assert_array_equal(result, [[35.0, 50.0], [75.0, 110.0]])


async def test_what_a_branch_hands_on_is_as_it_was_when_more_has_been_made_of_it(tier: Tier):
    with ax.Graph().as_default() as graph:
        x, pred = ax.placeholder(ax.float32, [2, 2]), ax.placeholder(ax.bool, [])

        def branch() -> Any:
            made = ax.matmul(x, x)
            return made, made + x

        found = [*ax.cond(pred, branch, lambda: (x, x)), *ax.cond(pred, lambda: (x, x), branch)]

    async with tier.session(graph) as session:
        values = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
        made = [[[7.0, 10.0], [15.0, 22.0]], [[8.0, 12.0], [18.0, 26.0]]]
        for _ in range(3):
            for chosen in (True, False):
                results = await session.run(found, {x: values, pred: chosen})
                expected = [*made, values, values] if chosen else [values, values, *made]
                np.testing.assert_array_equal(results, expected)


@pytest.mark.parametrize("changes_state", [False, True])
async def test_what_only_one_branch_puts_by_is_handed_to_its_gradient(tier: Tier, changes_state: bool):
    with ax.Graph().as_default() as graph:
        x, pred = ax.placeholder(ax.float32, [3]), ax.placeholder(ax.bool, [])
        counter = ax.Variable(0.0, use_resource=True, trainable=False)

        def left():
            with ax.control_dependencies([counter.assign_add(1.0)] if changes_state else []):
                return ax.tanh(x)

        def right():
            return ax.cond(
                pred,
                lambda: x * x,
                lambda: ax.while_loop(lambda k, y: k < 2, lambda k, y: [k + 1, y * x], [0, x])[1],
            )

        given = ax.cond(pred, left, right)
        always = ax.cond(ax.constant(False), left, right)
        (gradient,) = ax.gradients([given, always], [x])

    async with tier.session(graph) as session:
        await session.run(counter.initializer)
        values = np.array([0.5, -1.0, 2.0], np.float32)
        for _ in range(3):
            for chosen, expected in ((True, 1 - np.tanh(values) ** 2 + 2 * values), (False, 6 * values**2)):
                actual = await session.run(gradient, {x: values, pred: chosen})
                np.testing.assert_allclose(actual, expected, rtol=1e-5)


ONE = Expression("i.constant", (1,))
GIVEN, STATE = (Expression("v.name", (k,)) for k in (0, 3))


def vector(*numbers: float) -> Expression:
    return Expression("v.constant", numbers)


INNER = Conditional(
    ONE,
    ONE,
    Body(
        (Loop(ONE, 5, (ONE,), (vector(0.25, 0.25, -0.5),), Body((), (ONE,), (GIVEN,))),),
        (ONE,),
        (STATE,),
    ),
    Body((), (ONE,), (vector(0.25, 1.0, 1.0),)),
)
WAITING = Conditional(
    ONE,
    ONE,
    Body(
        (INNER,), (ONE,), (vector(1.0, 0.25, -0.5), Expression("v.larger", (STATE, vector(-0.5, -0.5, 0.25))))
    ),
    Body((), (ONE,), (vector(-0.5, 1.0, -0.5), vector(0.25, 0.25, 0.25))),
)
"""Conditionals of one predicate whose gradients, once they are single nodes, wait for each other."""


async def test_conditionals_that_wait_for_each_other_are_run_piece_by_piece(tier: Tier):
    program = Body((WAITING,), (ONE,), (vector(1.0, -0.5, 0.25),))
    (_, vectors), _ = evaluated(program, (0, 0, [1.0, 1.0, 1.0]))
    with ax.Graph().as_default() as graph:
        feeds, results, counter = built(ax, program)
        gradients = ax.gradients([each * each for each in results if each.dtype == ax.float32], [feeds[2]])
        fetches = [results[1], *(each for each in gradients if each is not None)]

    async with tier.session(graph) as session:
        await session.run(counter.initializer)
        found, *_ = await session.run(fetches, dict(zip(feeds, (0, 0, [1.0, 1.0, 1.0]), strict=True)))

    np.testing.assert_allclose(found, vectors)
