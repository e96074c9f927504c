"""Gradients of calls of functions: a function of the inputs and the gradients of the outputs, which computes the body anew.

So a call needs not be changed once it is made. As in TensorFlow, what is random in a body is drawn anew as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import UnimplementedError
from aioexec.gradients.backprop import gradients
from aioexec.gradients.walk import is_continuous
from aioexec.graph.apply import apply_op
from aioexec.graph.attrs import NameAttrList
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.functions import FuncGraph, Function, copy_operations
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.static_values import variable_dims


def gradient_of_call(op: Operation, *output_gradients: Any) -> list[Tensor | None]:
    """The gradients of the inputs of a call: a call of the gradient of the function, or of its body if it has none."""
    called: NameAttrList = op.attrs.get("f") or NameAttrList(op.type, op.attrs)
    function = op.graph.functions.function(called.name)
    given = [*op.inputs, *map(_dense, op.outputs, output_gradients)]
    if function.gradient_rule is not None:
        return list(function.gradient_rule(op, *output_gradients))
    if function.gradient is not None:
        types = [tensor.dtype.base_dtype for tensor in op.inputs]
        return list(
            apply_op("PartitionedCall", given, f=NameAttrList(function.gradient, called.attrs), Tout=types)
        )
    body = function.body(called.attrs)
    gradient, places = body.derived.get("gradient") or _gradient_function(body)
    found: dict[int, Tensor] = {}
    if places:
        get_default_graph().add_function(gradient)
        types = [tensor.dtype.base_dtype for tensor in gradient.graph.outputs]
        results = apply_op("PartitionedCall", given, f=gradient.name, Tout=types)
        found.update(zip(places, results, strict=True))
    return [
        found.get(k) if k in found or not is_continuous(tensor.dtype) else apply_op("ZerosLike", tensor)
        for k, tensor in enumerate(op.inputs)
    ]


def _dense(output: Tensor, gradient: Any) -> Tensor:
    zeros = gradient is None
    tensor: Tensor = apply_op("ZerosLike", output) if zeros else convert_to_tensor(gradient)
    return tensor


def _gradient_function(body: FuncGraph) -> tuple[Function, list[int]]:
    """What computes the gradients of a body's inputs, as far as they have one, and which inputs those are."""
    made, _, results = _differentiated(body)
    places = [k for k, result in enumerate(results) if result is not None]
    with made.as_default():
        made.outputs = [convert_to_tensor(result) for result in results if result is not None]
    first, count = made.name, 0
    while made.name in body.functions:
        count += 1
        made.name = f"{first}_{count}"
    body.derived["gradient"] = found = made.as_function(), places
    return found


def _differentiated(body: FuncGraph) -> tuple[FuncGraph, Sequence[Tensor], list[Any]]:
    """A copy of a body with inputs for the gradients of its outputs: it, its inputs, and their gradients."""
    made = FuncGraph(f"{body.name}_gradient", functions=body.functions)
    replacements = {
        tensor: made.add_input(tensor.dtype, tensor.dims, tensor.op.name, variable_dims(tensor))
        for tensor in body.inputs
    }
    inputs = list(replacements.values())
    with made.as_default():
        output_gradients = [made.add_input(tensor.dtype, tensor.dims, "gradient") for tensor in body.outputs]
        copy_operations(body.get_operations(), made, replacements)
        outputs = [replacements[tensor] for tensor in body.outputs]
        results = gradients(outputs, inputs, output_gradients)
    return made, inputs, results


def symbolic_gradient_bodies(op: Operation) -> tuple[FuncGraph, ...]:
    """What a SymbolicGradient stands for: zeros where an input has no gradient.

    Raises:
        UnimplementedError: something in the body has no gradient.
    """
    called: NameAttrList = op.attrs["f"]
    function = op.graph.functions.function(called.name)
    if function.gradient is not None:
        return (op.graph.functions.body(NameAttrList(function.gradient, called.attrs)),)
    body = function.body(called.attrs)
    if "symbolic gradient" not in body.derived:
        try:
            made, inputs, results = _differentiated(body)
        except LookupError as error:
            raise UnimplementedError(f"{op.type} {op.name!r} of function {called.name!r}: {error}") from error
        with made.as_default():
            made.outputs = [
                apply_op("ZerosLike", tensor) if result is None else convert_to_tensor(result)
                for tensor, result in zip(inputs, results, strict=True)
            ]
        made.finalize()
        body.derived["symbolic gradient"] = made
    return (body.derived["symbolic gradient"],)
