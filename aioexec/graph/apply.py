"""Applies an op to arguments: converts them by the op's signature, infers attributes and appends a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError
from aioexec.graph import registry
from aioexec.graph.attrs import arg_dtypes
from aioexec.graph.convert import (
    building,
    convert_n_to_tensor,
    convert_to_tensor,
    stands_for_tensor,
    symbolic_dtype,
)
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.opdef import ArgDef, OpDef


def graph_of(values: Sequence[Any]) -> Graph:
    """The graph of the first symbolic value among `values`, which may be nested; the default graph if there is none.

    While a function body is being built, the result is that body; it captures tensors of the graphs around it.
    """
    for value in values:
        if isinstance(value, list | tuple):
            if any(stands_for_tensor(item) for item in value):
                return graph_of(value)
        elif stands_for_tensor(value):
            return building(value)
    return get_default_graph()


def apply_op(op_type: str, *arguments: Any, name: str | None = None, **attrs: Any) -> Tensor:
    """Make a node of `op_type`, an op with one output, and return the output.

    Arguments follow the op's signature. Python values become constants; each takes the dtype of the tensors it must agree with,
    or the default of its type attribute. Attributes that are None are inferred or take their default. `name` is also the name
    scope of the converted constants.

    The other `apply_…_op` functions differ in their return type only: one for each form of an op's outputs, for the sake of
    static types, and `apply_any_op` for an op whose form is not known statically.
    """
    node = _apply(op_type, arguments, name, attrs)
    (output,) = node.row.definition.outputs
    assert not output.is_list, f"{op_type} returns a list"
    return node.outputs[0]


def apply_no_output_op(op_type: str, *arguments: Any, name: str | None = None, **attrs: Any) -> Operation:
    """Make a node of an op without outputs."""
    node = _apply(op_type, arguments, name, attrs)
    assert not node.row.definition.outputs, f"{op_type} has outputs"
    return node


def apply_list_op(op_type: str, *arguments: Any, name: str | None = None, **attrs: Any) -> list[Tensor]:
    """Make a node of an op whose one output is a list, and return the list."""
    node = _apply(op_type, arguments, name, attrs)
    (output,) = node.row.definition.outputs
    assert output.is_list, f"{op_type} returns one tensor"
    return list(node.outputs)


def apply_tuple_op(
    op_type: str, *arguments: Any, name: str | None = None, **attrs: Any
) -> tuple[Tensor, ...]:
    """Make a node of an op with several outputs, none of them a list, and return the outputs."""
    node = _apply(op_type, arguments, name, attrs)
    outputs = node.row.definition.outputs
    assert len(outputs) == len(node.outputs) > 1, f"{op_type} has one output, none, or lists of them"
    return tuple(node.outputs)


def apply_any_op(op_type: str, *arguments: Any, name: str | None = None, **attrs: Any) -> Any:
    """Make a node of an op and return its outputs in the form of `structured_outputs`."""
    return structured_outputs(_apply(op_type, arguments, name, attrs))


def _apply(op_type: str, arguments: Sequence[Any], name: str | None, attrs: dict[str, Any]) -> Operation:
    row = registry.lookup(op_type)
    definition = row.definition
    if len(arguments) != len(definition.inputs):
        raise GraphTypeError(f"{op_type} takes {len(definition.inputs)} inputs, got {len(arguments)}")
    given = {key: value for key, value in attrs.items() if value is not None}
    with graph_of(arguments).as_default() as graph, graph.name_scope(name or op_type) as scope:
        tensors = _convert(definition, arguments, given)
        return graph.create_op(op_type, tensors, name=scope, attrs=given)


def structured_outputs(op: Operation) -> Any:
    """The outputs of an operation in the form of its signature.

    Returns:
        The operation itself if it has no outputs, the Tensor (or list of them) if it has one, else a tuple of these.
    """
    groups: list[Any] = []
    position = 0
    for arg in op.row.definition.outputs:
        count = len(arg_dtypes(arg, op.attrs))
        tensors = list(op.outputs[position : position + count])
        groups.append(tensors if arg.is_list else tensors[0])
        position += count
    if not groups:
        return op
    return groups[0] if len(groups) == 1 else tuple(groups)


def _convert(definition: OpDef, arguments: Sequence[Any], attrs: dict[str, Any]) -> list[Tensor]:
    known = _known_dtypes(definition, arguments, attrs)
    tensors: list[Tensor] = []
    for arg, value in zip(definition.inputs, arguments, strict=True):
        converted = _convert_argument(definition, arg, value, known)
        if arg.type_attr and converted:
            known.setdefault(arg.type_attr, converted[0].dtype.base_dtype)
        tensors.extend(converted)
    return tensors


def _known_dtypes(definition: OpDef, arguments: Sequence[Any], attrs: dict[str, Any]) -> dict[str, DType]:
    """The dtypes of type attributes that are fixed by explicit attributes or by symbolic arguments."""
    known = {
        attr.name: attrs[attr.name] for attr in definition.attrs if attr.kind == "type" and attr.name in attrs
    }
    for arg, value in zip(definition.inputs, arguments, strict=True):
        dtype = symbolic_dtype(value) if arg.type_attr else None
        if dtype is not None:
            known.setdefault(arg.type_attr, dtype)
    return known


def _convert_argument(definition: OpDef, arg: ArgDef, value: Any, known: dict[str, DType]) -> list[Tensor]:
    try:
        if arg.type_list_attr:
            return [convert_to_tensor(item, name=f"{arg.name}_{place}") for place, item in enumerate(value)]
        dtype = arg.dtype if arg.dtype is not None else known.get(arg.type_attr)
        if arg.number_attr:
            return convert_n_to_tensor(value, dtype, arg.name)
        attr = definition.attr(arg.type_attr) if arg.type_attr else None
        preferred = attr.default if attr is not None else None
        return [convert_to_tensor(value, dtype, arg.name, preferred_dtype=preferred, as_ref=arg.is_ref)]
    except (GraphTypeError, TypeError) as error:
        message = getattr(error, "message", str(error))
        raise GraphTypeError(f"{definition.name}: input {arg.name!r}: {message}") from error
