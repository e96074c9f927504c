"""Graphs for inference: variables as constants, without training nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec.errors import UnimplementedError
from aioexec.train.checkpoints.freezing import convert_variables_to_constants, remove_training_nodes


def model(use_resource: bool) -> None:
    """Reads, gathers, a shape op, and a read in a loop."""
    x = aioexec.placeholder(aioexec.float32, [2], name="x")
    table = aioexec.get_variable(
        "table", initializer=np.arange(6, dtype=np.float32).reshape(3, 2), use_resource=use_resource
    )
    scale = aioexec.get_variable("scale", initializer=2.0, use_resource=use_resource)
    row = aioexec.gather(table, 1)
    rows = aioexec.cast(aioexec.shape(table)[0], aioexec.float32)
    _, total = aioexec.while_loop(
        lambda i, y: i < 3, lambda i, y: [i + 1, y * scale], [0, x * row + rows], name="loop"
    )
    aioexec.identity(total, name="result")


@pytest.mark.parametrize("use_resource", [False, True])
async def test_a_frozen_graph_gives_the_same_without_variables(use_resource: bool) -> None:
    with aioexec.Graph().as_default() as graph:
        model(use_resource)
        aioexec.train.AdamOptimizer().minimize(graph.get_tensor_by_name("result:0"))
        async with aioexec.Session(graph=graph) as session:
            await session.run(aioexec.global_variables_initializer())
            expected = await session.run("result:0", {"x:0": [1.0, 10.0]})
            frozen = await convert_variables_to_constants(session, graph.as_graph_def(), ["result"])

    assert not {node.op for node in frozen.node} & {"VariableV2", "VarHandleOp", "ReadVariableOp", "Assign"}
    with aioexec.Graph().as_default() as graph:
        aioexec.import_graph_def(frozen, name="")
        async with aioexec.Session(graph=graph) as session:
            found = await session.run("result:0", {"x:0": [1.0, 10.0]})
    np.testing.assert_array_equal(found, expected)


async def test_only_the_variables_meant_are_frozen() -> None:
    with aioexec.Graph().as_default() as graph:
        model(use_resource=True)
        async with aioexec.Session(graph=graph) as session:
            await session.run(aioexec.global_variables_initializer())
            definition = graph.as_graph_def()
            one = await convert_variables_to_constants(session, definition, ["result"], ["table"])
            other = await convert_variables_to_constants(
                session, definition, ["result"], variable_names_blacklist=["table"]
            )

    assert [node.name for node in one.node if node.op == "VarHandleOp"] == ["scale"]
    assert [node.name for node in other.node if node.op == "VarHandleOp"] == ["table"]


async def test_what_changes_a_variable_is_not_frozen() -> None:
    with aioexec.Graph().as_default() as graph:
        count = aioexec.get_variable("count", initializer=0.0, use_resource=True)
        count.assign_add(1.0, name="more")
        async with aioexec.Session(graph=graph) as session:
            await session.run(aioexec.global_variables_initializer())

            with pytest.raises(UnimplementedError, match="'more' does with a variable what cannot be done"):
                await convert_variables_to_constants(session, graph.as_graph_def(), ["more"])


def test_nodes_of_training_are_left_out_where_nothing_needs_them() -> None:
    with aioexec.Graph().as_default() as graph:
        x: Any = aioexec.placeholder(aioexec.float32, name="x")
        passed = aioexec.identity(aioexec.identity(x, name="one"), name="two")
        checked = aioexec.check_numerics(passed, "bad", name="checked")
        waited = aioexec.identity(x, name="waited")
        with aioexec.control_dependencies([waited, checked]):
            y = aioexec.add(checked, 1.0, name="y")
        aioexec.identity(y, name="result")

    spare = remove_training_nodes(graph.as_graph_def(), ["result"])

    inputs = {node.name: sorted(node.input) for node in spare.node}
    assert inputs == {
        "x": [],
        "waited": ["x"],
        "y/y": ["^waited", "^x"],
        "y": ["x", "y/y"],
        "result": ["y"],
    }
