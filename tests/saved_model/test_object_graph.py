"""Models with an object graph: their functions and variables by name; damaged ones are refused, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import DataLossError, InvalidArgumentError
from aioexec.formats.protos import MetaGraphDef, SavedObjectGraph
from tests.saved_model import object_graphs
from tests.saved_model.object_graphs import SCALE, W, meta_graph, node, tensor_spec, write

X = np.array([3.0, 4.0], np.float32)


@pytest.fixture
async def model(tmp_path) -> Any:
    async with await ax.load(await write(tmp_path / "model", meta_graph())) as loaded:
        yield loaded


async def test_a_function_is_called_by_its_name_with_the_restored_variable(model):
    np.testing.assert_array_equal(await model.scale(X, X), X * W + X)
    np.testing.assert_array_equal(await model.scale(more=X, x=[1, 1]), W + X)


async def test_a_variable_is_one_object_wherever_it_is_found(model):
    assert model.w is model.items[0] is model.itself.items[-1]

    np.testing.assert_array_equal(await model.w.value(), W)


async def test_a_default_that_does_not_fit_is_an_error(model):
    with pytest.raises(
        InvalidArgumentError, match=r"'scale': argument 'more': expected float32 \(2,\), got shape \(\)"
    ):
        await model.scale(X)


async def test_calls_at_the_same_time_add_one_call_to_the_graph(model):
    before = len(model.graph.get_operations())

    results = await asyncio.gather(*(model.scale(X, X) for _ in range(4)))

    assert all(np.array_equal(result, X * W + X) for result in results)
    assert len(model.graph.get_operations()) == before + 3


async def test_a_large_argument_is_converted_off_the_loop(model):
    with pytest.raises(InvalidArgumentError, match=r"expected float32 \(2,\), got shape \(20000,\)"):
        await model.scale(X, list(range(20_000)))


async def test_a_cancelled_first_call_leaves_the_function_usable(model):
    first = asyncio.create_task(model.scale(X, X))
    await asyncio.sleep(0)
    first.cancel()

    with pytest.raises(asyncio.CancelledError):
        await first
    np.testing.assert_array_equal(await model.scale(X, X), X * W + X)


def child_out_of_range(graph: SavedObjectGraph) -> None:
    graph.nodes[3].children[0].node_id = 4


def child_negative(graph: SavedObjectGraph) -> None:
    graph.nodes[0].children[1].node_id = -1


def two_of_a_name(graph: SavedObjectGraph) -> None:
    graph.nodes[0].children.add(node_id=2, local_name="w")


def unknown_trace(graph: SavedObjectGraph) -> None:
    graph.nodes[2].function.concrete_functions.append("other")


def trace_of_no_function(graph: SavedObjectGraph) -> None:
    graph.concrete_functions["other"].CopyFrom(graph.concrete_functions[SCALE])


def captured_out_of_range(graph: SavedObjectGraph) -> None:
    graph.concrete_functions[SCALE].bound_inputs[0] = 9


def captured_twice(graph: SavedObjectGraph) -> None:
    graph.concrete_functions[SCALE].bound_inputs.append(1)


def argument_missing(graph: SavedObjectGraph) -> None:
    del (
        graph.concrete_functions[SCALE]
        .canonicalized_input_signature.tuple_value.values[0]
        .tuple_value.values[1]
    )


def no_arguments_at_all(graph: SavedObjectGraph) -> None:
    graph.concrete_functions[SCALE].canonicalized_input_signature.CopyFrom(tensor_spec("x"))


def results_too_many(graph: SavedObjectGraph) -> None:
    output = graph.concrete_functions[SCALE].output_signature
    output.list_value.values.extend([tensor_spec("y"), tensor_spec("z")])


def negative_dimension(graph: SavedObjectGraph) -> None:
    graph.concrete_functions[SCALE].output_signature.tensor_spec_value.shape.dim[0].size = -7


def unknown_dtype(graph: SavedObjectGraph) -> None:
    spec: Any = graph.concrete_functions[SCALE].output_signature.tensor_spec_value
    spec.dtype = 999


def named_tuple_without_names(graph: SavedObjectGraph) -> None:
    graph.concrete_functions[SCALE].output_signature.named_tuple_value.values.add(key="a b")


def asset_out_of_range(graph: SavedObjectGraph) -> None:
    graph.nodes.add().asset.asset_file_def_index = 3


DAMAGES: dict[Callable[[SavedObjectGraph], None], str] = {
    child_out_of_range: "object 3, attribute '0': expected the number of one of 4 objects, got 4",
    child_negative: "object 0, attribute 'scale': expected the number of one of 4 objects, got -1",
    two_of_a_name: "object 0: expected attributes of different names, got 'w' twice",
    unknown_trace: "object 2: expected the name of a concrete function, got 'other'",
    trace_of_no_function: "function 'other': expected a function of the graph's library, got none",
    captured_out_of_range: r"captured inputs: expected numbers of 4 objects, got \[9\]",
    captured_twice: "expected 3 inputs, got 2 arguments and 2 captured inputs",
    argument_missing: "expected 3 inputs, got 1 arguments and 1 captured inputs",
    no_arguments_at_all: "expected arguments as a pair of a tuple and a dict, got TensorSpec",
    results_too_many: "expected 1 outputs, got 2",
    negative_dimension: "expected dimensions of -1 or more, got",
    unknown_dtype: "999",
    named_tuple_without_names: r"no named tuple '' has the fields \['a b'\]",
    asset_out_of_range: "object 4: expected the number of one of 0 asset files, got 3",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_an_object_graph_that_contradicts_itself_is_refused(damage, tmp_path):
    made = meta_graph()
    damage(made.object_graph_def)
    folder = await write(tmp_path / "model", made)

    with pytest.raises(DataLossError, match=f"{folder}: object graph, .*{DAMAGES[damage]}"):
        await ax.load(folder)


async def test_a_captured_object_that_the_graph_does_not_have_is_named(tmp_path):
    made = meta_graph()
    made.object_graph_def.nodes.add().variable.dtype = object_graphs.FLOAT
    made.object_graph_def.concrete_functions[SCALE].bound_inputs[0] = 4

    async with await ax.load(await write(tmp_path / "model", made)) as model:
        with pytest.raises(
            InvalidArgumentError, match="object 4: expected a tensor of the graph for this variable"
        ):
            await model.scale(X, X)


async def test_the_number_of_a_wrong_object_is_an_error_of_the_call(tmp_path):
    made = meta_graph()
    made.object_graph_def.nodes.add().constant.operation = "prefix"
    made.object_graph_def.concrete_functions[SCALE].bound_inputs[0] = 4

    async with await ax.load(await write(tmp_path / "model", made)) as model:
        for _ in range(2):
            with pytest.raises(InvalidArgumentError, match=SCALE):
                await model.scale(X, X)


def calls(made: MetaGraphDef, caller: str, called: str) -> None:
    """Let a function of the library call another."""
    function = next(each for each in made.graph_def.library.function if each.signature.name == caller)
    node(function, "again", "StatefulPartitionedCall", "x", "more", "w")
    again = function.node_def[-1]
    again.attr["f"].func.name = called
    again.attr["Tin"].list.type.extend([object_graphs.FLOAT, object_graphs.FLOAT, object_graphs.RESOURCE])
    again.attr["Tout"].list.type.append(object_graphs.FLOAT)
    function.ret["y"] = "again:output:0"


async def test_a_function_that_calls_itself_is_refused_when_it_is_called(tmp_path):
    made = meta_graph()
    calls(made, SCALE, SCALE)

    async with await ax.load(await write(tmp_path / "model", made)) as model:
        with pytest.raises(InvalidArgumentError, match=f"{SCALE}.*calls itself"):
            await model.scale(X, X)


async def test_a_cycle_of_functions_that_the_graph_calls_is_refused(tmp_path):
    made = meta_graph()
    other = object_graphs.scale_function()
    other.signature.name = "other"
    made.graph_def.library.function.append(other)
    calls(made, SCALE, "other")
    calls(made, "other", SCALE)
    for name in ("x", "more"):
        placeholder = made.graph_def.node.add(name=name, op="Placeholder")
        placeholder.attr["dtype"].type = object_graphs.FLOAT
    call = made.graph_def.node.add(name="call", op="StatefulPartitionedCall", input=["x", "more", "handle"])
    call.attr["f"].func.name = SCALE
    call.attr["Tin"].list.type.extend([object_graphs.FLOAT, object_graphs.FLOAT, object_graphs.RESOURCE])
    call.attr["Tout"].list.type.append(object_graphs.FLOAT)

    with pytest.raises(InvalidArgumentError, match=f"{SCALE} -> other -> {SCALE}"):
        await ax.load(await write(tmp_path / "model", made))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(np.zeros((3, 3), np.float32), r"float32 \(3, 3\)"), (np.zeros(2, np.int32), r"int32 \(2,\)")],
)
async def test_a_variable_that_is_another_in_the_checkpoint_is_refused(value, shown, tmp_path):
    folder = await write(tmp_path / "model", meta_graph(), value)

    with pytest.raises(
        InvalidArgumentError, match=rf"{folder}: variable 'w': expected float32 \(2,\), got {shown}"
    ):
        await ax.load(folder)


async def test_objects_of_a_checkpoint_that_are_no_proto_are_refused(tmp_path):
    with pytest.raises(DataLossError, match="'_CHECKPOINTABLE_OBJECT_GRAPH' is no TrackableObjectGraph"):
        await ax.load(await write(tmp_path / "model", meta_graph(), tracked=b"\xff\xff\xff"))
