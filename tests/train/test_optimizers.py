"""Optimizers: their steps against the formulas in NumPy, their nodes, slots and the global step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import GraphTypeError, UnimplementedError
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.keys import GraphKeys
from tests.ops.evaluate import Evaluator
from tests.tiers import Tier, tier as tier

Array = np.ndarray[Any, Any]
KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
START = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
GRADIENTS = [np.array([[0.5, -1.0], [2.0, 0.25], [0.0, 3.0]], np.float32) * k for k in (1.0, -0.5, 2.0)]


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


# The formulas


def descended(rate: float) -> Iterator[Array]:
    var = START.astype(np.float64)
    for gradient in GRADIENTS:
        var = var - rate * gradient
        yield var


def pushed(rate: float, momentum: float, nesterov: bool) -> Iterator[Array]:
    var, speed = START.astype(np.float64), np.zeros(START.shape)
    for gradient in GRADIENTS:
        speed = momentum * speed + gradient
        var = var - rate * (gradient + momentum * speed if nesterov else speed)
        yield var


def adapted(rate: float, beta1: float, beta2: float, epsilon: float) -> Iterator[Array]:
    var, m, v = START.astype(np.float64), np.zeros(START.shape), np.zeros(START.shape)
    for step, gradient in enumerate(GRADIENTS, 1):
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        scale = rate * np.sqrt(1 - beta2**step) / (1 - beta1**step)
        var = var - scale * m / (np.sqrt(v) + epsilon)
        yield var


FORMULAS: list[Any] = [
    pytest.param(lambda: train.GradientDescentOptimizer(0.1), lambda: descended(0.1), id="descent"),
    pytest.param(lambda: train.MomentumOptimizer(0.1, 0.9), lambda: pushed(0.1, 0.9, False), id="momentum"),
    pytest.param(
        lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        lambda: pushed(0.1, 0.9, True),
        id="nesterov",
    ),
    pytest.param(
        lambda: train.AdamOptimizer(0.1, 0.8, 0.9, 1e-3), lambda: adapted(0.1, 0.8, 0.9, 1e-3), id="adam"
    ),
]


def taken(
    optimizer: Any, variable: Any, feeds: Callable[[Array], dict[Any, Any]], gradient: Any
) -> list[Array]:
    """The content of a variable after each step."""
    step = optimizer.apply_gradients([(gradient, variable)])
    evaluator = Evaluator()
    evaluator.run(ax.global_variables_initializer())
    contents = []
    for value in GRADIENTS:
        evaluator.run(step, feeds(value))
        contents.append(evaluator.run(variable.value()))
    return contents


@KINDS
@pytest.mark.parametrize(("make", "formula"), FORMULAS)
def test_steps_follow_the_formula(graph, make, formula, use_resource):
    variable = ax.Variable(START, use_resource=use_resource)
    gradient = ax.placeholder("float32", [3, 2])

    contents = taken(make(), variable, lambda value: {gradient: value}, gradient)

    for actual, expected in zip(contents, formula(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


@KINDS
@pytest.mark.parametrize(("make", "formula"), FORMULAS)
def test_slices_of_all_rows_are_a_step_of_the_whole(graph, make, formula, use_resource):
    """Rows in another order, and one of them in two parts."""
    variable = ax.Variable(START, use_resource=use_resource)
    values = ax.placeholder("float32", [4, 2])
    slices = IndexedSlices(values, constant([2, 0, 1, 0]), constant([3, 2]))

    def feeds(value: Array) -> dict[Any, Any]:
        return {values: np.stack([value[2], value[0] * 0.75, value[1], value[0] * 0.25])}

    contents = taken(make(), variable, feeds, slices)

    for actual, expected in zip(contents, formula(), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5)


@KINDS
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_hyperparameters_take_the_dtype_of_the_variable(graph, use_resource, dtype):
    for make in (
        lambda: train.GradientDescentOptimizer(0.5),
        lambda: train.MomentumOptimizer(0.5, 0.5),
        lambda: train.AdamOptimizer(0.5, 0.5, 0.75),
    ):
        variable = ax.Variable([1.0], dtype=dtype, use_resource=use_resource)
        step = make().minimize(variable * variable, var_list=[variable])
        evaluator = Evaluator()
        evaluator.run(ax.global_variables_initializer())

        evaluator.run(step)

        assert evaluator.run(variable.value()).dtype.name == dtype
        assert float(evaluator.run(variable.value())[0]) < 1.0


def test_a_learning_rate_may_be_a_tensor_or_a_function(graph):
    variable = ax.Variable([1.0])
    rate = ax.placeholder("float32", [])
    by_tensor = train.GradientDescentOptimizer(rate).minimize(variable * 1.0)
    by_function = train.GradientDescentOptimizer(lambda: 0.25).minimize(variable * 1.0)
    evaluator = Evaluator()
    evaluator.run(ax.global_variables_initializer())

    evaluator.run(by_tensor, {rate: np.float32(0.5)})
    evaluator.run(by_function)

    assert evaluator.run(variable.value()).tolist() == [0.25]


@KINDS
def test_constraints_hold_after_the_step(graph, use_resource):
    variable = ax.Variable([0.25], constraint=lambda v: ax.maximum(v, 0.0), use_resource=use_resource)
    step = train.GradientDescentOptimizer(1.0).minimize(variable * 1.0)
    evaluator = Evaluator()
    evaluator.run(ax.global_variables_initializer())

    evaluator.run(step)

    assert evaluator.run(variable.value()).tolist() == [0.0]


# Nodes


def types(graph: Graph, prefix: str) -> dict[str, str]:
    return {op.name: op.type for op in graph.get_operations() if op.name.startswith(prefix)}


def test_a_step_has_the_nodes_of_tensorflow(graph):
    variable = ax.Variable([1.0], name="w")

    step = train.GradientDescentOptimizer(0.5).minimize(variable * 1.0)

    assert step.name == "GradientDescent"
    assert types(graph, "GradientDescent") == {
        "GradientDescent": "NoOp",
        "GradientDescent/learning_rate": "Const",
        "GradientDescent/update_w/ApplyGradientDescent": "ApplyGradientDescent",
    }
    assert graph.get_collection(GraphKeys.TRAIN_OP) == [step]


@KINDS
def test_slots_are_named_after_their_variables_and_of_their_kind(graph, use_resource):
    variable = ax.Variable([1.0], name="w", use_resource=use_resource)
    optimizer = train.AdamOptimizer()

    optimizer.minimize(variable * 1.0)

    m, v = optimizer.get_slot(variable, "m"), optimizer.get_slot(variable, "v")
    assert [slot.op.name for slot in (m, v)] == ["w/Adam", "w/Adam_1"]
    assert type(m) is type(v) is type(variable)
    assert not m.trainable
    assert optimizer.get_slot_names() == ["m", "v"]
    assert optimizer.get_slot(variable, "momentum") is None
    assert [made.op.name for made in optimizer.variables()] == [
        "beta1_power",
        "beta2_power",
        "w/Adam",
        "w/Adam_1",
    ]
    assert ax.trainable_variables() == [variable]


def test_two_optimizers_keep_slots_apart(graph):
    variable = ax.Variable([1.0], name="w")
    one, other = train.MomentumOptimizer(0.1, 0.9), train.MomentumOptimizer(0.1, 0.9)

    steps = [optimizer.minimize(variable * 1.0) for optimizer in (one, other)]

    assert [optimizer.get_slot(variable, "momentum").op.name for optimizer in (one, other)] == [
        "w/Momentum",
        "w/Momentum_1",
    ]
    assert [step.name for step in steps] == ["Momentum", "Momentum_1"]


def test_one_optimizer_makes_its_slots_once(graph):
    variable = ax.Variable([1.0], name="w")
    optimizer = train.MomentumOptimizer(0.1, 0.9)

    optimizer.minimize(variable * 1.0)
    optimizer.minimize(variable * 2.0)

    assert len(ax.global_variables()) == 2


async def test_slots_of_a_variable_of_any_shape_have_the_shape_of_its_initial_value(graph):
    variable = ax.Variable(np.ones((2, 3), np.float32), validate_shape=False, use_resource=False)
    optimizer = train.MomentumOptimizer(0.1, 0.9)
    step = optimizer.minimize(variable * 2.0)

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        await session.run(step)

        assert (await session.run(optimizer.get_slot(variable, "momentum"))).tolist() == [[2.0] * 3] * 2


def test_gradients_are_gated_as_asked(graph):
    a, b = ax.Variable([1.0]), ax.Variable([2.0])
    optimizer = train.GradientDescentOptimizer(0.1)
    kinds = {}
    for gate in (optimizer.GATE_NONE, optimizer.GATE_OP, optimizer.GATE_GRAPH):
        kinds[gate] = [g.op.type for g, _ in optimizer.compute_gradients(a * b, gate_gradients=gate)]

    assert kinds == {0: ["Mul", "Mul"], 1: ["Identity"] * 2, 2: ["Identity"] * 2}


def test_pairs_come_in_the_order_of_the_variables(graph):
    a, b, unused = ax.Variable([1.0]), ax.Variable([2.0]), ax.Variable([3.0])

    pairs = train.GradientDescentOptimizer(0.1).compute_gradients(a * b, [unused, [b, a]])

    assert [variable for _, variable in pairs] == [unused, b, a]
    assert pairs[0][0] is None


# Global step


@KINDS
def test_the_global_step_counts_after_the_updates(graph, use_resource):
    with ax.variable_scope("", use_resource=use_resource):
        step = train.create_global_step()
    variable = ax.Variable([1.0], use_resource=use_resource)
    train_op = train.GradientDescentOptimizer(0.5).minimize(variable * 1.0, global_step=step)
    evaluator = Evaluator()
    evaluator.run(ax.global_variables_initializer())

    for _ in range(3):
        evaluator.run(train_op)

    assert evaluator.run(step.value()) == 3
    assert train_op.type == ("AssignAddVariableOp" if use_resource else "AssignAdd")
    assert train_op.name == "GradientDescent"
    assert "GradientDescent/update" in [op.name for op in graph.get_operations()]


def test_there_is_one_global_step(graph):
    assert train.get_global_step() is None
    with graph.name_scope("inside"):
        step = train.get_or_create_global_step()

    assert step.name == "global_step:0"
    assert step.dtype.base_dtype.name == "int64"
    assert train.get_or_create_global_step() is step
    with pytest.raises(ValueError, match="already exists"):
        train.create_global_step()


def test_a_tensor_of_that_name_is_the_global_step(graph):
    variable = ax.Variable(0, name="global_step")

    found = train.get_global_step(graph)

    assert found is variable._as_graph_element()


@pytest.mark.parametrize("value", [0.0, [0]])
def test_a_global_step_is_an_integer_scalar(graph, value):
    graph.add_to_collection(GraphKeys.GLOBAL_STEP, ax.Variable(value))

    with pytest.raises(GraphTypeError, match="global_step"):
        train.get_global_step()


# Learning rates


def test_learning_rates_decay(graph):
    step = ax.placeholder("int64", [])
    smooth = train.exponential_decay(0.5, step, 10, 0.5)
    stairs = train.exponential_decay(0.5, step, 10, 0.5, staircase=True)
    line = train.polynomial_decay(1.0, step, 10, 0.5)
    pieces = train.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.25])
    evaluator = Evaluator()

    seen = {
        at: [float(x) for x in evaluator.run([smooth, stairs, line, pieces], {step: np.int64(at)})]
        for at in (0, 5, 10, 25)
    }

    assert seen == {
        0: pytest.approx([0.5, 0.5, 1.0, 1.0]),
        5: pytest.approx([0.5 * 0.5**0.5, 0.5, 0.75, 1.0]),
        10: pytest.approx([0.25, 0.25, 0.5, 1.0]),
        25: pytest.approx([0.5 * 0.5**2.5, 0.125, 0.5, 0.25]),
    }


# Errors


def test_what_cannot_be_optimized_is_refused(graph):
    variable, other, whole = (
        ax.Variable([1.0], name="v"),
        ax.Variable([2.0]),
        ax.Variable([1], trainable=False),
    )
    optimizer = train.GradientDescentOptimizer(0.1)
    loss = variable * 1.0

    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.minimize(loss, var_list=[other])
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(loss, var_list=[])
    with pytest.raises(ValueError, match="No variables provided"):
        optimizer.apply_gradients([])
    with pytest.raises(ValueError, match="No gradients provided"):
        optimizer.apply_gradients([(None, variable)])
    with pytest.raises(TypeError, match="expected a variable"):
        optimizer.apply_gradients([(loss, loss)])
    with pytest.raises(TypeError, match="must hold variables"):
        optimizer.compute_gradients(loss, [loss])
    with pytest.raises(ValueError, match="gate_gradients"):
        optimizer.compute_gradients(loss, gate_gradients=3)
    with pytest.raises(ValueError, match="invalid dtype int32"):
        optimizer.compute_gradients(whole * 1)
    with pytest.raises(ValueError, match="must have a name"):
        train.GradientDescentOptimizer(0.1, name="")
    with pytest.raises(UnimplementedError):
        optimizer.compute_gradients(lambda: loss)


def test_a_constraint_and_slices_do_not_go_together(graph):
    variable = ax.Variable([1.0, 2.0], constraint=abs)

    with pytest.raises(ValueError, match="constraint"):
        train.GradientDescentOptimizer(0.1).minimize(ax.gather(variable, [0]))


# In sessions


@KINDS
@pytest.mark.parametrize(("make", "formula"), FORMULAS)
async def test_every_tier_trains_alike(graph, make, formula, use_resource, tier: Tier):
    variable = ax.Variable(START, use_resource=use_resource)
    step = train.create_global_step()
    gradient = ax.placeholder("float32", [3, 2])
    train_op = make().apply_gradients([(gradient, variable)], global_step=step)
    initialize = ax.global_variables_initializer()

    async with tier.session(graph) as session:
        await session.run(initialize)
        for value, expected in zip(GRADIENTS, formula(), strict=True):
            await session.run(train_op, {gradient: value})
            np.testing.assert_allclose(await session.run(variable), expected, rtol=1e-5)

        assert await session.run(step) == len(GRADIENTS)
        if tier.is_native:
            assert await session.native_share(train_op, {gradient: GRADIENTS[0]}) == 1.0
