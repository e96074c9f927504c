"""Reads functions from FunctionDefs.

In a FunctionDef the inputs of the function are referred to like nodes, an output of a node is "node:output:index" (index within
that output argument), and an attribute of a node may be open: `placeholder` names an attribute of the function. A FunctionDef
is converted to a GraphDef with one `_Arg` node for each input, which is then imported like any other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from aioexec.dtypes import as_dtype
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.formats.protos import AttrValue, FunctionDef, GraphDef, NodeDef, OpDef as OpDefProto
from aioexec.graph.attr_values import read_attr, read_private_attr, write_attr
from aioexec.graph.attrs import arg_dtypes
from aioexec.graph.func_graph import FuncGraph
from aioexec.graph.function_library import Function, FunctionLibrary
from aioexec.graph.io.allowance import Allowance
from aioexec.graph.io.graphdef_nodes import Importer
from aioexec.graph.io.graphdef_source import COLOCATED, COLOCATION, Source
from aioexec.graph.node import Tensor
from aioexec.graph.opdef import ArgDef, AttrDef, OpDef
from aioexec.graph.static_values import HANDLE_SHAPE


def import_library(functions: FunctionLibrary, graph_def: GraphDef) -> None:
    """Add the functions of a GraphDef's library; bodies are built at the first call.

    The library's allowance is set to that of this GraphDef.

    Raises:
        InvalidArgumentError: a signature is malformed, a name has another meaning already, or tensors are too large.
    """
    functions.allowance = Allowance(graph_def)
    library, version = graph_def.library, graph_def.versions.producer
    for proto in library.function:
        functions.add(function_from_def(proto, functions, version))
    for entry in library.gradient:
        functions.set_gradient(entry.function_name, entry.gradient_func)


def function_from_def(proto: FunctionDef, functions: FunctionLibrary, version: int) -> Function:
    """The function defined by a FunctionDef of a GraphDef of this version; its callees are looked up in `functions`.

    Raises:
        InvalidArgumentError: the signature is malformed.
    """
    try:
        definition = _read_signature(proto.signature)
        attrs = {name: read_private_attr(held) for name, held in proto.attr.items()}
    except InvalidArgumentError as error:
        raise GraphValueError(f"function {proto.signature.name!r}: {error.message}") from error

    def make(given: Mapping[str, Any]) -> FuncGraph:
        try:
            return _BodyReader(proto, definition, given, functions).body(version)
        except InvalidArgumentError as error:
            raise GraphValueError(f"function {definition.name!r}: {error.message}") from error

    return Function(definition, functions, make, functools.partial(_names_of_functions, proto), attrs, proto)


def _names_of_functions(proto: FunctionDef) -> list[str]:
    """The names in a FunctionDef that may be names of functions."""
    names: dict[str, None] = {}
    waiting = [held for node in proto.node_def for held in node.attr.values()]
    while waiting:
        held = waiting.pop()
        for called in (*((held.func,) if held.HasField("func") else ()), *held.list.func):
            names[called.name] = None
            waiting.extend(called.attr.values())
    return [*(node.op for node in proto.node_def), *names]


def _read_signature(proto: OpDefProto) -> OpDef:
    attrs = tuple(_read_attr_def(attr) for attr in proto.attr)
    kinds = {attr.name: attr.kind for attr in attrs}
    arguments = [
        tuple(_read_argument(arg, kinds) for arg in args) for args in (proto.input_arg, proto.output_arg)
    ]
    names = [arg.name for arg in arguments[0]]
    if not proto.name or len(set(names)) < len(names):
        raise GraphValueError(f"its signature needs a name and inputs of different names, got {names}")
    return OpDef(proto.name, arguments[0], arguments[1], attrs, is_stateful=proto.is_stateful)


def _read_attr_def(proto: Any) -> AttrDef:
    if proto.type.removeprefix("list(").removesuffix(")") not in _KINDS:
        raise GraphValueError(f"attr {proto.name!r} is of an unknown kind {proto.type!r}")
    bare = AttrDef(proto.name, proto.type, required=not proto.HasField("default_value"))
    if bare.required:
        return bare
    return AttrDef(bare.name, bare.kind, required=False, default=read_attr(bare, proto.default_value))


_KINDS = frozenset({"int", "float", "bool", "string", "type", "shape", "tensor", "func"})


def _read_argument(proto: Any, kinds: Mapping[str, str]) -> ArgDef:
    for attr, kind in (
        (proto.type_attr, "type"),
        (proto.number_attr, "int"),
        (proto.type_list_attr, "list(type)"),
    ):
        if attr and kinds.get(attr) != kind:
            raise GraphValueError(
                f"{proto.name!r} depends on attr {attr!r}, which is no {kind} of the function"
            )
    if proto.type_list_attr:
        return ArgDef(proto.name, type_list_attr=proto.type_list_attr)
    dtype = None if proto.type_attr else as_dtype(proto.type)
    return ArgDef(proto.name, dtype, proto.type_attr, proto.number_attr, is_ref=proto.is_ref)


class _BodyReader:
    """Builds the body of a FunctionDef for a set of attributes.

    `_nodes` are its NodeDefs by name, `_arguments` the names of the `_Arg` nodes of each input argument.
    """

    def __init__(
        self, proto: FunctionDef, definition: OpDef, given: Mapping[str, Any], functions: FunctionLibrary
    ) -> None:
        self._proto = proto
        self._definition = definition
        self._functions = functions
        self._given = dict(given)
        self._open: dict[str, AttrValue] = {}
        for attr in definition.attrs:
            write_attr(self._open.setdefault(attr.name, AttrValue()), attr.kind, given[attr.name])
        self._nodes = {node.name: node for node in proto.node_def}
        self._arguments: dict[str, list[str]] = {}

    def body(self, version: int) -> FuncGraph:
        if self._functions.allowance is not None:
            self._functions.allowance.take_body(self._proto)
        graph_def = GraphDef()
        graph_def.versions.producer = version
        self._add_inputs(graph_def)
        for node in self._proto.node_def:
            graph_def.node.append(self._without_placeholders(node))
        for node in graph_def.node:
            inputs = [each for text in node.input for each in self._inputs(text)]
            del node.input[:]
            node.input.extend(inputs)
            self._drop_outer_groups(node)
        graph = FuncGraph(self._definition.name, functions=self._functions)
        importer = Importer(graph, Source(graph_def, None, set(), self._functions), "", {})
        importer.add_nodes()
        graph.inputs = [
            importer.added[name].outputs[0] for names in self._arguments.values() for name in names
        ]
        graph.outputs = [tensor for arg in self._definition.outputs for tensor in self._result(arg, importer)]
        graph.control_outputs = [
            importer.operation(self._proto.control_ret[n]) for n in sorted(self._proto.control_ret)
        ]
        graph.finalize()
        return graph

    def _add_inputs(self, graph_def: GraphDef) -> None:
        taken = {*self._nodes, *(arg.name for arg in self._definition.inputs)}
        index = 0
        for place, arg in enumerate(self._definition.inputs):
            names = self._arguments.setdefault(arg.name, [])
            for dtype in arg_dtypes(arg, self._given):
                name, count = arg.name, 0
                while names and name in taken:
                    count += 1
                    name = f"{arg.name}_{count}"
                taken.add(name)
                names.append(name)
                node = graph_def.node.add(name=name, op="_Arg")
                write_attr(node.attr["T"], "type", dtype)
                write_attr(node.attr["index"], "int", index)
                self._describe_input(node, place, len(names) == 1)
                index += 1

    def _describe_input(self, node: NodeDef, place: int, is_first: bool) -> None:
        """Copy further properties of an input from the definition: private attributes, handle data."""
        if not is_first:
            return
        for name, held in self._proto.arg_attr[place].attr.items() if place in self._proto.arg_attr else ():
            if name.startswith("_"):
                node.attr[name].CopyFrom(held)
        handle_data = self._proto.signature.input_arg[place].handle_data
        if len(handle_data) == 1:
            node.attr[HANDLE_SHAPE].shape.CopyFrom(handle_data[0].shape)

    def _without_placeholders(self, node: NodeDef) -> NodeDef:
        closed = NodeDef()
        closed.CopyFrom(node)
        for held in closed.attr.values():
            self._substitute_placeholders(held)
        return closed

    def _drop_outer_groups(self, node: NodeDef) -> None:
        """Drop colocation groups of nodes outside the body."""
        if COLOCATION in node.attr:
            groups = node.attr[COLOCATION].list.s
            members = [group.decode("utf-8", "replace").removeprefix(COLOCATED) for group in groups]
            kept = [group for group, member in zip(groups, members, strict=True) if member in self._nodes]
            del groups[:]
            groups.extend(kept)

    def _substitute_placeholders(self, held: AttrValue) -> None:
        """Substitute the function's attribute for a placeholder."""
        kind = held.WhichOneof("value")
        if kind == "placeholder":
            if held.placeholder not in self._open:
                raise GraphValueError(f"attr {held.placeholder!r} is left open, but is none of the function")
            given = self._open[held.placeholder]
            if self._functions.allowance is not None:
                self._functions.allowance.take_attribute(given)
            held.CopyFrom(given)
        for function in (held.func,) if kind == "func" else held.list.func if kind == "list" else ():
            for inner in function.attr.values():
                self._substitute_placeholders(inner)

    def _inputs(self, text: str) -> Iterator[str]:
        """Convert an input reference to the form of a GraphDef; several references if it denotes a list."""
        if text.startswith("^"):
            yield text
            return
        name, *rest = text.split(":")
        if name in self._arguments:
            yield from self._elements(text, self._arguments[name], rest)
            return
        if name not in self._nodes or not rest:
            raise GraphValueError(f"{text!r} is neither an input nor an output of one of its nodes")
        first, count = self._output_range(text, self._nodes[name], rest[0])
        yield from self._elements(text, [f"{name}:{first + k}" for k in range(count)], rest[1:])

    def _elements(self, text: str, names: list[str], rest: list[str]) -> list[str]:
        if not rest:
            return names
        if len(rest) > 1 or not rest[0].isdigit() or len(rest[0]) > 9 or int(rest[0]) >= len(names):
            raise GraphValueError(f"{text!r} means none of {len(names)} tensors")
        return [names[int(rest[0])]]

    def _output_range(self, text: str, node: NodeDef, output: str) -> tuple[int, int]:
        """The index of the first tensor in a node's output argument, and the number of tensors."""
        first = 0
        for arg in self._functions.row(node.op).definition.outputs:
            count = self._count(node, arg)
            if arg.name == output:
                return first, count
            first += count
        raise GraphValueError(f"{text!r}: {node.op} has no output {output!r}")

    def _count(self, node: NodeDef, arg: ArgDef) -> int:
        attr = arg.number_attr or arg.type_list_attr
        if not attr:
            return 1
        held = node.attr[attr] if attr in node.attr else AttrValue()
        held = self._open.get(held.placeholder, held)
        count = held.i if arg.number_attr else len(held.list.type)
        if not 0 <= count <= _LONGEST_LIST:
            raise GraphValueError(f"node {node.name!r}: attr {attr!r} is {count}")
        return int(count)

    def _result(self, arg: ArgDef, importer: Importer) -> list[Tensor]:
        if arg.name not in self._proto.ret:
            raise GraphValueError(f"its output {arg.name!r} is not among what it returns")
        tensors = [importer.tensor(text) for text in self._inputs(self._proto.ret[arg.name])]
        types, expected = [tensor.dtype.base_dtype for tensor in tensors], arg_dtypes(arg, self._given)
        if types != [dtype.base_dtype for dtype in expected]:
            raise GraphValueError(
                f"its output {arg.name!r} must be {[dtype.name for dtype in expected]}, got {[dtype.name for dtype in types]}"
            )
        return tensors


_LONGEST_LIST = 1 << 20
