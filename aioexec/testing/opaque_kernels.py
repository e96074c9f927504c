"""Kernels for the opaque device, made from the rows of the op registry.

A kernel determines the shapes of the outputs by the row's shape rule, allocates them, and has the device call the row's NumPy
kernel on the contents of its memory. What a shape depends on is in main memory. Not registered, so left to the processor:
strings, lists of tensors, queues and other resources, ops that wait, and those whose output shape depends on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import InternalError
from aioexec.graph import registry
from aioexec.graph.kernels.device_kernel import Launcher
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, Role
from aioexec.graph.kernels.kernel_registry import RUN_BY_ENGINE, register_kernel
from aioexec.graph.opdef import ArgDef, AttrDef, OpDef
from aioexec.graph.registry import Row, ShapeContext, output_dims
from aioexec.resources.buffer import Buffer
from aioexec.resources.device_variable import DeviceVariable
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims
from aioexec.testing.opaque_device import DEVICE_TYPE, Array, OpaqueBuffer

_ELSEWHERE = frozenset({dtypes.string, dtypes.variant, dtypes.resource})
"""Dtypes of values that an opaque device does not hold."""
_ALL = tuple(value for value in vars(dtypes).values() if isinstance(value, DType) and not value.is_ref)
_ON_OBJECT = frozenset({"IsVariableInitialized", "VarIsInitializedOp", "DestroyResourceOp"})
"""Ops on a variable that do not look at its content."""
_ASSIGNS = frozenset({"Assign", "AssignVariableOp"})


def register_opaque_kernels() -> None:
    """Register a kernel for every op that an opaque device can run."""
    for row in registry.registered():
        if _can_run(row):
            definition = row.definition
            names = [attr.name for attr in definition.attrs if _types_value(definition, attr)]
            constraints = (
                {} if row.role is Role.CONSTANT else {name: _numbers(definition, name) for name in names}
            )
            register_kernel(
                row.name, DEVICE_TYPE, _maker(row), constraints=constraints, host_memory=_host_memory(row)
            )


def _can_run(row: Row) -> bool:
    if row.role in RUN_BY_ENGINE or row.role is Role.PLACEHOLDER or row.kernel is None:
        return row.role is Role.NO_OP
    if row.asynchronous or row.dynamic_shape or row.bodies is not None:
        return False
    if row.lists is not None and not row.lists.also_tensors:
        return False
    uses_variable = bool(row.reads or row.writes) or row.role is Role.VARIABLE
    if row.is_stateful and not uses_variable and row.definition.attr("seed") is None:
        return False
    fixed = {arg.dtype for arg in (*row.definition.inputs, *row.definition.outputs)}
    return not fixed & (_ELSEWHERE - {dtypes.resource} if uses_variable else _ELSEWHERE)


def _types_value(definition: OpDef, attr: AttrDef) -> bool:
    """Whether an attribute is the dtype of inputs, outputs or a variable."""
    arguments = (*definition.inputs, *definition.outputs)
    return attr.kind in ("type", "list(type)") and (
        attr.name == "dtype" or any(attr.name in (arg.type_attr, arg.type_list_attr) for arg in arguments)
    )


def _numbers(definition: OpDef, name: str) -> list[DType]:
    attr = definition.attr(name)
    assert attr is not None
    allowed = _ALL if attr.allowed is None else attr.allowed
    return [dtype for dtype in allowed if dtype not in _ELSEWHERE]


def _host_memory(row: Row) -> list[str]:
    definition = row.definition
    if row.shape_only or row.role is Role.CONSTANT or row.name in _ON_OBJECT:
        return [arg.name for arg in definition.outputs]
    return [_argument(definition.inputs, position).name for position in row.shape_operands]


def _argument(arguments: Sequence[ArgDef], position: int) -> ArgDef:
    """The argument to which the input of a number belongs; the number counts from the end if it is negative."""
    if position < 0:
        return _argument(arguments[::-1], -1 - position)
    for number, argument in enumerate(arguments):
        if argument.is_list or number == position:
            return argument
    raise AssertionError(position)


def _maker(row: Row) -> Reference:
    """What makes the kernel of a row."""
    if row.role is Role.VARIABLE:
        return _make_variable
    if row.role is Role.READ:
        return lambda context: lambda launcher, variable: variable.content()
    if row.role is Role.IDENTITY:
        return lambda context: lambda launcher, *inputs: inputs if len(inputs) > 1 else inputs[0]
    if row.role in (Role.NO_OP, Role.CONTROL_TRIGGER):
        return lambda context: lambda launcher, *inputs: None
    make = row.kernel
    assert make is not None
    if row.role is Role.CONSTANT or row.name in _ON_OBJECT:
        return lambda context: _without_launcher(make(context))
    if row.shape_only:
        return lambda context: _of_shapes(make(context))
    return lambda context: OpaqueKernel(row, context, make(context))


def _without_launcher(compute: Compute) -> Compute:
    return lambda launcher, *inputs: compute(*inputs)


def _of_shapes(compute: Compute) -> Compute:
    return lambda launcher, *inputs: compute(
        *(np.broadcast_to(np.zeros((), each.dtype), each.shape) for each in inputs)
    )


def _make_variable(context: KernelContext) -> Compute:
    attrs = context.attrs
    name = attrs["shared_name"] or context.node_name

    def find() -> Variable:
        return context.resources.lookup_or_create(
            DeviceVariable,
            attrs["container"],
            name,
            lambda: DeviceVariable(name, attrs["dtype"], attrs["shape"]),
        )

    return find


class OpaqueKernel:
    """The kernel of one node.

    Args:
        compute: the row's NumPy kernel.
    """

    def __init__(self, row: Row, context: KernelContext, compute: Compute) -> None:
        self._row = row
        self._attrs = context.attrs
        self._dtypes = list(context.output_dtypes)
        self._takes_reference = [dtype.is_ref for dtype in context.input_dtypes]
        self._compute = compute

    def __call__(self, launcher: Launcher, *inputs: Any) -> Any:
        outputs: list[Any] = []
        made: list[Buffer] = []
        for dtype, dims in zip(self._dtypes, self._output_dims(inputs), strict=True):
            if dtype.is_ref:
                outputs.append(inputs[0])
                continue
            if dims is None or None in dims:
                raise InternalError(f"the shape rule of {self._row.name} gives {dims} for known inputs")
            outputs.append(launcher.allocate(dtype.numpy, tuple(dim or 0 for dim in dims)))
            made.append(outputs[-1])
        before = {
            k: self._content(k, variable)
            for k, variable in enumerate(inputs)
            if isinstance(variable, DeviceVariable)
        }
        after = {k: self._next(launcher, k, inputs) for k in self._row.writes}
        reads = [*(each for each in before.values() if each is not None), *filter(_is_buffer, inputs)]
        launcher.launch(self._work(inputs, before, len(made)), reads, [*made, *after.values()])
        for k, buffer in after.items():
            _replace(inputs[k], buffer, self._attrs.get("validate_shape", True))
        return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None

    def _output_dims(self, inputs: Sequence[Any]) -> Sequence[Any]:
        def value(k: int) -> Array | None:
            return inputs[k] if isinstance(inputs[k], np.ndarray) else None

        def partial(k: int) -> Dims:
            content = value(k)
            return None if content is None else tuple(None if d < 0 else int(d) for d in content.ravel())

        def variable(k: int) -> Dims:
            held: DeviceVariable = inputs[k]
            return held.content().shape if held.is_initialized else held.dims

        given = [
            each.shape if not isinstance(each, Variable) else variable(k) if self._takes_reference[k] else ()
            for k, each in enumerate(inputs)
        ]
        return output_dims(self._row, ShapeContext(self._attrs, given, value, partial, variable))

    def _content(self, k: int, variable: DeviceVariable) -> Buffer | None:
        """What a variable holds; None if the node replaces it without a look."""
        return None if self._row.name in _ASSIGNS and k == 0 else variable.content()

    def _next(self, launcher: Launcher, k: int, inputs: Sequence[Any]) -> Buffer:
        """A buffer for the next content of a variable."""
        like = inputs[1] if self._row.name in _ASSIGNS else inputs[k].content()
        return launcher.allocate(like.dtype, like.shape)

    def _work(self, inputs: Sequence[Any], before: dict[int, Buffer | None], count: int) -> Any:
        """What the device does: `count` outputs, then the new contents of the variables."""
        held = [k for k, each in before.items() if each is not None]

        def work(*contents: Array) -> list[Array]:
            taken = iter(contents)
            variables = {}
            for k, variable in enumerate(inputs):
                if isinstance(variable, DeviceVariable):
                    variables[k] = Variable(variable.name, variable.dtype, variable.dims)
            for k in held:
                variables[k].buffer = next(taken)
            given = [
                variables[k] if k in variables else next(taken) if _is_buffer(each) else each
                for k, each in enumerate(inputs)
            ]
            found = self._compute(*given)
            results = found if isinstance(found, tuple | list) else () if found is None else (found,)
            arrays = [np.asarray(each) for each in results if not isinstance(each, Variable)]
            if len(arrays) != count:
                raise InternalError(f"{self._row.name} returned {len(arrays)} values, expected {count}")
            return arrays + [variables[k].require() for k in self._row.writes]

        return work


def _is_buffer(value: Any) -> bool:
    return isinstance(value, OpaqueBuffer)


def _replace(variable: DeviceVariable, buffer: Any, validate_shape: bool) -> None:
    """Make a buffer the content of a variable; if the work that writes it fails, the variable has what it had before."""
    buffer.replaced = variable.buffer
    variable.replace(buffer, validate_shape)

    def settle() -> None:
        if buffer.ready.error is None:
            buffer.replaced = None
            return
        content: Any = variable.buffer
        while content is not None and content.ready.is_done and content.ready.error is not None:
            content = content.replaced
        variable.swap(content)

    if buffer.ready.is_done:
        settle()
    else:
        buffer.ready.add_done_callback(settle)
