"""The registry of kernels by op and device type.

The kernel of an op's row works in main memory. It serves every device type that runs CPU kernels, unless a kernel is registered
for that type. A device type with memory of its own has only the kernels registered for it. Ops that the engine runs by role
(control flow, transfer) need no kernel and are available on every device.

The node's attribute `_kernel` selects kernels by label; nodes without it use the kernels without a label.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, NotFoundError
from aioexec.graph import registry
from aioexec.graph.attrs import input_count
from aioexec.graph.kernels.kernel import Attrs, Reference, Role

if TYPE_CHECKING:
    from aioexec.graph.node import Operation
    from aioexec.graph.opdef import ArgDef

LABEL: Final = "_kernel"

RUN_BY_ENGINE: Final = frozenset(
    {
        Role.SWITCH,
        Role.MERGE,
        Role.ENTER,
        Role.EXIT,
        Role.NEXT_ITERATION,
        Role.LOOP_COND,
        Role.SEND,
        Role.RECV,
        Role.COPY_TO_HOST,
        Role.COPY_TO_DEVICE,
        Role.CALL,
        Role.SYMBOLIC,
        Role.IF,
        Role.CASE,
        Role.WHILE,
        Role.STRUCTURE,
    }
)

_HOST_INPUTS: Final[Mapping[Role, frozenset[int]]] = {
    Role.SWITCH: frozenset({1}),
    Role.LOOP_COND: frozenset({0}),
    Role.COPY_TO_DEVICE: frozenset({0}),
}
_HOST_OUTPUTS: Final[Mapping[Role, frozenset[int]]] = {
    Role.MERGE: frozenset({1}),
    Role.LOOP_COND: frozenset({0}),
    Role.COPY_TO_HOST: frozenset({0}),
}
"""Of ops that the engine runs by role, what is in main memory on every device."""

DeviceTypes = Mapping[str, bool]
"""From each device type, preferred ones first, to whether it runs CPU kernels."""


@dataclass(frozen=True, slots=True, eq=False)
class KernelDef:
    """A kernel of an op for a device type.

    Attributes:
        make: binds it to a node; the result is called like that of the row's own kernel.
        constraints: the allowed values of attributes (of a list: of each element).
        label: the kernel serves only nodes with this label.
        priority: among several kernels for a node the highest is chosen; a device type with a higher one is preferred.
        host_memory: names of inputs and outputs that are in main memory, whatever the device.
    """

    op: str
    device_type: str
    make: Reference
    constraints: Mapping[str, tuple[Any, ...]]
    label: str = ""
    priority: int = 0
    host_memory: frozenset[str] = frozenset()

    def serves(self, attrs: Attrs) -> bool:
        """Whether the attributes satisfy the constraints."""
        return all(
            value in allowed
            for name, allowed in self.constraints.items()
            for value in (attrs[name] if isinstance(attrs[name], tuple | list) else (attrs[name],))
        )

    def __str__(self) -> str:
        text = f"device='{self.device_type}'"
        for name, allowed in self.constraints.items():
            text += f"; {name} in [{', '.join(map(_shown, allowed))}]"
        return text + (f"; label='{self.label}'" if self.label else "")


def _shown(value: Any) -> str:
    return value.name if isinstance(value, DType) else repr(value)


_kernels: dict[str, list[KernelDef]] = {}
"""By op."""
_registrations: dict[str, Callable[[], None]] = {}
"""By device type; see `register_when_used`."""
_registering = threading.Lock()
"""Held during these calls, since several planner threads may need them at once."""


def register_kernel(
    op: str,
    device_type: str,
    make: Reference,
    *,
    constraints: Mapping[str, Sequence[Any]] | None = None,
    label: str = "",
    priority: int = 0,
    host_memory: Sequence[str] = (),
) -> KernelDef:
    """Register a kernel of an op for a device type; see `KernelDef`.

    Raises:
        NotFoundError: unknown op.
        InvalidArgumentError: the op has no such attribute, input or output.
    """
    definition = registry.lookup(op).definition
    attrs = {attr.name for attr in definition.attrs}
    args = {arg.name for arg in (*definition.inputs, *definition.outputs)}
    for kind, named, known in (("attr", constraints or (), attrs), ("HostMemory arg", host_memory, args)):
        unknown = sorted(set(named) - known)
        if unknown:
            raise InvalidArgumentError(
                f"OpKernel of {op!r} for {device_type}: {kind} {unknown[0]!r} not found in the op's {sorted(known)}"
            )
    allowed = {name: tuple(values) for name, values in (constraints or {}).items()}
    kernel = KernelDef(op, device_type, make, allowed, label, priority, frozenset(host_memory))
    _kernels.setdefault(op, []).append(kernel)
    return kernel


def has_registered_kernels(op_type: str) -> bool:
    """Whether kernels besides the row's own are registered for the op."""
    return op_type in _kernels


def has_kernels_for(device_type: str) -> bool:
    """Whether any kernels are registered for the device type."""
    return any(kernel.device_type == device_type for kernels in _kernels.values() for kernel in kernels)


def register_when_used(device_type: str, register: Callable[[], None]) -> None:
    """Have a call register the kernels of a device type when a session with such a device first plans; it may take long."""
    _registrations[device_type] = register


