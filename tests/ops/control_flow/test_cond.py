"""Conditionals: the nodes built for the two functions, and the branch that runs."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.control_flow import CondContext
from tests.execution.steps import stepping


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def pred(graph):
    return ax.placeholder(ax.bool, (), name="p")


async def both(graph: Any, pred: Any, *fetches: Any) -> list[list[Any]]:
    """The fetched values for a true and for a false predicate."""
    async with stepping(graph) as steps:
        return [
            [value.tolist() for value in await steps.run(fetches, {pred: each})] for each in (True, False)
        ]


def nodes(graph: Any) -> dict[str, tuple[str, list[str]]]:
    """The op and the inputs of each node, control inputs last."""
    return {
        op.name: (
            op.type,
            [t.name for t in op.inputs] + sorted(f"^{each.name}" for each in op.control_inputs),
        )
        for op in graph.get_operations()
    }


# Construction


def test_a_conditional_is_made_of_the_nodes_tensorflow_makes(graph, pred):
    x = ax.constant(1.0, name="x")

    result = ax.cond(pred, lambda: x + 1.0, lambda: x)

    assert result.name == "cond/Merge:0"
    assert nodes(graph) == {
        "p": ("Placeholder", []),
        "x": ("Const", []),
        "cond/Switch": ("Switch", ["p:0", "p:0"]),
        "cond/switch_t": ("Identity", ["cond/Switch:1"]),
        "cond/switch_f": ("Identity", ["cond/Switch:0"]),
        "cond/pred_id": ("Identity", ["p:0"]),
        "cond/add/y": ("Const", ["^cond/switch_t"]),
        "cond/add/Switch": ("Switch", ["x:0", "cond/pred_id:0"]),
        "cond/add": ("AddV2", ["cond/add/Switch:1", "cond/add/y:0"]),
        "cond/Switch_1": ("Switch", ["x:0", "cond/pred_id:0"]),
        "cond/Merge": ("Merge", ["cond/Switch_1:0", "cond/add:0"]),
    }


def test_a_switch_stands_beside_what_it_switches(graph, pred):
    with ax.device("/cpu:1"):
        x = ax.constant(1.0, name="x")

    with ax.device("/cpu:0"):
        ax.cond(pred, lambda: x + 1.0, lambda: x)

    switch = graph.get_operation_by_name("cond/add/Switch")
    assert switch.colocation_groups() == [b"loc:@x"]
    assert switch.device == x.device


def test_a_tensor_used_twice_in_a_branch_is_switched_once(graph, pred):
    x = ax.constant(1.0)

    ax.cond(pred, lambda: x * x + x, lambda: x)

    assert sum(op.type == "Switch" and op.inputs[0] is x for op in graph.get_operations()) == 2


def test_what_is_inside_may_be_neither_fetched_nor_fed(graph, pred):
    inside = []

    def branch() -> Any:
        inside.append(ax.constant(1.0) * 2.0)
        return inside[0]

    result = ax.cond(pred, branch, lambda: 3.0)

    assert not graph.is_fetchable(inside[0])
    assert not graph.is_feedable(inside[0])
    assert graph.is_fetchable(result)
    assert graph.is_feedable(result)


def test_the_outermost_conditionals_are_listed(graph, pred):
    ax.cond(pred, lambda: ax.cond(pred, lambda: 1, lambda: 2), lambda: 3)

    contexts = graph.get_collection(ax.GraphKeys.COND_CONTEXT)
    assert [context.branch for context in contexts] == [1, 0]
    assert all(isinstance(context, CondContext) and context.outer_context is None for context in contexts)
    assert contexts[0].pivot.name == "cond/switch_t:0"


def test_the_graph_is_left_outside_of_the_conditional_even_if_a_function_fails(graph, pred):
    def fail() -> None:
        raise KeyError("none of ours")

    with pytest.raises(KeyError):
        ax.cond(pred, fail, fail)

    assert graph._get_control_flow_context() is None


def test_a_node_with_cleared_dependencies_is_outside_of_the_conditional(graph, pred):
    made = []

    def branch() -> Any:
        with ax.control_dependencies(None):
            made.append(ax.constant(1))
        return made[0] + 1

    ax.cond(pred, branch, lambda: 0)

    assert made[0].op.control_inputs == []
    assert graph.is_fetchable(made[0])


# Execution


@pytest.mark.behaviour(69, 70)
async def test_the_function_whose_turn_it_is_gives_the_result(graph, pred):
    x = ax.constant(3)

    result = ax.cond(pred, lambda: x + 1, lambda: x * 10)

    assert await both(graph, pred, result) == [[4], [30]]


@pytest.mark.parametrize("use_resource", [True, False])
async def test_only_one_function_changes_its_variable(graph, pred, use_resource):
    variable = ax.Variable(1.0, use_resource=use_resource)
    result = ax.cond(pred, lambda: variable.assign_add(1.0), lambda: variable.assign(variable * 10.0))

    async with stepping(graph) as steps:
        await steps.run([variable.initializer])
        got = [(await steps.run([ax.identity(result)], {pred: each}))[0] for each in (True, False, True)]

    assert got == [2.0, 20.0, 21.0]


async def test_operations_are_run_for_their_effect(graph, pred):
    variable = ax.Variable(1.0, use_resource=True)
    result = ax.cond(pred, lambda: variable.assign(2.0).op, lambda: ax.no_op())

    async with stepping(graph) as steps:
        await steps.run([variable.initializer])
        await steps.run([result], {pred: False})
        assert await steps.run([variable.value()]) == [1.0]
        await steps.run([result], {pred: True})
        assert await steps.run([variable.value()]) == [2.0]


async def test_what_is_made_outside_runs_in_any_case(graph, pred):
    variable = ax.Variable(1.0, use_resource=True)
    update = variable.assign_add(1.0)
    with ax.control_dependencies([update.op]):
        result = ax.cond(pred, lambda: ax.constant(1), lambda: ax.constant(2))

    async with stepping(graph) as steps:
        await steps.run([variable.initializer])
        await steps.run([result], {pred: False})
        assert await steps.run([variable.value()]) == [2.0]


async def test_conditionals_nest(graph, pred):
    other = ax.placeholder(ax.bool, ())
    y, z = ax.constant(5), ax.constant(6)

    result = ax.cond(
        pred,
        lambda: ax.cond(other, lambda: y + 1, lambda: z),
        lambda: ax.cond(other, lambda: y + z, lambda: y),
    )

    async with stepping(graph) as steps:
        got = {
            (a, b): int((await steps.run([result], {pred: a, other: b}))[0])
            for a in (True, False)
            for b in (True, False)
        }
    assert got == {(True, True): 6, (True, False): 6, (False, True): 11, (False, False): 5}


async def test_a_branch_may_hold_a_loop(graph, pred):
    limit = ax.constant(5)

    result = ax.cond(pred, lambda: ax.while_loop(lambda i: i < limit, lambda i: i + 2, [0]), lambda: limit)

    assert await both(graph, pred, result) == [[6], [5]]


# Results

Pair = collections.namedtuple("Pair", "left right")


async def test_results_have_the_structure_the_functions_return(graph, pred):
    result = ax.cond(
        pred,
        lambda: {"b": (1, [2.0]), "a": Pair(3, 4)},
        lambda: {"b": (5, [6.0]), "a": Pair(7, 8)},
    )

    assert list(result) == ["b", "a"]
    assert isinstance(result["a"], Pair)
    left, right = result["a"]
    first, (second,) = result["b"]
    assert await both(graph, pred, left, right, first, second) == [[3, 4, 1, 2.0], [7, 8, 5, 6.0]]


def test_a_single_result_is_taken_out_of_its_list_unless_asked_not_to(graph, pred):
    loose = ax.cond(pred, lambda: [1], lambda: (2,))
    strict = ax.cond(pred, lambda: [1], lambda: [2], strict=True)

    assert isinstance(loose, ax.Tensor)
    assert isinstance(strict, list)
    assert isinstance(strict[0], ax.Tensor)


async def test_slices_come_out_as_slices(graph, pred):
    def slices(row: int) -> Any:
        return ax.IndexedSlices(ax.constant([[1.0 * row]]), ax.constant([row]))

    result = ax.cond(pred, lambda: slices(1), lambda: slices(2))

    assert isinstance(result, ax.IndexedSlices)
    assert await both(graph, pred, result.values, result.indices) == [[[[1.0]], [1]], [[[2.0]], [2]]]


async def test_sparse_tensors_come_out_as_sparse_tensors(graph, pred):
    one = ax.SparseTensor([[0, 1]], [1.0], [2, 2])
    two = ax.SparseTensor([[1, 0], [1, 1]], [2.0, 3.0], [2, 2])

    result = ax.cond(pred, lambda: one, lambda: two)

    assert isinstance(result, ax.SparseTensor)
    assert await both(graph, pred, result.indices, result.values) == [
        [[[0, 1]], [1.0]],
        [[[1, 0], [1, 1]], [2.0, 3.0]],
    ]


def test_a_result_knows_what_both_shapes_have_in_common(graph, pred):
    result = ax.cond(pred, lambda: ax.zeros([2, 3]), lambda: ax.zeros([2, 4]))

    assert result.shape.as_list() == [2, None]


async def test_a_predicate_may_be_computed_in_the_graph(graph):
    x = ax.placeholder(ax.float32, ())

    result = ax.cond(x > 0.0, lambda: ax.sqrt(x), lambda: ax.zeros_like(x))

    async with stepping(graph) as steps:
        assert [await steps.run([result], {x: value}) for value in (4.0, -1.0)] == [[2.0], [0.0]]


# Refused


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"true_fn": lambda: None, "false_fn": lambda: None},
            GraphValueError,
            "'true_fn' must have a return value",
        ),
        (
            {"true_fn": lambda: 1, "false_fn": lambda: None},
            GraphValueError,
            "'false_fn' must have a return value",
        ),
        ({"true_fn": lambda: [1, 2], "false_fn": lambda: (1, 2)}, GraphTypeError, "sequence type list"),
        ({"true_fn": lambda: [1, 2], "false_fn": lambda: [1]}, GraphValueError, "same nested structure"),
        (
            {"true_fn": lambda: [1, 2], "false_fn": lambda: [1, 2, 3]},
            GraphValueError,
            "same nested structure",
        ),
        (
            {"true_fn": lambda: {"a": 1, "b": 2}, "false_fn": lambda: {"a": 1, "c": 2}},
            GraphValueError,
            "same nested",
        ),
        ({"true_fn": lambda: 1, "false_fn": lambda: 1.0}, GraphValueError, "must have the same type"),
        ({"true_fn": list, "false_fn": list}, GraphValueError, "at least one result"),
        ({"true_fn": 1, "false_fn": lambda: 1}, GraphTypeError, "'true_fn' must be callable"),
        ({"true_fn": lambda: 1}, GraphTypeError, "'false_fn' argument required"),
        (
            {"true_fn": lambda: 1, "fn1": lambda: 1, "fn2": lambda: 1},
            GraphTypeError,
            "may not be set simultaneously",
        ),
    ],
)
def test_functions_that_do_not_fit_are_refused(graph, pred, arguments, error, text):
    with pytest.raises(error, match=text):
        ax.cond(pred, **arguments)


@pytest.mark.parametrize("wrong", [True, 1, "yes"])
def test_a_predicate_must_be_a_boolean_tensor(graph, wrong):
    with pytest.raises(GraphTypeError, match=r"'pred'|'data'|bool"):
        ax.cond(wrong, lambda: 1, lambda: 2)


def test_older_names_of_the_functions_are_understood(graph, pred):
    assert ax.cond(pred, fn1=lambda: np.float32(1), fn2=lambda: np.float32(2)).dtype == ax.float32
