"""Imports a GraphDef into a graph: all of its nodes, or none if there is an error.

1. `Source` parses and checks the proto: names, attributes, edges, a topological order.
2. `Importer` adds the nodes under a prefix. The graph checks dtypes and shapes as for any new node, and removes the added nodes
   if one is invalid. A Merge of a loop gets its back edge when the NextIteration has been added.
3. The elements named in `return_elements` are looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.formats.protos import GraphDef, OpList
from aioexec.graph.apply import graph_of
from aioexec.graph.convert import convert_to_tensor, stands_for_tensor
from aioexec.graph.graph import Graph
from aioexec.graph.io.collector import collector_disabled
from aioexec.graph.io.function_def_import import import_library
from aioexec.graph.io.graphdef_nodes import Importer
from aioexec.graph.io.graphdef_source import CONTROL, Key, Source, parse_key
from aioexec.graph.node import Operation, Tensor


def import_graph_def(
    graph_def: Any,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes of a GraphDef to the default graph (or that of the tensors in `input_map`).

    Nodes may be listed in any order. A name that is taken gets a suffix _1, _2, …. After an error the graph is unchanged.
    Functions are added to the library of the graph; those that nodes call, directly or not, are checked.

    Args:
        graph_def: our GraphDef or TensorFlow's.
        input_map: replaces inputs, by their name in the GraphDef: "a", "a:1", or "^a" for a control input.
        return_elements: names in the GraphDef of the elements to return: "a" an operation, "a:0" a tensor.
        name: the scope of the new nodes, "import" by default; "" for none.
        op_dict: ignored, as in TensorFlow.
        producer_op_list: the ops of the GraphDef's producer; attributes unknown here are dropped if they have their default.

    Returns:
        The elements named in `return_elements`, or None if that is None.

    Raises:
        NotFoundError: an op is not registered.
        GraphTypeError: an argument of a wrong type.
        GraphValueError: any other error in the GraphDef or the arguments.
    """
    source = own_proto(graph_def, GraphDef, "graph_def")
    producer_ops = (
        None if producer_op_list is None else own_proto(producer_op_list, OpList, "producer_op_list")
    )
    wanted = _check_names("return_elements", return_elements)
    mapped = dict(input_map or {})
    _check_names("input_map", mapped)
    with _add_to(graph_of(list(mapped.values()))) as graph:
        graph._check_not_finalized()
        try:
            import_library(graph.functions, source)
            parsed = Source(source, producer_ops, {parse_key(text) for text in mapped}, graph.functions)
            with graph.name_scope("import" if name is None else name) as scope:
                inputs = _convert_inputs(graph, mapped, scope)
                importer = Importer(graph, parsed, scope, inputs)
                importer.add_nodes()
                importer.check_replacements()
            elements = None if return_elements is None else [importer.element(text) for text in wanted]
        except GraphValueError:
            raise
        except InvalidArgumentError as error:
            raise GraphValueError(error.message) from error
        _record_producer_version(graph, source.versions.producer)
        return elements


def extend_by_graph_def(graph: Graph, graph_def: GraphDef, inputs: Mapping[str, Tensor | Operation]) -> None:
    """Add nodes that another process made for this graph, under their own names: all of them, or none if there is an error.

    Args:
        inputs: tensors and operations of the graph, by the text that refers to them.

    Raises:
        NotFoundError: an op is not registered.
        InvalidArgumentError: any other error.
    """
    with _add_to(graph):
        import_library(graph.functions, graph_def)
        known = {parse_key(text): there for text, there in inputs.items()}
        there = graph._by_name
        source = Source(graph_def, None, set(known), graph.functions, is_sent=True, there=there)
        Importer(graph, source, None, known).add_nodes()
        _record_producer_version(graph, graph_def.versions.producer)


@contextmanager
def _add_to(graph: Graph) -> Iterator[Graph]:
    """Make `graph` the default graph in the block; an exception removes the nodes added there.

    Raises:
        GraphValueError: attributes are nested too deeply. The limit of parsed messages is 100, built ones may exceed it.
    """
    with graph.as_default(), graph.undo_on_error(), collector_disabled():
        try:
            yield graph
        except RecursionError as error:
            raise GraphValueError("the attributes of a node are nested too deeply") from error


def _record_producer_version(graph: Graph, producer: int) -> None:
    """Record the producer's version: a graph's version is the lowest among the current one and those of imported GraphDefs."""
    known = graph.oldest_producer
    graph.oldest_producer = producer if known is None else min(known, producer)


def own_proto(message: Any, kind: Any, argument: str) -> Any:
    """`message` as one of our protos; TensorFlow's is converted by serialization.

    Raises:
        GraphTypeError: it is something else.
    """
    if isinstance(message, kind):
        return message
    descriptor = getattr(message, "DESCRIPTOR", None)
    if getattr(descriptor, "name", None) != kind.DESCRIPTOR.name or not hasattr(message, "SerializeToString"):
        raise GraphTypeError(
            f"{argument} must be a {kind.DESCRIPTOR.name} proto, got {type(message).__name__!r}"
        )
    return kind.FromString(message.SerializeToString())


def _check_names(argument: str, names: Any) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str) or not all(isinstance(each, str) for each in names):
        raise GraphTypeError(f"{argument} must name its elements by a list or dict of strings, got {names!r}")
    return list(names)


def _convert_inputs(graph: Graph, mapped: Mapping[str, Any], scope: str) -> dict[Key, Tensor | Operation]:
    """The values of `input_map` as tensors (or operations, for control inputs) of the graph."""
    found: dict[Key, Tensor | Operation] = {}
    for text, value in mapped.items():
        key = parse_key(text)
        if key[1] == CONTROL and isinstance(value, Operation):
            found[key] = graph.as_graph_element(value)
            continue
        if not stands_for_tensor(value) and not scope:
            raise GraphValueError(
                f"input_map gives {text!r} a value that is no tensor: that needs a non-empty `name`"
            )
        with graph.name_scope(f"{scope}_inputs/" if scope else None):
            tensor = convert_to_tensor(value)
        found[key] = graph.as_graph_element(tensor, allow_operation=False)
    return found
