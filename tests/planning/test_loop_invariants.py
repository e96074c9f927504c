"""Variables that a loop does not change are read before it, and are not saved by each iteration for its gradient."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.graph.apply import apply_any_op, apply_op
from aioexec.planning.new_nodes import tensor_of
from aioexec.planning.subgraph import Node, Subgraph
from tests.planning.recognized import drawn, planned, with_inner
from tests.tiers import graph

STEPS, UNITS = 4, 3
START = drawn(2, UNITS)
WEIGHTS = drawn(UNITS, UNITS)


def variable(value: Any = WEIGHTS, name: str = "weights") -> Any:
    return ax.get_variable(name, initializer=value, use_resource=True)


def loop(body: Callable[[Any], Any], start: Any = START, steps: int = STEPS) -> Any:
    """The value after some steps of `body`."""
    return ax.while_loop(lambda t, _: t < steps, lambda t, x: (t + 1, body(x)), [0, ax.constant(start)])[1]


def inside(subgraph: Subgraph, op_type: str) -> list[Node]:
    """The nodes of a type in the loops of a subgraph."""
    regions = [
        region for node in subgraph.nodes if node.structure is not None for region in node.structure.regions
    ]
    return [node for region in regions for node in with_inner(region.nodes) if node.computes(op_type)]


def sizes_saved(subgraph: Subgraph, op_type: str) -> list[int]:
    """The number of elements of each value that the loops push, sorted."""
    edges = [node.inputs[1] for node in inside(subgraph, op_type)]
    return sorted(prod(dim or 0 for dim in tensor_of(edge).dims or ()) for edge in edges)


async def values(fetches: list[Any], jit: str = "off", level: Any = 0, runs: int = 1) -> list[Any]:
    """What the last of some runs yields, after the variables were initialized."""
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    config.graph_options.optimizer_options.opt_level = level
    with fetches[0].graph.as_default():
        init = ax.global_variables_initializer()
    async with ax.Session(graph=fetches[0].graph, config=config) as session:
        await session.run(init)
        return [await session.run(fetches) for _ in range(runs)][-1]


def product(weights: Any) -> Callable[[Any], Any]:
    return lambda x: ax.tanh(ax.matmul(x, weights))


def products(x: Any, weights: Any) -> list[Any]:
    """The values of the loop of `product` by NumPy, from the first to the last."""
    found = [x.astype(np.float64)]
    for _ in range(STEPS):
        found.append(np.tanh(found[-1] @ weights))
    return found


def gradients(weights: Any) -> Any:
    """The gradients in the first value and in the weights of the sum of the last value, by NumPy."""
    found = products(START, weights)
    dx, dw = np.ones_like(found[-1]), np.zeros((UNITS, UNITS))
    for before, after in zip(found[-2::-1], found[:0:-1], strict=True):
        dx = dx * (1 - after**2)
        dw += before.T @ dx
        dx = dx @ weights.T
    return dw


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_variable_is_read_once_before_the_loop(jit):
    with graph():
        result = loop(product(variable()))

    made = planned([result])
    (found,) = await values([result], jit)

    assert inside(made, "ReadVariableOp") == []
    np.testing.assert_allclose(found, products(START, WEIGHTS)[-1], rtol=1e-5)


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_its_value_is_not_saved_for_the_gradient(jit):
    with graph():
        weights = variable()
        result = loop(product(weights))
        (gradient,) = ax.gradients(result, [weights])

    made = planned([result, gradient])
    found, found_gradient = await values([result, gradient], jit)

    assert sizes_saved(made, "TensorListPushBack") == [0, START.size, START.size]
    np.testing.assert_allclose(found, products(START, WEIGHTS)[-1], rtol=1e-5)
    np.testing.assert_allclose(found_gradient, gradients(WEIGHTS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_training_step_changes_the_variable_after_its_gradient(jit):
    with graph():
        weights = variable()
        result = loop(product(weights))
        train = ax.train.GradientDescentOptimizer(0.5).minimize(ax.reduce_sum(result))
        with ax.control_dependencies([train]):
            after = weights.read_value()

    made = planned([after])
    _, found = await values([result, after], jit, runs=2)

    first = WEIGHTS - 0.5 * gradients(WEIGHTS)
    assert inside(made, "ReadVariableOp") == []
    np.testing.assert_allclose(found, first - 0.5 * gradients(first), rtol=1e-4, atol=1e-5)


async def test_the_bits_are_those_without_passes():
    with graph():
        weights = variable()
        result = loop(product(weights))
        fetches = [result, *ax.gradients(result, [weights])]

    with_passes, without = await values(fetches), await values(fetches, level=-1)

    for one, other in zip(with_passes, without, strict=True):
        np.testing.assert_array_equal(one, other)


async def test_a_variable_that_the_loop_writes_is_read_in_each_iteration():
    with graph():
        weights = variable(np.float32(1))

        def body(x: Any) -> Any:
            with ax.control_dependencies([weights.assign_add(1.0)]):
                return x * weights.read_value()

        result = loop(body, np.float32(1))

    made = planned([result])
    (found,) = await values([result])

    assert (
        len(inside(made, "ReadVariableOp")) == 2
    )  # the assignment's own, which is not used, and that of the body
    assert found == 2 * 3 * 4 * 5


async def test_a_variable_that_is_written_before_the_loop_is_read_in_it():
    with graph():
        weights = variable(np.float32(1))
        with ax.control_dependencies([weights.assign(3.0)]):
            start = [ax.identity(0), ax.identity(np.float32(1))]  # a read in a loop waits for its counter
        result = ax.while_loop(lambda t, _: t < STEPS, lambda t, x: (t + 1, x * weights), start)[1]

    made = planned([result])
    (found,) = await values([result])

    assert len(inside(made, "ReadVariableOp")) == 1
    assert found == 3**STEPS


async def test_a_variable_that_something_unordered_writes_is_read_in_the_loop():
    with graph():
        weights = variable()
        result = loop(product(weights))
        write = weights.assign(2 * WEIGHTS)

    assert len(inside(planned([result], targets=[write.op]), "ReadVariableOp")) == 1


async def test_another_handle_of_the_variable_is_seen():
    with graph():
        weights = variable()
        result = loop(product(weights))
        again = apply_op("VarHandleOp", dtype=ax.float32, shape=[UNITS, UNITS], shared_name="weights")
        write = apply_any_op("AssignVariableOp", again, WEIGHTS)

    assert len(inside(planned([result], targets=[write]), "ReadVariableOp")) == 1


async def test_a_variable_is_not_read_if_its_loop_does_not_begin():
    with graph():
        weights = variable()
        wanted = ax.placeholder(ax.bool, [])
        result = ax.cond(wanted, lambda: loop(product(weights)), lambda: ax.constant(START))
    async with ax.Session(graph=result.graph) as session:
        found = await session.run(result, {wanted: False})
        with pytest.raises(ax.errors.FailedPreconditionError, match="weights"):
            await session.run(result, {wanted: True})

    np.testing.assert_array_equal(found, START)


async def test_what_changes_is_saved():
    with graph():
        weights = variable()
        result = loop(lambda x: ax.tanh(ax.matmul(x, weights * x[0, 0])))
        fetches = [result, *ax.gradients(result, [weights])]

    assert WEIGHTS.size in sizes_saved(planned(fetches), "TensorListPushBack")


async def test_a_list_that_is_fetched_is_saved():
    with graph():
        weights = variable()
        empty = apply_op("EmptyTensorList", [UNITS, UNITS], -1, element_dtype=ax.float32)
        saved = ax.while_loop(
            lambda t, _: t < STEPS,
            lambda t, saved: (t + 1, apply_op("TensorListPushBack", saved, weights)),
            [0, empty],
        )[1]

        def body(t: Any, saved: Any, total: Any) -> Any:
            saved, value = apply_any_op("TensorListPopBack", saved, [UNITS, UNITS], element_dtype=ax.float32)
            return t + 1, saved, total + value

        start = [0, saved, ax.zeros([UNITS, UNITS])]
        total = ax.while_loop(lambda t, *_: t < STEPS - 1, body, start)[2]
        length = apply_op("TensorListLength", saved)

    assert sizes_saved(planned([total]), "TensorListPushBack") == [0]
    assert sizes_saved(planned([total, length]), "TensorListPushBack") == [WEIGHTS.size]
    found, count = await values([total, length])
    np.testing.assert_allclose(found, (STEPS - 1) * WEIGHTS, rtol=1e-6)
    assert count == STEPS


async def test_a_stack_that_is_popped_twice_is_left_alone():
    with graph():
        stack = apply_op("StackV2", -1, elem_type=ax.float32)
        filled = ax.while_loop(
            lambda t: t < STEPS, lambda t: t + _after(apply_op("StackPushV2", stack, WEIGHTS), 1), [0]
        )
        with ax.control_dependencies([filled]):
            pops = [apply_op("StackPopV2", stack, elem_type=ax.float32) for _ in range(2)]

    for found in await values(pops):
        np.testing.assert_array_equal(found, WEIGHTS)


def _after(pushed: Any, step: int) -> Any:
    with ax.control_dependencies([pushed]):
        return ax.identity(step)


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_stack_keeps_its_length(jit):
    """In graphs of TensorFlow, gradients use stacks."""
    with graph():
        weights = variable()
        stack = apply_op("StackV2", -1, elem_type=ax.float32)
        pushed = ax.while_loop(
            lambda t: t < STEPS,
            lambda t: t + _after(apply_op("StackPushV2", stack, weights.read_value()), 1),
            [0],
        )

        def pop(t: Any, total: Any) -> Any:
            popped = apply_op("StackPopV2", stack, elem_type=ax.float32)
            return t + 1, total + ax.ensure_shape(popped, [UNITS, UNITS])

        def popped(count: int) -> Any:
            start = [pushed - STEPS, ax.zeros([UNITS, UNITS])]
            return ax.while_loop(lambda t, _: t < count, pop, start)[1]

        enough, too_many = popped(STEPS), popped(STEPS + 1)

    assert sizes_saved(planned([enough]), "StackPushV2") == [0]
    (found,) = await values([enough], jit)
    np.testing.assert_allclose(found, STEPS * WEIGHTS, rtol=1e-6)
    assert sizes_saved(planned([too_many]), "StackPushV2") == [0]
    with pytest.raises(ax.errors.InvalidArgumentError, match="empty when calling Pop"):
        await values([too_many], jit)
