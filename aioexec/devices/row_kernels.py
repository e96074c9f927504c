"""What the kernels of devices with memory of their own share: they are made from the rows of the op registry.

Such a kernel determines the shapes of its outputs by the row's shape rule; what a shape depends on is in main memory. Kernels
that compute nothing are the same on every such device: variables, snapshots, identities, shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import InternalError
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Reference, Role
from aioexec.graph.opdef import ArgDef, AttrDef, OpDef
from aioexec.graph.registry import Row, ShapeContext, output_dims
from aioexec.resources.device_variable import DeviceVariable
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

ELSEWHERE = frozenset({dtypes.string, dtypes.variant, dtypes.resource})
"""Dtypes of values that such a device does not hold."""
_ON_OBJECT = frozenset(
    {"IsVariableInitialized", "VarIsInitializedOp", "DestroyResourceOp", "DisableCopyOnRead"}
)
"""Ops on a variable that do not look at its content."""
ASSIGNS = frozenset({"Assign", "AssignVariableOp"})
"""Ops that replace the content of a variable without reading it."""
VALUE_TYPES = tuple(value for value in vars(dtypes).values() if isinstance(value, DType) and not value.is_ref)


def is_value_type(definition: OpDef, attr: AttrDef) -> bool:
    """Whether an attribute is the dtype of inputs, outputs or a variable."""
    arguments = (*definition.inputs, *definition.outputs)
    return attr.kind in ("type", "list(type)") and (
        attr.name == "dtype" or any(attr.name in (arg.type_attr, arg.type_list_attr) for arg in arguments)
    )


def value_types(row: Row) -> Mapping[str, list[DType]]:
    """For each attribute that is the dtype of values: those that it may have and that a device holds.

    Empty for constants, which are in main memory, and for identities, which pass handles and values in main memory as well.
    """
    if row.role in (Role.CONSTANT, Role.IDENTITY):
        return {}
    definition, found = row.definition, {}
    for attr in definition.attrs:
        if is_value_type(definition, attr):
            allowed = VALUE_TYPES if attr.allowed is None else attr.allowed
            found[attr.name] = [dtype for dtype in allowed if dtype not in ELSEWHERE]
    return found


def host_memory(row: Row) -> list[str]:
    """The arguments that are in main memory: what shapes depend on, and results that are known without the device.

    Of a random op all inputs.
    """
    definition = row.definition
    if row.shape_only or row.role is Role.CONSTANT or row.name in _ON_OBJECT:
        return [arg.name for arg in definition.outputs]
    if row.random is not None:
        return [arg.name for arg in definition.inputs]
    return [_argument(definition.inputs, position).name for position in row.shape_operands]


def _argument(arguments: Sequence[ArgDef], position: int) -> ArgDef:
    """The argument to which the input of a number belongs; the number counts from the end if it is negative."""
    if position < 0:
        return _argument(arguments[::-1], -1 - position)
    for number, argument in enumerate(arguments):
        if argument.is_list or number == position:
            return argument
    raise AssertionError(position)


def make_without_work(row: Row) -> Reference | None:
    """What makes the kernel of a row, if that gives the device no work."""
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
    return None


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


def output_shapes(
    row: Row, attrs: Attrs, inputs: Sequence[Any], takes_reference: Sequence[bool]
) -> list[tuple[int, ...] | None]:
    """The shapes of the outputs for these inputs: buffers, arrays or variables; None for references, or where there is no rule.

    Args:
        takes_reference: for each input, whether it is a reference, and so the variable itself.
    """

    results = row.definition.outputs
    if results and all(arg.is_ref for arg in results):
        return [None for _ in results]  # an assignment may give a variable another shape

    def value(k: int) -> np.ndarray[Any, Any] | None:
        return inputs[k] if isinstance(inputs[k], np.ndarray) else None

    def partial(k: int) -> Dims:
        content = value(k)
        return None if content is None else tuple(None if d < 0 else int(d) for d in content.ravel())

    def variable(k: int) -> Dims:
        held: DeviceVariable = inputs[k]
        return held.content().shape if held.is_initialized else held.dims

    given = [
        each.shape if not isinstance(each, Variable) else variable(k) if takes_reference[k] else ()
        for k, each in enumerate(inputs)
    ]
    found = output_dims(row, ShapeContext(attrs, given, value, partial, variable))
    return [None if dims is None or None in dims else tuple(dim or 0 for dim in dims) for dims in found]


def known_shape(row: Row, shape: tuple[int, ...] | None) -> tuple[int, ...]:
    """A shape that the rule must give.

    Raises:
        InternalError: it gives none.
    """
    if shape is None:
        raise InternalError(f"the shape rule of {row.name} gives no shape for known inputs")
    return shape
