"""Kernels for the opaque device, made from the rows of the op registry.

A kernel determines the shapes of the outputs by the row's shape rule, allocates them, and has the device call the row's NumPy
kernel on the contents of its memory. What a shape depends on is in main memory. Not registered, so left to the processor:
strings, queues and other resources, ops that wait, choices among references, and ops whose output shape
depends on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.devices.list_kernels import is_on_lists, register_list_kernel
from aioexec.devices.row_kernels import (
    ASSIGNS,
    ELSEWHERE,
    host_memory,
    known_shape,
    make_without_work,
    output_shapes,
    value_types,
)
from aioexec.errors import InternalError
from aioexec.graph import registry
from aioexec.graph.kernels.device_kernel import Launcher
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, Role
from aioexec.graph.kernels.kernel_registry import RUN_BY_ENGINE, register_kernel
from aioexec.graph.registry import Row
from aioexec.resources.buffer import Buffer
from aioexec.resources.device_variable import DeviceVariable
from aioexec.resources.variable import Variable
from aioexec.testing.opaque_device import DEVICE_TYPE, Array

_GUARDS = frozenset({"CountUpTo", "ResourceCountUpTo"})
"""Ops whose error keeps nodes that wait for them from running: on the device it would come too late."""


def register_opaque_kernels() -> None:
    """Register a kernel for every op that an opaque device can run."""
    for row in registry.registered():
        if is_on_lists(row):
            register_list_kernel(row, DEVICE_TYPE)
        elif _can_run(row):
            constraints = value_types(row)
            register_kernel(
                row.name, DEVICE_TYPE, _maker(row), constraints=constraints, host_memory=host_memory(row)
            )


def _can_run(row: Row) -> bool:
    if row.role in RUN_BY_ENGINE or row.role is Role.PLACEHOLDER or row.kernel is None:
        return row.role is Role.NO_OP
    if row.asynchronous or row.dynamic_shape or row.bodies is not None:
        return False
    if row.name in _GUARDS:
        return False
    if any(arg.is_ref for arg in row.definition.outputs) and not _first_is_reference(row):
        return False
    uses_variable = bool(row.reads or row.writes) or _makes_variable(row)
    if row.is_stateful and not uses_variable and row.definition.attr("seed") is None:
        return False
    fixed = {arg.dtype for arg in (*row.definition.inputs, *row.definition.outputs)}
    return not fixed & (ELSEWHERE - {dtypes.resource} if uses_variable else ELSEWHERE)


def _makes_variable(row: Row) -> bool:
    """Whether the op makes a variable, and no other resource."""
    return row.role is Role.VARIABLE and row.definition.attr("dtype") is not None


def _first_is_reference(row: Row) -> bool:
    """Whether a reference that the op returns is its first input, or one that it makes."""
    inputs = row.definition.inputs
    return not inputs or inputs[0].is_ref


def _maker(row: Row) -> Reference:
    """What makes the kernel of a row."""
    make = row.kernel
    assert make is not None
    return make_without_work(row) or (lambda context: OpaqueKernel(row, context, make(context)))


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
        shapes = output_shapes(self._row, self._attrs, inputs, self._takes_reference)
        for dtype, shape in zip(self._dtypes, shapes, strict=True):
            if dtype.is_ref:
                outputs.append(inputs[0])
                continue
            outputs.append(launcher.allocate(dtype.numpy, known_shape(self._row, shape)))
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
            inputs[k].replace(buffer, self._attrs.get("validate_shape", True))
        return outputs[0] if len(outputs) == 1 else tuple(outputs) if outputs else None

    def _content(self, k: int, variable: DeviceVariable) -> Buffer | None:
        """What a variable holds; None if the node replaces it without a look."""
        return None if self._row.name in ASSIGNS and k == 0 else variable.content()

    def _next(self, launcher: Launcher, k: int, inputs: Sequence[Any]) -> Buffer:
        """A buffer for the next content of a variable."""
        like = inputs[1] if self._row.name in ASSIGNS else inputs[k].content()
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
    """Whether it is a buffer, or a place that stands for one."""
    return not isinstance(value, np.ndarray | Variable)
