"""Stack ops, with which TensorFlow's graphs save values of a loop for its gradient.

The V2 ops pass a stack on resource edges, the others on reference edges: a scalar object array that holds the
`resources.stack.Stack` itself, which is freed with the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import InternalError, InvalidArgumentError
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.resources.manager import resource_of_handle
from aioexec.resources.stack import Stack
from aioexec.resources.tensor_list import boxed
from aioexec.shapes import Dims


def _made(context: KernelContext) -> Compute:
    attrs, name = context.attrs, context.attrs["stack_name"] or context.node_name

    def make(max_size: Array | None = None) -> Array:
        if max_size is not None and max_size.ndim:
            raise InvalidArgumentError(f"Stack size must be a scalar, but had shape: {shown(max_size.shape)}")
        return boxed(Stack(name, attrs["elem_type"], -1 if max_size is None else int(max_size)))

    return make


def _stack_in(handle: Any) -> Stack:
    return resource_of_handle(Stack, handle, "")


def _push(context: KernelContext) -> Compute:
    def push(handle: Any, value: Array) -> Array:
        _stack_in(handle).push(value)
        return value

    return push


def _pop(context: KernelContext) -> Compute:
    expected = context.attrs["elem_type"]

    def pop(handle: Any) -> Array:
        value = _stack_in(handle).pop()
        if value.dtype != expected.numpy:
            raise InternalError(
                f"Output 0 of type {value.dtype} does not match declared output type {expected.name}"
            )
        return value

    return pop


def _handle_shape(context: ShapeContext) -> Sequence[Dims]:
    return [(2,)]


for _suffix, _kind, _size in (("", "Ref(string)", ""), ("V2", "resource", "max_size:int32")):
    for _signature, _shape, _kernel in (
        (
            f"Stack{_suffix}({_size}) -> (handle:{_kind}) [elem_type:type; stack_name:string='']",
            _handle_shape,
            _made,
        ),
        (
            f"StackPush{_suffix}(handle:{_kind}, elem:T) -> (output:T) [T:type; swap_memory:bool=false]",
            lambda context: [context.inputs[1]],
            _push,
        ),
        (
            f"StackPop{_suffix}(handle:{_kind}) -> (elem:elem_type) [elem_type:type]",
            lambda context: [None],
            _pop,
        ),
        (
            f"StackClose{_suffix}(handle:{_kind}) -> ()",
            lambda context: [],
            lambda context: lambda handle: _stack_in(handle).close(),
        ),
    ):
        register(
            f"{_signature} {{stateful}}",  # no pass may merge, fold or prune them
            shape=_shape,
            kernel=_kernel,
            gradient=NOT_DIFFERENTIABLE,
            dynamic_shape=_signature.startswith("StackPop"),
        )
