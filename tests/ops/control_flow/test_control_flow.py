"""The control-flow ops: their wrappers, and the propagation of values through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_op
from aioexec.ops.control_flow import primitives
from tests.execution.steps import stepping


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def pred(graph):
    return ax.placeholder(ax.bool, (), name="pred")


async def run(graph: Any, fetches: Any, feeds: Any = None, processors: int = 1) -> list[Any]:
    async with stepping(graph, CPU=processors) as steps:
        for variable in graph.get_collection(ax.GraphKeys.GLOBAL_VARIABLES):
            await steps.run([variable.initializer])
        return await steps.run(fetches, feeds)


# Shapes


def test_both_outputs_of_a_switch_have_the_shape_of_its_data(pred):
    for output in primitives.switch(ax.zeros([2, 3]), pred):
        assert output.shape == (2, 3)


def test_a_switch_takes_one_predicate(graph):
    with pytest.raises(GraphValueError, match="rank 0"):
        primitives.switch(1, [True, False])


def test_a_merge_knows_what_its_inputs_agree_on(graph):
    value, index = primitives.merge([ax.zeros([2, 3]), ax.zeros([2, 4])])

    assert value.shape.as_list() == [2, None]
    assert index.dtype == ax.int32
    assert index.shape.as_list() == []


def test_a_merge_of_different_ranks_has_no_known_shape(graph):
    value, _ = primitives.merge([ax.zeros([2]), ax.zeros([2, 4])])

    assert value.shape.rank is None


def test_only_what_is_the_same_in_each_iteration_enters_a_frame_with_its_shape(graph):
    constant, variable = (primitives.enter(ax.zeros([2]), "f", is_constant=flag) for flag in (True, False))

    assert constant.shape == (2,)
    assert variable.shape.rank is None
    assert constant.op.get_attr("parallel_iterations") == 10


def test_a_merge_of_nothing_is_refused(graph):
    with pytest.raises(GraphValueError, match="merge inputs is None"):
        primitives.merge([ax.constant(1), None])


# References and slices


def test_references_go_through_the_ops_for_references(graph, pred):
    reference = ax.Variable(1.0, use_resource=False)._ref()

    switched = primitives.switch(reference, pred)
    ends = [
        *switched,
        primitives.merge(switched)[0],
        primitives.enter(reference, "f"),
        primitives.next_iteration(reference),
        primitives.exit(reference),
    ]

    assert [end.op.type for end in ends] == [
        "RefSwitch",
        "RefSwitch",
        "RefMerge",
        "RefEnter",
        "RefNextIteration",
        "RefExit",
    ]
    assert all(end.dtype.is_ref for end in ends)


def test_functions_for_references_refuse_values(graph, pred):
    with pytest.raises(GraphTypeError, match="must be a variable"):
        primitives.ref_switch(ax.constant(1.0), pred)


async def test_slices_are_switched_and_merged_by_their_parts(graph, pred):
    slices = ax.IndexedSlices(ax.constant([[1.0]]), ax.constant([3]), ax.constant([5, 1]))

    merged, index = primitives.merge(primitives.switch(slices, pred))

    fetches = [merged.values, merged.indices, merged.dense_shape, index]
    values, indices, shape, taken = await run(graph, fetches, {pred: True})
    assert (values.tolist(), indices.tolist(), shape.tolist(), taken) == ([[1.0]], [3], [5, 1], 1)


async def test_a_reference_is_selected_by_its_index(graph):
    variables = [ax.Variable(value, use_resource=False) for value in (1.0, 2.0)]
    index = ax.placeholder(ax.int32, ())

    chosen = primitives.ref_select(index, variables)
    changed = ax.identity(ax.assign_add(chosen, 10.0))

    assert await run(graph, [changed], {index: 1}) == [12.0]
    with pytest.raises(InvalidArgumentError, match=r"range \[0, 2\) but got 2"):
        await run(graph, [changed], {index: 2})


# Dead and alive


@pytest.mark.behaviour(68)
@pytest.mark.parametrize("value", [False, True])
async def test_one_output_of_a_switch_is_dead_on_whatever_device_it_arrives(graph, pred, value):
    with ax.device("/cpu:0"):
        if_false, if_true = primitives.switch(ax.constant(5), pred)
    with ax.device("/cpu:1"):
        merged, index = primitives.merge([if_false + 1, if_true + 2])

    assert await run(graph, [merged, index], {pred: value}, processors=2) == [7 if value else 6, int(value)]


@pytest.mark.behaviour(68)
async def test_what_is_dead_cannot_be_fetched(graph, pred):
    if_false, if_true = primitives.switch(ax.constant(5), pred)

    assert await run(graph, [if_false], {pred: False}) == [5]
    with pytest.raises(InvalidArgumentError, match="does not have value"):
        await run(graph, [if_true], {pred: False})


@pytest.mark.behaviour(69)
async def test_one_dead_input_is_enough_to_make_a_node_dead(graph, pred):
    if_false, if_true = primitives.switch(ax.constant(5), pred)
    mixed = if_true + ax.constant(1)
    with ax.control_dependencies([ax.identity(if_true)]):
        after = ax.constant(2)

    by_data, index_by_data = primitives.merge([mixed, if_false])
    by_control, index_by_control = primitives.merge([after, if_false])

    fetches = [by_data, index_by_data, by_control, index_by_control]
    assert await run(graph, fetches, {pred: True}) == [6, 0, 2, 0]
    assert await run(graph, fetches, {pred: False}) == [5, 1, 5, 1]


@pytest.mark.behaviour(69)
async def test_a_dead_node_does_not_run(graph, pred):
    variable = ax.Variable(1.0, use_resource=True)
    _, if_true = primitives.switch(ax.constant(5.0), pred)
    update = variable.assign_add(if_true).op

    async with stepping(graph) as steps:
        await steps.run([variable.initializer])
        await steps.run([update], {pred: False})
        assert await steps.run([variable.value()]) == [1.0]
        await steps.run([update], {pred: True})
        assert await steps.run([variable.value()]) == [6.0]


@pytest.mark.behaviour(70)
async def test_a_merge_is_dead_only_when_all_its_inputs_are(graph, pred):
    if_false, if_true = primitives.switch(ax.constant(5), pred)
    dead_or_alive, _ = primitives.merge([if_true, if_true + 1])

    value, index = primitives.merge([dead_or_alive, if_false * 10])

    assert await run(graph, [value, index], {pred: False}) == [50, 1]
    assert (await run(graph, [index], {pred: True})) == [0]


@pytest.mark.behaviour(70)
async def test_a_dead_control_input_does_not_kill_a_merge(graph, pred):
    _, if_true = primitives.switch(ax.constant(5), pred)
    one, dead = ax.constant(1), ax.identity(if_true)
    with ax.control_dependencies([dead]):
        value, index = primitives.merge([one])

    assert value.op.control_inputs == [dead.op]
    assert await run(graph, [index], {pred: False}) == [0]


@pytest.mark.behaviour(69)
async def test_a_control_edge_from_a_switch_is_alive_whichever_way_it_goes(graph, pred):
    _, if_true = primitives.switch(ax.constant(5), pred)
    with ax.control_dependencies([if_true]):
        after = ax.constant(2)

    assert await run(graph, [after], {pred: False}) == [2]


async def test_a_control_trigger_runs_even_if_what_it_waits_for_is_dead(graph, pred):
    _, if_true = primitives.switch(ax.constant(5), pred)
    with ax.control_dependencies([ax.identity(if_true)]):
        trigger = primitives.control_trigger()
    with ax.control_dependencies([trigger]):
        after = ax.constant(3)

    assert await run(graph, [after], {pred: False}) == [3]


# A loop by hand


@pytest.mark.behaviour(72)
async def test_a_loop_can_be_made_of_its_nodes(graph):
    limit = primitives.enter(ax.constant(10), "loop", is_constant=True)
    step = primitives.enter(ax.constant(3), "loop", is_constant=True)
    first = primitives.enter(ax.constant(0), "loop")
    merged, _ = primitives.merge([first, first])
    again = primitives.loop_cond(merged < limit)
    if_false, if_true = primitives.switch(merged, again)
    merged.op.set_input(1, primitives.next_iteration(if_true + step))
    result = primitives.exit(if_false)

    assert await run(graph, [result]) == [12]


def test_an_input_is_replaced_by_one_of_its_dtype_and_the_graph_counts_it(graph):
    one, other = ax.constant(1), ax.constant(2)
    merged, _ = primitives.merge([one, one])
    mutations = graph.mutations

    merged.op.set_input(1, other)

    assert list(merged.op.inputs) == [one, other]
    assert one.consumers() == other.consumers() == [merged.op]
    assert graph.mutations == mutations + 1
    merged.op.set_input(0, other)
    assert one.consumers() == []
    with pytest.raises(GraphTypeError, match="input 1 of Merge 'Merge' must be int32, got float32 from"):
        merged.op.set_input(1, ax.constant(1.0))


async def test_gradients_go_through_switches_and_merges_made_by_hand(graph, pred):
    x = ax.constant(np.float32(2.0))
    if_false, if_true = primitives.switch(x, pred)
    y, _ = primitives.merge([if_false * 3.0, if_true * if_true])
    (gradient,) = ax.gradients(y, [x])

    assert await run(graph, [gradient], {pred: True}) == [4.0]
    assert await run(graph, [gradient], {pred: False}) == [3.0]


def test_a_node_of_control_flow_has_no_gradient_by_itself(graph, pred):
    switch = primitives.switch(ax.constant(2.0), pred)[0].op

    with pytest.raises(UnimplementedError, match="Switch 'Switch' has no gradient by itself"):
        switch.row.gradient(switch, None, None)


def test_a_handle_brought_into_a_branch_still_tells_the_shape_of_its_variable(graph, pred):
    variable: Any = ax.Variable(np.zeros((2, 3)), use_resource=True)
    _, handle = primitives.switch(variable.handle, pred)

    assert apply_op("ReadVariableOp", handle, dtype=ax.float64).shape == (2, 3)
