"""Subgraphs as GraphDefs: what runs, with the devices it runs on."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.formats.protos import GraphDef, NodeDef
from aioexec.formats.tensor_codec import decode_tensor
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_export import node_def
from aioexec.graph.io.graphdef_import import import_graph_def
from aioexec.planning.export import subgraph_to_graph_def
from aioexec.planning.subgraph import Node, Subgraph
from tests.planning.planned import by_name, pruned
from tests.tiers import constant, feed, graph, op

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def nodes(graph_def: GraphDef) -> dict[str, NodeDef]:
    found = {node.name: node for node in graph_def.node}
    assert len(found) == len(graph_def.node), "every node has a name of its own"
    return found


def edges(graph_def: GraphDef) -> dict[str, tuple[str, list[str]]]:
    return {node.name: (node.op, list(node.input)) for node in graph_def.node}


def test_a_subgraph_is_told_with_its_ops_inputs_attributes_and_devices():
    with graph() as g:
        x = feed([2], name="x")
        first, second = op("Split", constant(0, "int32"), x, num_split=2, name="split")
        other = op("Neg", x, name="other")
        with g.control_dependencies([other.op]):
            z = op("Sub", second, first, name="z")
    subgraph = pruned([z], [x])
    by_name(subgraph)["z"].device = "/device:CPU:1"

    exported = subgraph_to_graph_def(subgraph, CPU)

    split_dim = next(node.name for node in exported.node if node.op == "Const")
    assert edges(exported) == {
        "_arg_x_0_0": ("_Arg", []),
        split_dim: ("Const", []),
        "split": ("Split", [split_dim, "_arg_x_0_0"]),
        "z": ("Sub", ["split:1", "split", "^other"]),
        "other": ("Neg", ["_arg_x_0_0"]),
        "_retval_z_0_0": ("_Retval", ["z"]),
    }
    found = nodes(exported)
    assert found["z"].device == found["_retval_z_0_0"].device == "/device:CPU:1"
    assert found["split"].device == CPU
    assert found["split"].attr == node_def(first.op).attr
    assert found["_arg_x_0_0"].attr["T"].type == 1
    assert exported.versions.producer > 0


def test_what_a_pass_has_folded_is_a_constant():
    with graph():
        x = feed([2], name="x")
        first, second = op("Split", constant(0, "int32"), constant([1.0, 2.0]), num_split=2, name="split")
        z = op("Add", op("Mul", x, second), first, name="z")
    subgraph = pruned([z], [x])
    split = by_name(subgraph)["split"]
    split.values, split.inputs = (np.array([1], np.float32), np.array([2], np.float32)), []
    subgraph.drop_unneeded()

    found = nodes(subgraph_to_graph_def(subgraph))

    for name, expected in (("split", [1.0]), ("split/_1", [2.0])):
        assert found[name].op == "Const"
        assert found[name].attr["dtype"].type == 1
        np.testing.assert_array_equal(decode_tensor(found[name].attr["value"].tensor), expected)
    assert list(found["z"].input)[1] == "split"
    assert [list(node.input)[1] for node in found.values() if node.op == "Mul"] == ["split/_1"]


def test_a_fed_output_and_the_node_it_came_from_may_both_be_there():
    with graph():
        x = feed([2], name="x")
        first, second = op("Split", constant(0, "int32"), x, num_split=2, name="split")
        z = op("Add", first, second, name="z")

    found = edges(subgraph_to_graph_def(pruned([z], [x, second])))

    assert found["z"] == ("Add", ["split", "_arg_split_1_1"])
    assert found["_arg_split_1_1"] == ("_Arg", [])


def test_nodes_of_one_name_are_told_apart():
    """A partitioner makes nodes in a graph of its own, where a name may be taken that is taken here too."""
    with graph():
        a = constant([1.0], "float32")
    with graph():
        b = constant([2.0], "float32")
    with graph():
        total = op("Add", a_like(a), a_like(b), name="total")
    producers = [Node(a.op), Node(b.op)]
    assert a.op.name == b.op.name
    end = Node(total.op, inputs=[(producers[0], 0), (producers[1], 0)])

    found = edges(subgraph_to_graph_def(Subgraph([*producers, end], [], [], [end])))

    assert found["total"] == ("Add", [a.op.name, f"{a.op.name}_1"])
    assert f"{a.op.name}_1" in found


def a_like(tensor: Any) -> Any:
    return feed(tensor.dims, tensor.dtype.name)


def test_what_is_exported_without_feeds_and_fetches_can_be_imported():
    with graph():
        total = op("Add", op("Neg", constant([1.0, 2.0])), constant([3.0, 4.0]), name="total")
    subgraph = pruned([], [], [total.op])

    exported = subgraph_to_graph_def(subgraph)

    with Graph().as_default() as again:
        import_graph_def(exported, name="")
    assert {node.name for node in again.get_operations()} == {node.name for node in subgraph.nodes}
