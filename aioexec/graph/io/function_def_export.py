"""Writes functions as FunctionDefs, equal to TensorFlow's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aioexec.formats.protos import FunctionDef, FunctionDefLibrary, OpDef as OpDefProto
from aioexec.graph.attr_values import write_attr, write_private_attr
from aioexec.graph.attrs import arg_dtypes
from aioexec.graph.func_graph import as_func_graph
from aioexec.graph.function_library import Function, FunctionLibrary
from aioexec.graph.io.node_def_export import OUTPUT_SHAPES, node_def
from aioexec.graph.node import Tensor
from aioexec.graph.opdef import OpDef


def export_library(functions: FunctionLibrary, names: Iterable[str] | None = None) -> FunctionDefLibrary:
    """Functions as the library of a GraphDef: all of them, or those named."""
    library = FunctionDefLibrary()
    for name in functions if names is None else names:
        function = functions.function(name)
        library.function.append(function_to_def(function))
        if function.gradient is not None:
            library.gradient.add(function_name=name, gradient_func=function.gradient)
    return library


def function_to_def(function: Function) -> FunctionDef:
    """A function as a FunctionDef; for an imported function the one it was imported from."""
    if function.source is not None:
        source: FunctionDef = function.source
        return source
    proto = FunctionDef()
    _write_signature(proto.signature, function.definition)
    for name, value in function.attrs.items():
        write_private_attr(proto.attr[name], value)
    body, definition = as_func_graph(function.graph), function.definition
    names = {tensor: arg.name for tensor, arg in zip(body.inputs, definition.inputs, strict=True)}
    inputs = {tensor.op for tensor in body.inputs}
    for op in body.get_operations():
        if op in inputs:
            continue
        node = node_def(op)
        controls = [
            f"^{names.get(c.outputs[0], c.name) if c in inputs else c.name}" for c in op.control_inputs
        ]
        del node.input[:]
        node.input.extend([*(_element_name(tensor, names) for tensor in op.inputs), *sorted(controls)])
        proto.node_def.append(node)
    for arg, tensor in zip(definition.outputs, body.outputs, strict=True):
        proto.ret[arg.name] = _element_name(tensor, names)
    for op in body.control_outputs:
        proto.control_ret[op.name] = op.name
        proto.signature.control_output.append(op.name)
    for place, tensor in enumerate(body.inputs):
        _describe(proto, place, tensor)
    return proto


def _describe(proto: FunctionDef, place: int, tensor: Tensor) -> None:
    """Write the static shape and handle data of an input."""
    attrs = proto.arg_attr[place].attr
    write_attr(attrs[OUTPUT_SHAPES], "list(shape)", [tensor.dims])
    for name, value in tensor.op.attrs.items():
        if name.startswith("_"):
            write_private_attr(attrs[name], value)


def _element_name(tensor: Tensor, inputs: Mapping[Tensor, str]) -> str:
    if tensor in inputs:
        return inputs[tensor]
    index = tensor.value_index
    for arg in tensor.op.row.definition.outputs:
        count = len(arg_dtypes(arg, tensor.op.attrs))
        if index < count:
            return f"{tensor.op.name}:{arg.name}:{index}"
        index -= count
    raise AssertionError(tensor)


def _write_signature(proto: OpDefProto, definition: OpDef) -> None:
    proto.name = definition.name
    proto.is_stateful = definition.is_stateful
    for args, into in ((definition.inputs, proto.input_arg), (definition.outputs, proto.output_arg)):
        for arg in args:
            assert arg.dtype is not None
            into.add(name=arg.name, type=arg.dtype.as_datatype_enum)


def functions_are_equal(one: Function, other: Function) -> bool:
    """Whether two functions have equal definitions, regardless of the order of nodes."""
    return _canonical(one) == _canonical(other)


def _canonical(function: Function) -> tuple[bytes, ...]:
    proto = FunctionDef()
    proto.CopyFrom(function_to_def(function))
    nodes = sorted(node.SerializeToString(deterministic=True) for node in proto.node_def)
    proto.ClearField("node_def")
    proto.ClearField("arg_attr")
    return proto.SerializeToString(deterministic=True), *nodes
