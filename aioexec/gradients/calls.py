"""Gradients of function calls by the function's own rule or gradient function, and the op SymbolicGradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import UnimplementedError
from aioexec.gradients.backprop import gradients
from aioexec.gradients.bodies import gradient_of_bodies
from aioexec.gradients.walk import is_continuous
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.func_graph import FuncGraph, as_func_graph, copy_operations
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.static_values import variable_dims
from aioexec.ops.functions.calls import check_body


def gradient_of_call(op: Operation, *output_gradients: Any) -> list[Any]:
    """The gradient rule of calls: the function's own rule or gradient function, otherwise the gradient of its body."""
    called: NameAttrList = op.attrs.get("f") or NameAttrList(op.type, op.attrs)
    function = op.graph.functions.function(called.name)
    if function.gradient_rule is not None:
        return list(function.gradient_rule(op, *output_gradients))
    if function.gradient is not None:
        types = [tensor.dtype.base_dtype for tensor in op.inputs]
        given = [*op.inputs, *map(_dense, op.outputs, output_gradients)]
        gradient = NameAttrList(function.gradient, called.attrs)
        return list(apply_list_op("PartitionedCall", given, f=gradient, Tout=types))
    return [
        apply_op("ZerosLike", tensor) if found is None and is_continuous(tensor.dtype) else found
        for tensor, found in zip(op.inputs, gradient_of_bodies(op, *output_gradients), strict=True)
    ]


def _dense(output: Tensor, gradient: Any) -> Tensor:
    return apply_op("ZerosLike", output) if gradient is None else convert_to_tensor(gradient)


def symbolic_gradient_bodies(op: Operation) -> Sequence[FuncGraph]:
    """The body of a SymbolicGradient: a copy of the function's body and its gradient; zeros for inputs without a gradient.

    Raises:
        UnimplementedError: an op in the body has no gradient.
        InvalidArgumentError: the operation has other inputs or outputs.
    """
    called: NameAttrList = op.attrs["f"]
    function = op.graph.functions.function(called.name)
    if function.gradient is not None:
        gradient = as_func_graph(op.graph.functions.body(NameAttrList(function.gradient, called.attrs)))
    else:
        body = as_func_graph(function.body(called.attrs))
        try:
            gradient = body.derived.get(_SYMBOLIC) or _differentiate_body(body)
        except LookupError as error:
            raise UnimplementedError(f"{op.type} {op.name!r} of function {called.name!r}: {error}") from error
        body.derived[_SYMBOLIC] = gradient
    check_body(op, "f", gradient, op.inputs, op.outputs)
    return [gradient]


_SYMBOLIC = "symbolic gradient"


def _differentiate_body(body: FuncGraph) -> FuncGraph:
    """A copy of a body with additional inputs for the gradients of its outputs, which returns those of its inputs."""
    made = FuncGraph(f"{body.name}_gradient", functions=body.functions.copy())
    replacements = {
        tensor: made.add_input(tensor.dtype, tensor.dims, tensor.op.name, variable_dims(tensor))
        for tensor in body.inputs
    }
    inputs = list(replacements.values())
    with made.as_default():
        output_gradients = [made.add_input(tensor.dtype, tensor.dims, "gradient") for tensor in body.outputs]
        copy_operations(body.get_operations(), made, replacements)
        outputs = [replacements[tensor] for tensor in body.outputs]
        made.outputs = [
            apply_op("ZerosLike", tensor) if result is None else convert_to_tensor(result)
            for tensor, result in zip(inputs, gradients(outputs, inputs, output_gradients), strict=True)
        ]
    made.finalize()
    return made
