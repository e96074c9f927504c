"""Variables of both kinds: their nodes, reads, updates, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import dtypes
from aioexec.errors import (
    FailedPreconditionError,
    GraphTypeError,
    GraphValueError,
    InvalidArgumentError,
)
from aioexec.graph.apply import apply_no_output_op
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state import assignments, scatter_updates, variable_ops
from aioexec.ops.state.initialization import (
    global_variables,
    global_variables_initializer,
    local_variables,
    trainable_variables,
)
from aioexec.ops.state.variable import (
    ReferenceVariable,
    ResourceVariable,
    Variable,
    disable_resource_variables,
    enable_resource_variables,
)
from tests.ops.evaluate import Evaluator

KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


def names(graph: Graph) -> list[tuple[str, str]]:
    return [(op.name, op.type) for op in graph.get_operations()]


def initialized(evaluator: Evaluator | None = None) -> Evaluator:
    evaluator = evaluator or Evaluator()
    evaluator.run(global_variables_initializer())
    return evaluator


def content(evaluator: Evaluator, variable: Any) -> Any:
    return evaluator.run(variable._as_graph_element())


# Nodes


def test_a_reference_variable_has_the_nodes_of_tensorflow(graph):
    Variable([1.0, 2.0], name="v", use_resource=False)

    assert names(graph) == [
        ("v/initial_value", "Const"),
        ("v", "VariableV2"),
        ("v/Assign", "Assign"),
        ("v/read", "Identity"),
    ]


def test_a_resource_variable_has_the_nodes_of_tensorflow(graph):
    variable = ResourceVariable([1.0, 2.0], name="v")

    assert names(graph) == [
        ("v/Initializer/initial_value", "Const"),
        ("v", "VarHandleOp"),
        ("v/IsInitialized/VarIsInitializedOp", "VarIsInitializedOp"),
        ("v/Assign", "AssignVariableOp"),
        ("v/Read/ReadVariableOp", "ReadVariableOp"),
    ]
    assert variable.handle.op.attrs["shared_name"] == "v"


@KINDS
def test_an_initial_value_from_a_function_lies_under_initializer(graph, use_resource):
    Variable(lambda: constant(1.0, name="one"), name="v", use_resource=use_resource)

    assert graph.get_operations()[0].name == "v/Initializer/one"


@KINDS
def test_names_are_put_under_scopes_and_made_unique(graph, use_resource):
    with graph.name_scope("layer"):
        first = Variable(0.0, name="v", use_resource=use_resource)
        second = Variable(0.0, name="v", use_resource=use_resource)
        third = Variable(0.0, use_resource=use_resource)

    assert [variable.name for variable in (first, second, third)] == [
        "layer/v:0",
        "layer/v_1:0",
        "layer/Variable:0",
    ]


@KINDS
def test_attributes_say_what_the_variable_is(graph, use_resource):
    def positive(value: Any) -> Any:
        return value

    variable = Variable([[1, 2]], name="v", dtype="int64", constraint=positive, use_resource=use_resource)

    assert variable.dtype.base_dtype == dtypes.int64
    assert variable.dtype.is_ref is not use_resource
    assert variable.shape.as_list() == [1, 2] == variable.get_shape().as_list()
    assert variable.graph is graph
    assert variable.op.name == "v"
    assert variable.initializer.name == "v/Assign"
    assert variable.initial_value is not None
    assert variable.initial_value.dtype == dtypes.int64
    assert variable.constraint is positive
    assert variable.trainable
    assert variable.device == ""


def test_the_kind_follows_what_is_said_first(graph):
    assert isinstance(Variable(0.0), ReferenceVariable)
    with ax.variable_scope("s", use_resource=True):
        assert isinstance(Variable(0.0), ResourceVariable)
        assert isinstance(Variable(0.0, use_resource=False), ReferenceVariable)
    enable_resource_variables()
    try:
        assert isinstance(Variable(0.0), ResourceVariable)
    finally:
        disable_resource_variables()
    assert isinstance(Variable(0.0), ReferenceVariable)


@KINDS
def test_collections_hold_the_variables(graph, use_resource):
    one = Variable(0.0, use_resource=use_resource)
    other = Variable(0.0, trainable=False, use_resource=use_resource)
    local = Variable(0.0, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], use_resource=use_resource)

    assert global_variables() == [one, other]
    assert trainable_variables() == [one]
    assert local_variables() == [local]
    assert global_variables("nothing") == []


def test_nodes_of_a_variable_do_not_wait_for_the_control_dependencies_around_it(graph):
    before = constant(0.0)
    with graph.control_dependencies([before.op]):
        for use_resource in (False, True):
            variable = Variable(lambda: constant(1.0) + 1.0, use_resource=use_resource)

            assert not variable.initializer.control_inputs
            assert variable.initial_value is not None
            assert not variable.initial_value.op.control_inputs


def test_a_finalized_graph_takes_no_variable(graph):
    graph.finalize()

    with pytest.raises(RuntimeError, match="finalized"):
        Variable(0.0)


# Content


@KINDS
def test_reading_before_initialisation_fails_by_name(graph, use_resource):
    variable = Variable(1.0, name="weights", use_resource=use_resource)

    with pytest.raises(FailedPreconditionError, match="uninitialized value weights"):
        Evaluator().run(variable.value())


@KINDS
def test_updates_change_the_content_and_stand_for_it(graph, use_resource):
    variable = Variable([1.0, 2.0], use_resource=use_resource)
    updates = [
        variable.assign_add([10.0, 10.0]),
        variable.assign_sub([1.0, 0.0]),
        variable.assign([7.0, 8.0]),
    ]
    evaluator = initialized()

    seen = [evaluator.run(graph.as_graph_element(update)).tolist() for update in updates]

    assert seen == [[11.0, 12.0], [10.0, 12.0], [7.0, 8.0]]
    assert content(evaluator, variable).tolist() == [7.0, 8.0]


@KINDS
def test_an_update_without_its_value_is_an_operation(graph, use_resource):
    variable = Variable([1.0], use_resource=use_resource)
    for update in (
        variable.assign([2.0], read_value=False),
        variable.assign_add([2.0], read_value=False),
        variable.assign_sub([2.0], read_value=False),
    ):
        assert isinstance(update, ax.Operation)


@KINDS
def test_scatters_change_the_rows_named(graph, use_resource):
    variable = Variable(np.zeros((3, 2), np.float32), use_resource=use_resource)
    slices = IndexedSlices(constant([[1.0, 2.0], [3.0, 4.0]]), constant([2, 0]))
    updates = [variable.scatter_update(slices), variable.scatter_add(slices), variable.scatter_sub(slices)]
    evaluator = initialized()

    seen = [evaluator.run(graph.as_graph_element(update)) for update in updates]

    base = np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]])
    for actual, expected in zip(seen, (base, 2 * base, base), strict=True):
        np.testing.assert_array_equal(actual, expected)


@KINDS
def test_the_functions_of_tensorflow_take_either_kind(graph, use_resource):
    variable = Variable([1.0, 2.0], use_resource=use_resource)
    updates = [
        assignments.assign(variable, [3.0, 3.0]),
        assignments.assign_add(variable, [1.0, 0.0]),
        assignments.assign_sub(variable, [0.0, 1.0]),
        scatter_updates.scatter_update(variable, [0], [9.0]),
        scatter_updates.scatter_add(variable, [0], [1.0]),
        scatter_updates.scatter_sub(variable, [1], [2.0]),
    ]
    evaluator = initialized()

    for update in updates:
        evaluator.run(graph.as_graph_element(update))

    assert content(evaluator, variable).tolist() == [10.0, 0.0]


def test_a_read_behind_an_update_sees_it(graph):
    variable = Variable(1.0, use_resource=True)
    with graph.control_dependencies([variable.assign(5.0).op]):
        after = variable.read_value()

    assert initialized().run(after) == 5.0


def test_what_an_update_returns_is_read_behind_it(graph):
    variable = Variable(1.0, use_resource=True)
    updated = variable.assign_add(1.0)
    doubled = updated * 2.0

    assert updated.op.type == "AssignAddVariableOp"
    assert initialized().run(doubled) == 4.0


@KINDS
def test_operators_work_on_the_content(graph, use_resource):
    variable = Variable([4.0, 9.0], use_resource=use_resource)
    results = [
        variable + 1.0, 1.0 - variable, variable * variable, variable / 2.0, -variable, abs(variable),
        variable[1], variable > 5.0, constant([1.0, 1.0]) + variable, variable**2.0, variable // 2.0, variable % 4.0,
    ]  # fmt: skip
    v = np.array([4.0, 9.0], np.float32)
    evaluator = initialized()

    for actual, expected in zip(
        evaluator.run(results),
        [v + 1, 1 - v, v * v, v / 2, -v, v, v[1], v > 5, 1 + v, v**2, v // 2, v % 4],
        strict=True,
    ):
        np.testing.assert_array_equal(actual, expected)


@KINDS
def test_a_variable_is_not_iterable_and_is_its_own_key(graph, use_resource):
    variable = Variable([1.0], name="v", use_resource=use_resource)

    with pytest.raises(TypeError, match="'v:0' is not iterable"):
        list(variable)
    assert {variable: 1}[variable] == 1
    assert "'v:0'" in repr(variable)


@KINDS
def test_a_variable_with_any_shape_takes_values_of_other_shapes(graph, use_resource):
    variable = Variable([1.0, 2.0], validate_shape=False, use_resource=use_resource)
    longer = (
        assignments.assign(variable, [1.0, 2.0, 3.0], validate_shape=False)
        if not use_resource
        else variable.assign([1.0, 2.0, 3.0])
    )
    evaluator = initialized()

    assert variable.shape.ndims is None
    assert evaluator.run(graph.as_graph_element(longer)).tolist() == [1.0, 2.0, 3.0]


def test_a_resource_variable_may_declare_a_wider_shape_than_that_of_its_initial_value(graph):
    variable = Variable(np.zeros((1, 2), np.float32), shape=[None, 2], use_resource=True)
    assigned = variable.assign(np.ones((3, 2), np.float32))

    assert variable.shape.as_list() == [None, 2]
    assert initialized().run(graph.as_graph_element(assigned)).shape == (3, 2)


def test_a_caching_device_holds_a_copy_that_reads_use(graph):
    resource = Variable(1.0, caching_device="/cpu:0", use_resource=True)
    reference = Variable(1.0, caching_device="/cpu:0", use_resource=False)

    assert resource.value() is resource.value()
    assert resource.value().op.type == "Identity"
    assert reference.value().op.device.endswith("CPU:0") or reference.value().op.device.endswith("cpu:0")


def test_sparse_reads_take_rows_alone(graph):
    variable = Variable([[1.0, 2.0], [3.0, 4.0]], name="v", use_resource=True)

    rows = ax.gather(variable, [1, 0, 1])

    assert rows.op.type == "ResourceGather"
    assert initialized().run(rows).tolist() == [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]


# Errors


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, GraphValueError),
        ({"initial_value": 1.0, "collections": "variables"}, GraphValueError),
        ({"initial_value": 1.0, "constraint": 3}, GraphValueError),
        ({"initial_value": 1.0, "variable_def": object()}, GraphTypeError),
        ({"initial_value": "text", "dtype": "float32"}, GraphTypeError),
    ],
)
def test_a_variable_is_refused(graph, arguments, error):
    for use_resource in (False, True):
        with pytest.raises(error):
            Variable(**arguments, use_resource=use_resource)


@KINDS
def test_an_initial_value_of_unknown_shape_is_refused_unless_any_shape_will_do(graph, use_resource):
    value = ax.placeholder("float32", [None])

    with pytest.raises(ValueError, match="must have a shape"):
        Variable(value, use_resource=use_resource)
    Variable(value, validate_shape=False, use_resource=use_resource)


@KINDS
def test_values_of_another_shape_are_refused_while_building_if_the_shape_is_known(graph, use_resource):
    variable = Variable([1.0, 2.0], use_resource=use_resource)

    for update in (variable.assign, variable.assign_add, variable.assign_sub):
        with pytest.raises(ValueError, match="shape"):
            update([1.0, 2.0, 3.0])


@KINDS
def test_values_of_another_shape_are_refused_while_running(graph, use_resource):
    variable = Variable([1.0, 2.0], use_resource=use_resource)
    value = ax.placeholder("float32")
    evaluator = initialized()

    for update in (variable.assign(value), variable.assign_add(value)):
        with pytest.raises(InvalidArgumentError, match="shape"):
            evaluator.run(update.op, {value: np.ones(3, np.float32)})
    assert content(evaluator, variable).tolist() == [1.0, 2.0]


@KINDS
def test_a_variable_is_not_wanted_as_another_dtype(graph, use_resource):
    variable = Variable([1.0], use_resource=use_resource)

    with pytest.raises(TypeError, match="int32"):
        ax.convert_to_tensor(variable, "int32")
    with pytest.raises(TypeError, match="text"):
        variable.assign(["text"])


def test_only_variables_can_be_updated(graph):
    with pytest.raises(TypeError, match="expected a variable"):
        assignments.assign(constant(1.0), 2.0)
    with pytest.raises(TypeError, match="expected IndexedSlices"):
        Variable([1.0]).scatter_add(constant([1.0]))
    with pytest.raises(TypeError, match="resource"):
        Variable([1.0], use_resource=True)._ref()


def test_several_states_change_together_or_not_at_all(graph):
    var, accum = (
        variable_ops.var_handle_op(dtypes.float32, [2], shared_name=name) for name in ("var", "accum")
    )
    grad = ax.placeholder("float32")
    step = apply_no_output_op("ResourceApplyMomentum", var, accum, 0.5, grad, 0.5)
    evaluator = Evaluator()
    evaluator.run([variable_ops.assign_variable_op(handle, [1.0, 1.0]) for handle in (var, accum)])

    with pytest.raises(InvalidArgumentError, match="do not have the same shape"):
        evaluator.run(step, {grad: np.ones(3, np.float32)})

    reads = [variable_ops.read_variable_op(handle, dtypes.float32) for handle in (var, accum)]
    assert [value.tolist() for value in evaluator.run(reads)] == [[1.0, 1.0], [1.0, 1.0]]
