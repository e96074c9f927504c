"""Exports a subgraph as a GraphDef, for `RunOptions.output_partition_graphs` and for other processes.

The exported graph is the one that runs, after all passes: a folded node is a Const under its own name, a feed is an _Arg and a
fetch a _Retval, as in the graphs that TensorFlow returns. Importing this module loads protobuf.
"""

from __future__ import annotations

from collections.abc import Iterator

from aioexec.formats.protos import GraphDef, NodeDef
from aioexec.graph.attr_values import write_attr
from aioexec.graph.function_library import FunctionLibrary
from aioexec.graph.io.function_def_export import export_library
from aioexec.graph.io.graphdef_export import GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_CONSUMER, node_def
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.node import Operation
from aioexec.planning.subgraph import Edge, Node, Subgraph


def subgraph_to_graph_def(
    subgraph: Subgraph, device: str = "", functions: FunctionLibrary | None = None
) -> GraphDef:
    """Convert a subgraph to a GraphDef.

    Args:
        device: for nodes that have none of their own.
        functions: the function library; functions that nodes call are included.
    """
    made = _Exporter(subgraph, device).graph_def()
    if functions:
        made.library.CopyFrom(export_library(functions, _used_functions(subgraph, functions)))
    return made


def _used_functions(subgraph: Subgraph, functions: FunctionLibrary) -> list[str]:
    """The functions that nodes call or name in an attribute, directly or transitively; in the order of the library."""
    waiting = [
        name for node in subgraph.nodes if node.feed is None for name in _named(node.op) if name in functions
    ]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            function = functions.function(name)
            waiting.extend(each.name for each in function.called() if each.name in functions)
            waiting.extend(filter(None, [function.gradient]))
    return [name for name in functions if name in found]


def _named(op: Operation) -> Iterator[str]:
    yield op.type
    for value in op.attrs.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, NameAttrList):
                yield each.name


class _Exporter:
    """Assigns all names first, since back edges of loops lead to later nodes; then writes the nodes."""

    def __init__(self, subgraph: Subgraph, device: str) -> None:
        self._subgraph = subgraph
        self._device = device
        self._feeds = {id(node): position for position, node in enumerate(subgraph.feeds)}
        self._taken: set[str] = set()
        self._names = {id(node): self._unique(self._name(node)) for node in subgraph.nodes}

    def _name(self, node: Node) -> str:
        if node.feed is None:
            return node.name
        return f"_arg_{node.feed.op.name}_{node.feed.value_index}_{self._feeds[id(node)]}"

    def _unique(self, name: str) -> str:
        found, number = name, 0
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def graph_def(self) -> GraphDef:
        result = GraphDef()
        result.versions.producer = GRAPH_DEF_VERSION
        result.versions.min_consumer = GRAPH_DEF_VERSION_MIN_CONSUMER
        for node in self._subgraph.nodes:
            result.node.extend(self._write(node))
        result.node.extend(
            self._retval(edge, position) for position, edge in enumerate(self._subgraph.fetches)
        )
        return result

    def _write(self, node: Node) -> Iterator[NodeDef]:
        if node.feed is not None:
            made = NodeDef(op="_Arg")
            write_attr(made.attr["T"], "type", node.feed.dtype.base_dtype)
            write_attr(made.attr["index"], "int", self._feeds[id(node)])
        elif node.values is not None and node.op.type != "Const":
            yield from self._write_constants(node)
            return
        else:
            made = node_def(node.op)
        self._place(made, self._names[id(node)], node)
        yield made

    def _write_constants(self, node: Node) -> Iterator[NodeDef]:
        """A constant for each output: the first has the node's name, the others are `name/_1`, …"""
        assert node.values is not None
        for index, value in enumerate(node.values):
            made = NodeDef(op="Const")
            write_attr(made.attr["dtype"], "type", node.op.outputs[index].dtype.base_dtype)
            write_attr(made.attr["value"], "tensor", value)
            self._place(made, self._folded_name(node, index), node)
            yield made

    def _folded_name(self, node: Node, index: int) -> str:
        name = self._names[id(node)]
        return f"{name}/_{index}" if index else name

    def _retval(self, edge: Edge, position: int) -> NodeDef:
        node, index = edge
        made = NodeDef(op="_Retval", device=node.device or self._device, input=[self._input(node, index)])
        made.name = self._unique(f"_retval_{node.name}_{index}_{position}")
        write_attr(made.attr["T"], "type", node.output_dtype(index).base_dtype)
        write_attr(made.attr["index"], "int", position)
        return made

    def _place(self, made: NodeDef, name: str, node: Node) -> None:
        made.name, made.device = name, node.device or self._device
        del made.input[:]
        made.input.extend(self._input(producer, index) for producer, index in node.inputs)
        made.input.extend(sorted(f"^{self._names[id(producer)]}" for producer in node.controls))

    def _input(self, producer: Node, index: int) -> str:
        if producer.values is not None and producer.op.type != "Const":
            return self._folded_name(producer, index)
        name = self._names[id(producer)]
        return f"{name}:{index}" if index else name
