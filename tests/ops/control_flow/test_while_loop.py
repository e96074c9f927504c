"""Loops: the nodes built for condition and body, and results."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.control_flow import WhileContext
from aioexec.graph.kernels.kernel import Role
from tests.execution.steps import stepping


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def run(graph: Any, fetches: Any, feeds: Any = None) -> list[Any]:
    async with stepping(graph) as steps:
        for variable in graph.get_collection(ax.GraphKeys.GLOBAL_VARIABLES):
            await steps.run([variable.initializer])
        return await steps.run(fetches, feeds)


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


def test_a_loop_is_made_of_the_nodes_tensorflow_makes(graph):
    limit = ax.constant(10, name="limit")

    result = ax.while_loop(lambda i: i < limit, lambda i: i + 1, [0])

    assert result.name == "while/Exit:0"
    assert nodes(graph) == {
        "limit": ("Const", []),
        "while/Const": ("Const", []),
        "while/Enter": ("Enter", ["while/Const:0"]),
        "while/Merge": ("Merge", ["while/Enter:0", "while/NextIteration:0"]),
        "while/Less/Enter": ("Enter", ["limit:0"]),
        "while/Less": ("Less", ["while/Merge:0", "while/Less/Enter:0"]),
        "while/LoopCond": ("LoopCond", ["while/Less:0"]),
        "while/Switch": ("Switch", ["while/Merge:0", "while/LoopCond:0"]),
        "while/Identity": ("Identity", ["while/Switch:1"]),
        "while/add/y": ("Const", ["^while/Identity"]),
        "while/add": ("AddV2", ["while/Identity:0", "while/add/y:0"]),
        "while/NextIteration": ("NextIteration", ["while/add:0"]),
        "while/Exit": ("Exit", ["while/Switch:0"]),
    }


def test_loop_variables_and_what_is_brought_in_enter_one_frame(graph):
    limit = ax.constant(10)

    ax.while_loop(lambda i: i < limit, lambda i: i + 1, [0], parallel_iterations=3)

    enters = [op for op in graph.get_operations() if op.type == "Enter"]
    assert {op.get_attr("frame_name") for op in enters} == {b"while/while_context"}
    assert {op.get_attr("parallel_iterations") for op in enters} == {3}
    assert [op.get_attr("is_constant") for op in enters] == [False, True]


def test_a_node_that_needs_nothing_of_the_iteration_waits_for_it(graph):
    limit = ax.constant(10.0)
    made = []

    def body(i: Any) -> Any:
        made.extend([ax.negative(limit), ax.constant(1.0)])
        return i + made[0] + made[1]

    ax.while_loop(lambda i: i < limit, body, [0.0])

    assert [[op.name for op in tensor.op.control_inputs] for tensor in made] == [["while/Identity"]] * 2


def test_dependencies_from_outside_lead_into_the_loop_as_values(graph):
    first, inner = ax.constant(7, name="first"), ax.constant(8, name="inner")
    made = []

    def body(i: Any) -> Any:
        with ax.control_dependencies([inner]):
            made.append(ax.constant(1))
        return i + made[0]

    with ax.control_dependencies([first]):
        ax.while_loop(lambda i: i < 3, body, [ax.constant(0)])

    waited_for = made[0].op.control_inputs
    assert all(op.type == "Identity" for op in waited_for)
    sources = {op.inputs[0].op.inputs[0].name for op in waited_for if op.inputs[0].op.type == "Enter"}
    assert sources == {"first:0", "inner:0"}


def test_the_first_values_wait_for_dependencies_from_outside(graph):
    zero = ax.constant(0)
    waited_for = ax.no_op()

    with ax.control_dependencies([waited_for]):
        ax.while_loop(lambda i: i < 3, lambda i: i + 1, [zero])

    assert graph.get_operation_by_name("while/Enter").control_inputs == [waited_for]


def test_results_may_be_fetched_but_what_is_inside_may_not(graph):
    inside = []

    def body(i: Any) -> Any:
        inside.append(i + 1)
        return inside[0]

    result = ax.while_loop(lambda i: i < 3, body, [0])

    assert graph.is_fetchable(result)
    assert not graph.is_fetchable(inside[0])
    assert not graph.is_feedable(inside[0])


def test_the_outermost_loops_are_listed(graph):
    ax.while_loop(
        lambda i: i < 3, lambda i: ax.while_loop(lambda j: j < i, lambda j: j + 1, [i]), [0], back_prop=False
    )

    (context,) = graph.get_collection(ax.GraphKeys.WHILE_CONTEXT)
    assert isinstance(context, WhileContext)
    assert (context.name, context.parallel_iterations, context.back_prop) == (
        "while/while_context",
        10,
        False,
    )
    assert [tensor.name for tensor in context.loop_exits] == ["while/Exit:0"]
    assert context.pivot is graph.get_tensor_by_name("while/LoopCond:0")


def test_what_is_inside_may_not_be_used_outside(graph):
    inside = []

    def body(i: Any) -> Any:
        inside.append(i * 2)
        return i + 1

    ax.while_loop(lambda i: i < 3, body, [0])

    with pytest.raises(
        GraphValueError, match="'while/mul' as input to 'add' because 'while/mul' is in a while loop"
    ):
        inside[0] + 1


def test_what_is_inside_may_not_be_used_in_another_loop(graph):
    inside = []

    def body(i: Any) -> Any:
        inside.append(i * 2)
        return i + 1

    ax.while_loop(lambda i: i < 3, body, [0])

    with pytest.raises(GraphValueError, match="because they are in different while loops"):
        ax.while_loop(lambda i: i < 3, lambda i: i + inside[0], [0])


# Execution


@pytest.mark.behaviour(71, 72)
@pytest.mark.parametrize("parallel_iterations", [1, 2, 10])
async def test_the_body_is_repeated_while_the_condition_holds(graph, parallel_iterations):
    limit, factor = ax.constant(10), ax.constant(2.0)

    result = ax.while_loop(
        lambda i, x: i < limit,
        lambda i, x: (i + 1, x * factor),
        [0, ax.constant(1.0)],
        parallel_iterations=parallel_iterations,
    )

    assert await run(graph, list(result)) == [10, 1024.0]


async def test_a_loop_whose_condition_never_holds_gives_its_first_values(graph):
    result = ax.while_loop(lambda i: i < 0, lambda i: i + 1, [5])

    assert await run(graph, [result]) == [5]


async def test_the_number_of_rounds_may_be_fed(graph):
    limit = ax.placeholder(ax.int32, ())
    _, result = ax.while_loop(lambda i, x: i < limit, lambda i, x: (i + 1, x + i), [0, 0])

    async with stepping(graph) as steps:
        got = [int((await steps.run([result], {limit: n}))[0]) for n in (0, 1, 5, 100)]

    assert got == [0, 0, 10, 4950]


@pytest.mark.behaviour(71, 72)
async def test_loops_nest_and_see_what_is_outside_of_all(graph):
    n = ax.constant(4)

    def body(i: Any, total: Any) -> Any:
        _, row = ax.while_loop(lambda j, s: j < n, lambda j, s: (j + 1, s + i * j), [0, 0])
        return i + 1, total + row

    _, total = ax.while_loop(lambda i, total: i < n, body, [0, 0])

    assert await run(graph, [total]) == [sum(i * j for i in range(4) for j in range(4))]


async def test_a_body_may_choose(graph):
    def body(i: Any, x: Any) -> Any:
        return i + 1, ax.cond(ax.equal(i % 2, 0), lambda: x + i, lambda: x * 2)

    _, result = ax.while_loop(lambda i, x: i < 7, body, [0, 1])

    expected = 1
    for i in range(7):
        expected = expected + i if i % 2 == 0 else expected * 2
    assert await run(graph, [result]) == [expected]


async def test_a_loop_in_a_branch_of_a_loop_runs_only_when_taken(graph):
    def body(i: Any, x: Any) -> Any:
        def inner() -> Any:
            return ax.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y + j * i), [0, x])[1]

        return i + 1, ax.cond(i > 2, inner, lambda: x - 1)

    _, result = ax.while_loop(lambda i, x: i < 7, body, [0, 1])

    expected = 1
    for i in range(7):
        expected = expected + sum(j * i for j in range(i)) if i > 2 else expected - 1
    assert await run(graph, [result]) == [expected]


@pytest.mark.parametrize("use_resource", [True, False])
async def test_a_body_changes_a_variable_in_each_round(graph, use_resource):
    variable = ax.Variable(1.0, use_resource=use_resource)

    def body(i: Any) -> Any:
        update = variable.assign_add(2.0)
        with ax.control_dependencies([update.op]):
            return ax.identity(i) + 1

    result = ax.while_loop(lambda i: i < 5, body, [0])

    async with stepping(graph) as steps:
        await steps.run([variable.initializer])
        assert await steps.run([result]) == [5]
        assert await steps.run([variable.value()]) == [11.0]


async def test_a_variable_may_grow_if_its_invariant_says_so(graph):
    _, result = ax.while_loop(
        lambda i, x: i < 4,
        lambda i, x: (i + 1, ax.concat([x, x], 0)),
        [0, ax.ones([1])],
        shape_invariants=[ax.TensorShape([]), ax.TensorShape([None])],
    )

    assert result.shape.as_list() == [None]
    (value,) = await run(graph, [result])
    np.testing.assert_array_equal(value, np.ones(16, np.float32))


@pytest.mark.behaviour(75)
async def test_an_error_in_a_round_ends_the_step(graph):
    def body(i: Any) -> Any:
        with ax.control_dependencies([ax.Assert(i < 3, ["too far", i])]):
            return i + 1

    result = ax.while_loop(lambda i: i < 10, body, [0])

    with pytest.raises(InvalidArgumentError, match=r"assertion failed: \[too far\] \[3\]"):
        await run(graph, [result])


# Bounds


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (2, 2), (5, 3)])
async def test_there_are_at_most_so_many_rounds(graph, limit, expected):
    result = ax.while_loop(lambda i: i < 3, lambda i: i + 1, [0], maximum_iterations=limit)

    assert await run(graph, [result]) == [expected]


async def test_a_bounded_loop_keeps_several_variables_apart(graph):
    result = ax.while_loop(
        lambda i, x: i < 3,
        lambda i, x: [i + 1, x * 2],
        (0, 1),
        maximum_iterations=ax.constant(2),
        shape_invariants=(ax.TensorShape(()), ax.TensorShape(())),
    )

    assert await run(graph, list(result)) == [2, 4]


def test_a_bound_is_a_scalar(graph):
    with pytest.raises(GraphValueError, match="'maximum_iterations' must be a scalar"):
        ax.while_loop(lambda i: i < 3, lambda i: i + 1, [0], maximum_iterations=[1, 2])


# Structures

Pair = collections.namedtuple("Pair", "left right")


async def test_loop_variables_may_be_nested(graph):
    result = ax.while_loop(
        lambda i, rest: i < 3,
        lambda i, rest: (i + 1, Pair(rest.right, {"a": rest.left["a"] + i})),
        (ax.constant(0), Pair({"a": ax.constant(1)}, {"a": ax.constant(10)})),
    )

    _, pair = result
    assert isinstance(pair, Pair)
    assert await run(graph, [pair.left["a"], pair.right["a"]]) == [11, 3]


def test_a_single_result_is_taken_out_of_its_list_unless_asked_not_to(graph):
    loose = ax.while_loop(lambda i: i < 3, lambda i: [i + 1], [0])
    strict = ax.while_loop(lambda i: i < 3, lambda i: [i + 1], [0], return_same_structure=True)

    assert isinstance(loose, ax.Tensor)
    assert isinstance(strict, list)


async def test_slices_may_go_round(graph):
    start = ax.IndexedSlices(ax.constant([1.0]), ax.constant([4]))

    result = ax.while_loop(
        lambda i, s: i < 3,
        lambda i, s: (i + 1, ax.IndexedSlices(s.values * 2.0, s.indices + 1)),
        [0, start],
    )

    values, indices = await run(graph, [result[1].values, result[1].indices])
    assert (values.tolist(), indices.tolist()) == ([8.0], [7])


# Refused


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"loop_vars": []}, GraphValueError, "'loop_vars' must be provided"),
        ({"cond": 1}, GraphTypeError, "'cond' must be callable"),
        ({"body": 1}, GraphTypeError, "'body' must be callable"),
        ({"parallel_iterations": 0}, GraphTypeError, "'parallel_iterations' must be a positive integer"),
        ({"body": lambda i: (i, i)}, GraphValueError, "same nested structure"),
        ({"body": lambda i: ax.cast(i, ax.float32)}, GraphTypeError, "must be int32, got float32"),
        ({"body": lambda i: ax.stack([i, i])}, GraphValueError, "but has shape .2,. after one iteration"),
        ({"cond": lambda i: i}, GraphTypeError, "must be bool|requested dtype bool"),
        ({"shape_invariants": [ax.TensorShape([3])]}, GraphValueError, "shape invariant specified for"),
        ({"shape_invariants": [3]}, GraphValueError, "list of TensorShapes"),
        ({"shape_invariants": [ax.TensorShape([])] * 2}, GraphValueError, "same nested structure"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(graph, arguments, error, text):
    wanted = {"cond": lambda i: i < 3, "body": lambda i: i + 1, "loop_vars": [0], **arguments}

    with pytest.raises(error, match=text):
        ax.while_loop(**wanted)

    assert graph._get_control_flow_context() is None


def test_every_merge_of_a_loop_has_its_back_edge(graph):
    ax.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x), [0, 1])

    merges = [op for op in graph.get_operations() if op.row.role is Role.MERGE]
    assert len(merges) == 2
    assert all(op.inputs[1].op.row.role is Role.NEXT_ITERATION for op in merges)
