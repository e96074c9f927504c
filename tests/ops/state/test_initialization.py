"""Initialisation of variables, sharing by name and container, and destruction."""

from __future__ import annotations

from typing import Any

import pytest

from aioexec import dtypes
from aioexec.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state import assignments, scatter_updates, variable_ops
from aioexec.ops.state.initialization import (
    assert_variables_initialized,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
    variables_initializer,
)
from aioexec.ops.state.variable import ResourceVariable, Variable
from aioexec.sessions.session import Session
from tests.ops.evaluate import Evaluator

KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


def content(evaluator: Evaluator, variable: Any) -> Any:
    return evaluator.run(variable._as_graph_element())


# Initialisation


@KINDS
async def test_initial_values_that_depend_on_variables_do_not_depend_on_the_order(graph, use_resource):
    first = Variable([1.0, 2.0], name="first", use_resource=use_resource)
    second = Variable(first * 2.0 + 1.0, name="second", use_resource=use_resource)
    third = Variable(lambda: second.initialized_value() + first, name="third", use_resource=use_resource)

    async with Session() as session:
        await session.run(third.initializer)

        assert (await session.run(third)).tolist() == [4.0, 7.0]
        with pytest.raises(FailedPreconditionError):
            await session.run(first)


@KINDS
async def test_a_variable_of_a_variable_begins_with_its_present_content(graph, use_resource):
    first = Variable([1.0, 2.0], use_resource=use_resource)
    second = Variable(first, use_resource=use_resource)
    third = Variable(second * 2.0, use_resource=use_resource)

    async with Session() as session:
        await session.run(first.initializer)
        await session.run(first.assign([5.0, 6.0]))
        await session.run(
            third.initializer
        )  # of `second`, which is not initialised, the initial value counts

        assert (await session.run(third)).tolist() == [10.0, 12.0]


def test_an_initial_value_is_left_alone_where_it_reads_no_variable(graph):
    value = constant(1.0) + 1.0
    variable = Variable(value)

    assert variable.initializer.inputs[1] is value


@KINDS
def test_reports_name_what_is_not_initialised(graph, use_resource):
    one = Variable(1.0, name="one", use_resource=use_resource)
    Variable(1.0, name="other", collections=[GraphKeys.LOCAL_VARIABLES], use_resource=use_resource)
    missing = report_uninitialized_variables()
    is_initialized = assignments.is_variable_initialized(one)
    check = assert_variables_initialized([one])
    local = local_variables_initializer()
    evaluator = Evaluator()

    assert evaluator.run(missing).tolist() == [b"one", b"other"]
    assert not evaluator.run(is_initialized)
    with pytest.raises(FailedPreconditionError):
        evaluator.run(check)
    evaluator.run(variables_initializer([one]))
    assert evaluator.run(missing).tolist() == [b"other"]
    assert evaluator.run(is_initialized)
    evaluator.run([check, local])
    assert evaluator.run(missing).tolist() == []


def test_nothing_to_initialise_is_a_node_that_does_nothing(graph):
    assert variables_initializer([]).type == "NoOp"
    assert assert_variables_initialized([]) is None
    assert report_uninitialized_variables([]).shape.as_list() == [0]


# State


def test_a_shared_name_shares_the_content(graph):
    one, other = (
        variable_ops.var_handle_op(dtypes.float32, [2], shared_name="shared", name=name)
        for name in ("a", "b")
    )
    assign = variable_ops.assign_variable_op(one, [1.0, 2.0])
    evaluator = Evaluator()

    evaluator.run(assign)

    assert evaluator.run(variable_ops.read_variable_op(other, dtypes.float32)).tolist() == [1.0, 2.0]


def test_a_shared_name_with_another_dtype_or_shape_is_refused(graph):
    first = variable_ops.var_handle_op(dtypes.float32, [2], shared_name="shared")
    evaluator = Evaluator()
    evaluator.run(first)
    for dtype, dims in ((dtypes.int32, [2]), (dtypes.float32, [3])):
        other = variable_ops.var_handle_op(dtype, dims, shared_name="shared")

        with pytest.raises(InvalidArgumentError, match="'shared' is shared with another node"):
            evaluator.run(other)


def test_containers_keep_variables_apart(graph):
    with graph.container("mine"):
        one = variable_ops.var_handle_op(dtypes.float32, [], shared_name="v")
    other = variable_ops.var_handle_op(dtypes.float32, [], shared_name="v")
    evaluator = Evaluator()

    evaluator.run([variable_ops.assign_variable_op(one, 1.0), variable_ops.assign_variable_op(other, 2.0)])

    assert one.op.attrs["container"] == "mine"
    assert evaluator.run(variable_ops.read_variable_op(one, dtypes.float32)) == 1.0
    evaluator.resources.cleanup("mine")
    assert evaluator.run(variable_ops.read_variable_op(other, dtypes.float32)) == 2.0


def test_a_destroyed_variable_has_no_content(graph):
    variable = ResourceVariable(1.0)
    destroy = variable_ops.destroy_resource_op(variable.handle)
    strict = variable_ops.destroy_resource_op(variable.handle, ignore_lookup_error=False)
    evaluator = Evaluator()
    evaluator.run(global_variables_initializer())

    evaluator.run([destroy])
    evaluator.run([destroy])

    with pytest.raises(FailedPreconditionError):
        content(evaluator, variable)
    with pytest.raises(NotFoundError):
        evaluator.run(strict)
    evaluator.run(global_variables_initializer())
    assert content(evaluator, variable) == 1.0


def test_the_first_version_of_the_node_knows_no_scalar(graph):
    assert variable_ops.variable_op([], dtypes.float32, set_shape=False).shape.ndims is None
    assert variable_ops.variable_op([], dtypes.float32).shape.as_list() == []
    assert variable_ops.variable_op_v2([], dtypes.float32).shape.as_list() == []
    assert variable_ops.variable_op_v2(None, dtypes.float32).shape.ndims is None


def test_shapes_of_reads_and_rows_follow_from_the_handle(graph):
    handle = variable_ops.var_handle_op(dtypes.float32, [None, 3])
    passed_on = apply_op("Identity", handle)

    assert variable_ops.read_variable_op(passed_on, dtypes.float32).shape.as_list() == [None, 3]
    assert scatter_updates.resource_gather(handle, [[1, 2]], dtypes.float32).shape.as_list() == [1, 2, 3]
    assert variable_ops.variable_shape(handle).shape.as_list() == [2]
