"""gradients: the chain rule over graphs of various forms, checked by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.gradients.aggregation import AggregationMethod, UnconnectedGradients
from aioexec.gradients.backprop import gradients
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.indexed_slices import IndexedSlices
from tests.ops.evaluate import Evaluator, evaluate

KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


def numbers(found: Any) -> Any:
    return [None if value is None else np.asarray(value).tolist() for value in evaluate(found)]


# The chain rule


def test_gradients_follow_the_chain_rule(graph):
    x, y = constant(3.0), constant(2.0)
    z = x * y + x * x

    assert numbers(gradients(z, [x, y])) == [2.0 + 6.0, 3.0]


def test_a_single_x_gives_a_list(graph):
    x = constant(3.0)

    assert numbers(gradients(x * x, x)) == [6.0]


def test_several_ys_add_up(graph):
    x = constant(3.0)

    assert numbers(gradients([x * 2.0, x * x], [x])) == [2.0 + 6.0]


def test_gradients_of_ys_may_be_given(graph):
    x = constant([1.0, 2.0])
    a, b = x * 2.0, x * x

    assert numbers(gradients([a, b], [x], grad_ys=[constant([1.0, 10.0]), None])) == [[2 + 2, 20 + 4]]
    assert numbers(gradients(a, [x], grad_ys=[[3.0, 4.0]])) == [[6.0, 8.0]]


def test_x_may_lie_between(graph):
    x = constant(3.0)
    y = x * x
    z = y * y

    assert numbers(gradients(z, [y, x])) == [18.0, 108.0]


def test_a_tensor_has_gradient_one_by_itself(graph):
    x = constant([1.0, 2.0])

    assert numbers(gradients([x], [x, x])) == [[1.0, 1.0], [1.0, 1.0]]


def test_gradients_of_gradients_are_gradients(graph):
    x = constant(2.0)
    (first,) = gradients(x * x * x, [x])
    (second,) = gradients(first, [x])
    (third,) = gradients(second, [x])

    assert numbers([first, second, third]) == [12.0, 12.0, 6.0]


def test_broadcasts_are_summed_back(graph):
    x, y = constant([[1.0], [2.0]]), constant([10.0, 20.0, 30.0])

    assert numbers(gradients(x * y, [x, y])) == [[[60.0], [60.0]], [3.0, 3.0, 3.0]]


def test_gradients_have_the_static_shape_of_their_tensor(graph):
    x = ax.placeholder("float32", [None, 3])
    w = constant(np.ones((3, 2), np.float32))

    (dx,) = gradients(ax.matmul(x, w), [x])

    assert dx.shape.as_list() == [None, 3]


def test_missing_gradients_of_outputs_count_as_zero(graph):
    x = constant([1.0, 2.0, 3.0, 4.0])
    head, _, _, last = ax.split(x, 4)

    assert numbers(gradients([head * 3.0, last], [x])) == [[3.0, 0.0, 0.0, 1.0]]


@KINDS
def test_variables_are_differentiated_whatever_reads_them(graph, use_resource):
    v = ax.Variable([1.0, 2.0], use_resource=use_resource)
    w = ax.Variable([3.0, 4.0], use_resource=use_resource)
    found = gradients(v * w * v, [v, w])
    evaluator = Evaluator()
    evaluator.run(ax.global_variables_initializer())

    assert [value.tolist() for value in evaluator.run(found)] == [[6.0, 16.0], [1.0, 4.0]]


def test_a_long_chain_needs_no_recursion(graph):
    x = constant(1.0)
    y = x
    for _ in range(3000):
        y = apply_op("Identity", y)

    assert numbers(gradients(y, [x])) == [1.0]


def test_a_diamond_of_diamonds_is_walked_once(graph):
    x = constant(1.0)
    y = x
    for _ in range(60):  # 2 ** 60 paths
        y = y + y
    before = graph.version

    (dx,) = gradients(y, [x])

    assert evaluate(dx) == 2.0**60
    assert graph.version - before < 60 * 4


def test_what_lies_beside_the_way_is_left_alone(graph):
    x, other = constant(1.0), constant(2.0)
    aside = ax.exp(other) * 3.0
    z = x * aside

    gradients(z, [x])

    assert not [op for op in graph.get_operations() if "Exp_grad" in op.name]


# Where nothing flows


def test_what_is_not_connected_is_none_or_zero(graph):
    x, other = constant([1.0, 2.0]), constant([3.0])

    assert numbers(gradients(x * 2.0, [x, other])[:1]) == [[2.0, 2.0]]
    assert gradients(x * 2.0, [x, other])[1] is None
    for zero in (UnconnectedGradients.ZERO, "zero"):
        assert numbers(gradients(x * 2.0, [other], unconnected_gradients=zero)) == [[0.0]]


async def test_zeros_for_the_handle_of_a_variable_have_its_shape(graph):
    variable: Any = ax.Variable(np.ones((2, 3), np.float32), use_resource=True)

    (zero,) = gradients(constant(1.0), [variable.handle], unconnected_gradients="zero")

    async with ax.Session(graph=graph) as session:
        await session.run(variable.initializer)
        assert np.array_equal(await session.run(zero), np.zeros((2, 3), np.float32))


def test_ops_that_are_not_differentiable_cut_the_way(graph):
    x = constant([1.5, 2.5])

    assert gradients(ax.floor(x), [x]) == [None]
    assert numbers(gradients(ax.floor(x) * x, [x])) == [[1.0, 2.0]]


def test_integers_carry_no_gradient(graph):
    x = constant(2.5)
    whole = ax.cast(x, "int32")

    assert gradients(whole, [x]) == [None]
    assert gradients(ax.cast(whole, "float32") * 2.0, [x]) == [None]


def test_stop_gradient_and_stop_gradients_make_constants(graph):
    a = constant(2.0)
    b = a * 3.0

    assert numbers(gradients(a + b, [a, b])) == [4.0, 1.0]
    assert numbers(gradients(a + b, [a, b], stop_gradients=[a, b])) == [1.0, 1.0]
    assert numbers(gradients(a + ax.stop_gradient(b), [a])) == [1.0]


def test_an_op_that_must_not_be_differentiated_says_so(graph):
    x = constant(2.0)

    with pytest.raises(LookupError, match="on purpose"):
        gradients(apply_op("PreventGradient", x, message="on purpose"), [x])


# Slices


def test_the_gradient_of_a_gather_is_slices(graph):
    table = constant(np.ones((4, 2), np.float32))
    rows = ax.gather(table, [3, 1, 3])

    (found,) = gradients(rows * 2.0, [table])

    assert isinstance(found, IndexedSlices)
    assert evaluate(found.indices).tolist() == [3, 1, 3]
    assert evaluate(found).tolist() == [[0, 0], [2, 2], [0, 0], [4, 4]]


def test_slices_that_meet_are_joined(graph):
    table = constant(np.ones((4, 2), np.float32))
    one = ax.gather(table, [3])
    other = ax.gather(table, constant([1, 3], "int64"))

    (found,) = gradients([one, other * 5.0], [table])

    assert isinstance(found, IndexedSlices)
    assert evaluate(found).tolist() == [[0, 0], [5, 5], [0, 0], [6, 6]]


def test_slices_that_meet_a_dense_gradient_become_dense(graph):
    table = constant(np.ones((3, 1), np.float32))

    (found,) = gradients([ax.gather(table, [2, 2]), table * 3.0], [table])

    assert not isinstance(found, IndexedSlices)
    assert evaluate(found).tolist() == [[3.0], [3.0], [5.0]]


def test_slices_become_dense_where_an_op_wants_a_tensor(graph):
    x = constant(np.ones((3, 1), np.float32))
    table = ax.exp(x)

    (found,) = gradients(ax.gather(table, [2]), [x])

    np.testing.assert_allclose(evaluate(found), [[0.0], [0.0], [np.e]], rtol=1e-6)


@KINDS
def test_slices_reach_a_variable_through_its_read(graph, use_resource):
    table = ax.Variable(np.ones((3, 2), np.float32), use_resource=use_resource)

    (found,) = gradients(ax.gather(table, [0, 2]), [table])

    assert isinstance(found, IndexedSlices)
    evaluator = Evaluator()
    evaluator.run(ax.global_variables_initializer())
    assert evaluator.run(found).tolist() == [[1, 1], [0, 0], [1, 1]]


def test_given_gradients_may_be_slices(graph):
    x = constant(np.ones((3, 1), np.float32))
    slices = IndexedSlices(constant([[4.0]]), constant([1]), constant([3, 1]))

    (found,) = gradients(apply_op("Identity", x), [x], grad_ys=[slices])

    assert found is slices


# How nodes are made


def test_nodes_lie_under_gradients_by_the_op_they_belong_to(graph):
    x, w = constant([[1.0]], name="x"), constant([[2.0]], name="w")
    y = ax.matmul(x, w, name="product")

    gradients(y * y, [w])
    (again,) = gradients(y, [w], name="more")

    names = [op.name for op in graph.get_operations()]
    assert "gradients/grad_ys_0" in names
    assert "gradients/AddN" in names
    assert any(name.startswith("gradients/product_grad/") for name in names)
    assert again.name.startswith("more/product_grad/")


def test_sums_are_one_node_or_a_tree(graph):
    x = constant(2.0)
    y = x + x + x + x + x

    for method in (None, AggregationMethod.ADD_N, AggregationMethod.EXPERIMENTAL_ACCUMULATE_N):
        (whole,) = gradients(y, [x], aggregation_method=method)
        assert (evaluate(whole), len(whole.op.inputs)) == (5.0, 5)
    (tree,) = gradients(y, [x], aggregation_method=AggregationMethod.EXPERIMENTAL_TREE)
    assert (evaluate(tree), len(tree.op.inputs)) == (5.0, 2)


def test_gated_gradients_wait_for_each_other(graph):
    x, y = constant(2.0), constant(3.0)

    dx, dy = gradients(x * y, [x, y], gate_gradients=True)

    assert dx.op.type == dy.op.type == "Identity"
    assert dx.op.control_inputs == dy.op.control_inputs
    assert numbers([dx, dy]) == [3.0, 2.0]


def test_gradients_can_be_put_where_their_ops_are(graph):
    x = constant(2.0)
    with graph.device("/cpu:1"):
        y = apply_op("Mul", x, x, name="y")

    gradients(y, [x], colocate_gradients_with_ops=True)

    nodes = [op for op in graph.get_operations() if op.name.startswith("gradients/y_grad/")]
    assert nodes
    assert all(op.device == y.op.device for op in nodes)


def test_the_graph_of_the_tensors_is_used_whatever_the_default_is(graph):
    x = constant(2.0)
    y = x * x
    with Graph().as_default() as other:
        (dx,) = gradients(y, [x])

    assert dx.graph is graph
    assert not other.get_operations()


# Errors


def test_arguments_that_do_not_fit_are_refused(graph):
    x = constant(2.0)
    y = x * x

    with pytest.raises(ValueError, match="expected 1 grad_ys"):
        gradients(y, [x], grad_ys=[None, None])
    with pytest.raises(TypeError, match="must be float32"):
        gradients(y, [x], grad_ys=[constant(1)])
    with pytest.raises(ValueError, match="aggregation_method"):
        gradients(y, [x], aggregation_method=7)
    with pytest.raises(ValueError, match="maybe"):
        gradients(y, [x], unconnected_gradients="maybe")
    with pytest.raises(TypeError, match="complex"):
        gradients(ax.cast(x, "complex64"), [x])


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        ([], ValueError, "expected 1 gradients, one for each input, got 0"),
        ([[1, 2]], TypeError, "expected float32, got int32"),
        ([[1.0, 2.0, 3.0]], ValueError, r"expected shape \(2,\), got \(3,\)"),
    ],
)
def test_a_rule_that_returns_nonsense_is_named(graph, result, error, message):
    x = constant([2.0, 3.0])
    y = ax.exp(x)
    row = replace(y.op.row, gradient=lambda op, dy: [constant(value) for value in result])
    y.op.row = row

    with pytest.raises(error, match=f"gradient of Exp 'Exp'.*{message}"):
        gradients(y, [x])
