"""Export and import of loops and conditionals."""

from __future__ import annotations

from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.graph.graph import Graph
from tests.execution.steps import stepping
from tests.graph.written import INT32, graph_def, node, of_type


def loop(graph: Graph) -> str:
    limit = ax.constant(5)
    _, total = ax.while_loop(
        lambda i, x: i < limit, lambda i, x: (i + 1, ax.cond(x > 3, lambda: x + i, lambda: x + limit)), [0, 0]
    )
    return total.name


def edges(graph: Graph) -> dict[str, Any]:
    return {
        op.name: (op.type, [tensor.name for tensor in op.inputs], {each.name for each in op.control_inputs})
        for op in graph.get_operations()
    }


@pytest.mark.behaviour(82)
async def test_a_loop_comes_back_with_its_back_edges(graph):
    result = loop(graph)

    with Graph().as_default() as again:
        ax.import_graph_def(graph.as_graph_def(), name="")

    assert edges(again) == edges(graph)
    async with stepping(again) as steps:
        assert await steps.run([again.get_tensor_by_name(result)]) == [15]


async def test_nodes_of_a_loop_may_be_listed_in_any_order(graph):
    result = loop(graph)
    written = graph.as_graph_def()
    backwards = ax.GraphDef(node=reversed(written.node), versions=written.versions)

    with Graph().as_default() as again:
        (found,) = ax.import_graph_def(backwards, return_elements=[result]) or [None]

    async with stepping(again) as steps:
        assert await steps.run([found]) == [15]


def merge(name: str, *inputs: str) -> Any:
    count = ax.AttrValue(i=len(inputs))
    return node(name, "Merge", inputs, T=of_type(INT32), N=count)


def test_a_merge_needs_an_input_from_before_the_loop(graph):
    written = graph_def(merge("m", "next"), node("next", "NextIteration", ["m"], T=of_type(INT32)))

    with pytest.raises(GraphValueError, match="'m': all its inputs come from the next iteration"):
        ax.import_graph_def(written)

    assert graph.get_operations() == []


def test_a_back_edge_may_be_replaced(graph):
    start = ax.constant(1)
    written = graph_def(
        merge("m", "next", "next:0"),
        node("next", "NextIteration", ["m"], T=of_type(INT32)),
    )

    (merged,) = ax.import_graph_def(written, input_map={"next": start}, return_elements=["m"]) or [None]

    assert list(merged.inputs) == [start, start]


def test_a_control_edge_does_not_lead_back(graph):
    written = graph_def(
        node("next", "NextIteration", ["m"], T=of_type(INT32)),
        merge("m", "start", "^next"),
        merge("start", "x"),
    )

    with pytest.raises(GraphValueError, match="2 nodes in a cycle"):
        ax.import_graph_def(written, input_map={"x": ax.constant(1)})


def test_a_back_edge_has_the_dtype_of_its_variable(graph):
    written = graph_def(
        merge("m", "x", "next"),
        node("cast", "Cast", ["m"], SrcT=of_type(INT32), DstT=of_type(1)),
        node("next", "NextIteration", ["cast"], T=of_type(1)),
    )

    with pytest.raises(GraphValueError, match="input 1 of Merge 'import/m' must be int32, got float32"):
        ax.import_graph_def(written, input_map={"x": ax.constant(1)})

    assert [op.type for op in graph.get_operations()] == ["Const"]
