"""Gradients through conditionals and loops, first and second order, against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.gradients.places import Places
from aioexec.graph.kernels.kernel import Role
from tests.gradients.numeric import POINTS, along, check_program, summed
from tests.gradients.programs import PROGRAMS, Program


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def x(graph):
    return ax.placeholder(ax.float64, [2], name="x")


@pytest.mark.parametrize("build", [pytest.param(build, id=build.__name__) for build in PROGRAMS])
async def test_gradients_are_what_differences_say(x: Any, build: Program):
    await check_program(build, x, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("build", [pytest.param(build, id=build.__name__) for build in PROGRAMS])
async def test_gradients_of_gradients_are_what_differences_say(x: Any, build: Program):
    await check_program(build, x, order=2)


@pytest.mark.slow
@pytest.mark.parametrize("build", [pytest.param(build, id=build.__name__) for build in PROGRAMS])
async def test_imported_programs_are_differentiated_alike(graph: Any, x: Any, build: Program):
    total = summed(build(ax, x))
    expected = along(total, x)
    graph_def = graph.as_graph_def()

    with ax.Graph().as_default():
        elements = ax.import_graph_def(graph_def, return_elements=[x.name, total.name], name="")
        assert elements is not None
        other_x, other = elements
        found = along(other, other_x)
        async with ax.Session() as session:
            values = [await session.run(found, {other_x: point}) for point in POINTS]

    async with ax.Session(graph=graph) as session:
        wanted = [await session.run(expected, {x: point}) for point in POINTS]
    np.testing.assert_allclose(values, wanted, rtol=1e-9)


# Variables


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
async def test_what_a_variable_adds_in_each_iteration_is_summed(graph: Any, use_resource: bool):
    v = ax.Variable(2.0, use_resource=use_resource)
    _, y = ax.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * v), [0, ax.constant(1.0)])
    (gradient,) = ax.gradients(y, [v])

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        assert await session.run([y, gradient]) == [8.0, 12.0]


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
async def test_rows_gathered_in_a_loop_give_slices_of_all_iterations(graph: Any, use_resource: bool):
    v = ax.Variable([1.0, 2.0, 3.0], use_resource=use_resource)
    _, y = ax.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a + ax.gather(v, [i, 0])), [0, ax.zeros([2])]
    )
    (gradient,) = ax.gradients(y, [v])

    assert isinstance(gradient, ax.IndexedSlices)
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        assert (await session.run(ax.convert_to_tensor(gradient))).tolist() == [4.0, 1.0, 1.0]


async def test_a_variable_of_the_branch_not_taken_has_gradient_zero(graph: Any):
    v, pred = ax.Variable([1.0, 2.0], use_resource=True), ax.placeholder(ax.bool, [])
    y = ax.cond(pred, lambda: v * 3.0, lambda: ax.constant([5.0, 5.0]))
    (gradient,) = ax.gradients(y, [v])

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        assert (await session.run(gradient, {pred: True})).tolist() == [3.0, 3.0]
        assert (await session.run(gradient, {pred: False})).tolist() == [0.0, 0.0]


# Nodes added to a graph


def test_a_loop_with_a_counter_gets_no_other(x: Any):
    _, y = ax.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a + x), [0, x])
    before = _enters(x.graph)

    ax.gradients(y, [x])

    assert len(_enters(x.graph, of_name="while/while_context")) == len(before)


def test_values_that_do_not_change_are_not_saved(x: Any):
    _, y = ax.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * ax.sin(x)), [0, x])

    ax.gradients(y, [x])

    lists = [op for op in x.graph.get_operations() if op.type == "TensorListPushBack"]
    assert {op.inputs[1].op.type for op in lists} == {"Sin", "Merge"}  # and not x


def test_gradient_nodes_lie_under_the_name_of_the_call(x: Any):
    y = ax.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * x), [0, x])[1]
    count = x.graph.version

    ax.gradients(y, [x], name="back")

    assert all(op.name.startswith("back/") for op in x.graph.get_operations()[count:])


def test_the_places_of_a_graph_follow_from_its_edges(x: Any):
    inside = []

    def body(i: Any, a: Any) -> Any:
        def noted() -> Any:
            inside.append(ax.sin(a))
            return inside[0]

        return i + 1, ax.cond(i > 1, noted, lambda: a)

    y = ax.while_loop(lambda i, a: i < 4, body, [0, x])[1]
    places = Places(x.graph)

    place = places.behind(inside[0])
    assert place.frame.name == "while/while_context"
    assert [side for _, side in place.guards] == [1]
    assert places.behind(y).frame is places.root


# Errors


def test_a_tensor_of_a_loop_has_no_gradient_outside(x: Any):
    inside = []

    def body(i: Any, a: Any) -> Any:
        inside.append(a * x)
        return i + 1, inside[0]

    y = ax.while_loop(lambda i, a: i < 4, body, [0, x])[1]

    with pytest.raises(GraphValueError, match="is in the while loop 'while/while_context'"):
        ax.gradients(y, inside)


def test_inside_of_a_loop_there_is_no_gradient_by_first_values(x: Any):
    y = x * 2.0

    def body(i: Any, a: Any) -> Any:
        return i + 1, ax.gradients(a * a, [y])[0]

    with pytest.raises(GraphValueError, match="Cannot compute gradient inside while loop with respect to op"):
        ax.while_loop(lambda i, a: i < 4, body, [0, y])


def test_a_loop_that_is_not_to_be_differentiated_gives_none(x: Any):
    y = ax.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * x), [0, x], back_prop=False)[1]

    assert ax.gradients(y, [x]) == [None]


def test_an_op_in_a_loop_without_a_gradient_is_named(x: Any):
    y = ax.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, _prevented(a)), [0, x])[1]

    with pytest.raises(LookupError, match="while/PreventGradient"):
        ax.gradients(y, [x])


def _prevented(tensor: Any) -> Any:
    op = tensor.graph.create_op("PreventGradient", [tensor], attrs={"message": "not here"})
    return op.outputs[0]


def _enters(graph: Any, of_name: str | None = None) -> list[Any]:
    return [
        op
        for op in graph.get_operations()
        if op.row.role is Role.ENTER
        and not op.attrs["is_constant"]
        and of_name in (None, op.attrs["frame_name"])
    ]
