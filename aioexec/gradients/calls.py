"""Gradients of calls of functions: a function of the inputs and the gradients of the outputs, which computes the body anew.

So a call needs not be changed once it is made. As in TensorFlow, what is random in a body is drawn anew as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from aioexec.errors import UnimplementedError
from aioexec.gradients.backprop import gradients
from aioexec.gradients.walk import is_trainable
from aioexec.graph.apply import apply_op
from aioexec.graph.attrs import NameAttrList
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.functions import FuncGraph, copy_operations
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor

_made: WeakKeyDictionary[FuncGraph, tuple[FuncGraph, list[int]]] = WeakKeyDictionary()
"""By body: its gradient, and which inputs the outputs of that are for."""


def gradient_of_call(op: Operation, *output_gradients: Any) -> list[Tensor | None]:
    """The gradients of the inputs of a call: a call of the gradient of its body."""
    assert op.row.bodies is not None
    (body,) = op.row.bodies(op)
    gradient, places = _gradient_body(body)
    graph = get_default_graph()
    found: list[Tensor | None] = [
        apply_op("ZerosLike", tensor) if is_trainable(tensor.dtype) else None for tensor in op.inputs
    ]
    if not places:
        return found
    name = f"{body.name}_gradient"
    count = 0
    while gradient.name not in graph.functions:
        if name not in graph.functions:
            gradient.name = name
            graph.add_function(gradient.as_function())
            break
        count += 1
        name = f"{body.name}_gradient_{count}"
    types = [tensor.dtype.base_dtype for tensor in gradient.outputs]
    given = [*op.inputs, *map(_dense, op.outputs, output_gradients)]
    results = apply_op("PartitionedCall", given, f=gradient.name, Tout=types)
    for place, result in zip(places, results, strict=True):
        found[place] = result
    return found


def _dense(output: Tensor, gradient: Any) -> Tensor:
    zeros = gradient is None
    tensor: Tensor = apply_op("ZerosLike", output) if zeros else convert_to_tensor(gradient)
    return tensor


def _gradient_body(body: FuncGraph) -> tuple[FuncGraph, list[int]]:
    """The body that computes the gradients of a body's inputs, as far as they have one, and which inputs those are."""
    if body not in _made:
        made, _, results = _differentiated(body)
        places = [k for k, result in enumerate(results) if result is not None]
        made.outputs = [convert_to_tensor(result) for result in results if result is not None]
        _made[body] = made, places
    return _made[body]


def _differentiated(body: FuncGraph) -> tuple[FuncGraph, Sequence[Tensor], list[Any]]:
    """A copy of a body with inputs for the gradients of its outputs: it, its inputs, and their gradients."""
    made = FuncGraph(f"{body.name}_gradient", functions=body.functions)
    replacements = {
        tensor: made.add_input(tensor.dtype, tensor.dims, tensor.op.name) for tensor in body.inputs
    }
    inputs = list(replacements.values())
    with made.as_default():
        output_gradients = [made.add_input(tensor.dtype, tensor.dims, "gradient") for tensor in body.outputs]
        copy_operations(body.get_operations(), made, replacements)
        outputs = [replacements[tensor] for tensor in body.outputs]
        results = gradients(outputs, inputs, output_gradients)
    return made, inputs, results


_symbolic: WeakKeyDictionary[FuncGraph, FuncGraph] = WeakKeyDictionary()


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
    if body not in _symbolic:
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
        _symbolic[body] = made
    return (_symbolic[body],)