def ensure_registered(device_type: str) -> None:
    """Make the call of `register_when_used` for a device type, unless it has kernels; not for the event loop."""
    register = _registrations.get(device_type)
    if register is not None:
        with _registering:
            if not has_kernels_for(device_type):
                register()


def find_kernel(op_type: str, device_type: str, attrs: Attrs, *, runs_cpu_kernels: bool) -> KernelDef:
    """The kernel for a node with these attributes on a device type.

    Args:
        runs_cpu_kernels: whether the row's own kernel serves this device type too.

    Raises:
        InvalidArgumentError: several with the same priority.
        NotFoundError: none.
    """
    kernel = _registered(op_type, device_type, attrs)
    if kernel is None and runs_cpu_kernels and not label_of(attrs):
        make = registry.lookup(op_type).kernel
        if make is not None:
            return _row_kernel(op_type, device_type, make)
    if kernel is None:
        label = f" with label {label_of(attrs)!r}" if label_of(attrs) else ""
        raise NotFoundError(
            f"No registered {op_type!r} OpKernel for {device_type!r} devices{label} compatible with the attributes "
            f"{_listed(attrs)}. Registered:\n{describe_kernels(op_type)}"
        )
    return kernel


@functools.cache
def _row_kernel(op_type: str, device_type: str, make: Reference) -> KernelDef:
    """The row's own kernel as a KernelDef; cached, since it is the same for every node."""
    return KernelDef(op_type, device_type, make, {})


def is_overridden(op: Operation, device_type: str) -> bool:
    """Whether a kernel registered for the device type is used for an operation, instead of the row's own."""
    return _registered(op.type, device_type, op.attrs) is not None


def label_of(attrs: Attrs) -> str:
    """The kernel label of a node; an attribute `_kernel` that is not a string counts as none."""
    label = attrs.get(LABEL, "")
    return label if isinstance(label, str) else ""


def _registered(op_type: str, device_type: str, attrs: Attrs) -> KernelDef | None:
    if op_type not in _kernels:
        return None
    label = label_of(attrs)
    serving = [
        kernel
        for kernel in _kernels[op_type]
        if kernel.device_type == device_type and kernel.label == label and kernel.serves(attrs)
    ]
    if not serving:
        return None
    highest = max(kernel.priority for kernel in serving)
    first, *others = (kernel for kernel in serving if kernel.priority == highest)
    if others:
        raise InvalidArgumentError(
            f"Multiple OpKernel registrations match {op_type!r} with the attributes {_listed(attrs)} at the same priority "
            f"{highest}: '{first}' and '{others[0]}'"
        )
    return first


def supported_device_types(op: Operation, device_types: DeviceTypes) -> tuple[str, ...]:
    """The device types that can run an operation, preferred ones first.

    Raises:
        InvalidArgumentError: several kernels serve it equally.
    """
    row = op.row
    if row.role in RUN_BY_ENGINE:
        return tuple(device_types)
    has_row_kernel = row.kernel is not None and not label_of(op.attrs)
    if row.name not in _kernels:
        return tuple(name for name, runs in device_types.items() if runs and has_row_kernel)
    priorities: dict[str, int] = {}
    for name, runs_cpu_kernels in device_types.items():
        kernel = _registered(row.name, name, op.attrs)
        if kernel is not None:
            priorities[name] = kernel.priority
        elif runs_cpu_kernels and has_row_kernel:
            priorities[name] = 0
    return tuple(sorted(priorities, key=lambda name: -priorities[name]))


def host_memory_inputs(op: Operation, device_type: str) -> frozenset[int]:
    """The inputs that the node's kernel on the device type, or the engine, expects in main memory."""
    if op.row.role in RUN_BY_ENGINE:
        return _HOST_INPUTS.get(op.row.role, frozenset())
    return _host_memory(op, device_type, op.row.definition.inputs)


def host_memory_outputs(op: Operation, device_type: str) -> frozenset[int]:
    """The outputs that the node's kernel on the device type, or the engine, leaves in main memory."""
    if op.row.role in RUN_BY_ENGINE:
        return _HOST_OUTPUTS.get(op.row.role, frozenset())
    return _host_memory(op, device_type, op.row.definition.outputs)


def _host_memory(op: Operation, device_type: str, args: Sequence[ArgDef]) -> frozenset[int]:
    kernel = _registered(op.type, device_type, op.attrs)
    if kernel is None or not kernel.host_memory:
        return frozenset()
    in_host_memory = [
        arg.name in kernel.host_memory for arg in args for _ in range(input_count(arg, op.attrs))
    ]
    return frozenset(position for position, is_there in enumerate(in_host_memory) if is_there)


def describe_kernels(op_type: str) -> str:
    """The kernels of an op, one per line."""
    return "\n".join(f"  {line}" for line in _lines(op_type)) or "  <no registered kernels>"


def _lines(op_type: str) -> Iterator[str]:
    row = registry.lookup(op_type)
    if row.kernel is not None or row.role in RUN_BY_ENGINE:
        yield "device='CPU'"
    yield from map(str, _kernels.get(op_type, ()))


def _listed(attrs: Attrs) -> str:
    return f"[{', '.join(f'{name}={_shown(value)}' for name, value in attrs.items() if name[0] != '_')}]"
