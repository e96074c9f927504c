"""Placement: assigns each operation to a device.

An operation requests a (partial) device name, and shares its device with the operations it is colocated with (see
`colocation`). Among the devices that match and can run the whole group, the first of the preferred type is chosen, except:

- an op that reads only shapes is placed with its input, which then need not move;
- a source with a single output is placed with its consumers, or in main memory if they take the value there.

Placement is a pure function, linear in nodes and edges. It is applied to the whole graph, or to the part one signature needs;
then ancestors of a feed are ignored, and the feed itself is on the client device.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from aioexec.devices.device_set import DeviceSet
from aioexec.errors import FailedPreconditionError, GraphValueError, InvalidArgumentError
from aioexec.graph.device_spec import parse
from aioexec.graph.kernels.kernel_registry import (
    LABEL,
    RUN_BY_ENGINE,
    describe_kernels,
    has_registered_kernels,
    host_memory_inputs,
)
from aioexec.graph.node import Operation, Tensor
from aioexec.planning.colocation import ColocationGraph
from aioexec.planning.subgraph import Subgraph

Log = Callable[[str, str, str], None]
"""Called for each operation with its name, its op and its device."""

Placement = dict[str, str]
"""From names of operations to full names of devices."""


def place(
    operations: Sequence[Operation],
    devices: DeviceSet,
    *,
    allow_soft_placement: bool = False,
    assigned: Mapping[str, str] | None = None,
    fed: Collection[Tensor] = (),
    log: Log | None = None,
) -> Placement:
    """Choose a device for each operation.

    Args:
        allow_soft_placement: if no device of the requested type or index can run a group, choose another of that process.
        assigned: the devices of operations that are placed already, by name; they stay there.
        fed: tensors that come from a feed, not from their operation.
        log: called for every decision.

    Raises:
        FailedPreconditionError: there is no device.
        InvalidArgumentError: no device can run an operation, or two that must share a device cannot.
        InternalError: an assigned device does not exist, or cannot run the operation.
    """
    if not devices.devices:
        raise FailedPreconditionError("No devices are registered")
    assigned = assigned or {}
    placement = _place_on_only_device(operations, devices, assigned, allow_soft_placement)
    if placement is None:
        graph = ColocationGraph(operations, devices, assigned, allow_soft_placement)
        graph.join_groups()
        graph.join_edges(fed)
        placement = _Placing(graph).placement()
    if log is not None:
        for op in operations:
            log(op.name, op.type, placement[op.name])
    return placement


def stateful_placements(operations: Sequence[Operation], placement: Mapping[str, str]) -> Placement:
    """The placements that a session must pass to every later `place` as `assigned`, since state cannot move."""
    return {op.name: placement[op.name] for op in operations if op.row.is_stateful}


def set_devices(subgraph: Subgraph, placement: Mapping[str, str], client_device: str) -> None:
    """Set the devices of a subgraph's nodes; feeds are on the client device."""
    for node in subgraph.nodes:
        node.device = placement[node.name] if node.feed is None else client_device


def _place_on_only_device(
    operations: Sequence[Operation],
    devices: DeviceSet,
    assigned: Mapping[str, str],
    allow_soft_placement: bool,
) -> Placement | None:
    """Place everything on the only device; None if there are several, or a constraint must be checked."""
    if len(devices.devices) > 1:
        return None
    device = devices.devices[0]
    rows = {op.row.name: op.row for op in operations}
    if not all(
        (row.kernel is not None and device.runs_cpu_kernels) or row.role in RUN_BY_ENGINE
        for row in rows.values()
    ):
        return None
    if any(map(has_registered_kernels, rows)) or any(LABEL in op.attrs for op in operations):
        return None
    if any(name != device.name for name in assigned.values()):
        return None
    full = parse(device.name)
    try:
        asked = [parse(name) for name in {op.device for op in operations}]
    except GraphValueError:
        return None
    if not all(
        name.matches(full) or (allow_soft_placement and name.without_device().matches(full)) for name in asked
    ):
        return None
    return dict.fromkeys([op.name for op in operations], device.name)


class _Placing:
    """One placement; `_chosen` is the device of each group, by its root."""

    def __init__(self, graph: ColocationGraph) -> None:
        self._graph = graph
        self._chosen: dict[int, str] = {}

    def placement(self) -> Placement:
        graph = self._graph
        sources = []
        for position, op in enumerate(graph.operations):
            root = graph.root(position)
            if root in self._chosen:
                continue
            if graph.sizes[root] == 1 and _is_source(op):
                sources.append(position)  # after its consumers
            else:
                devices = self._devices(position)
                followed = self._device_of(op.inputs[0].op) if op.row.shape_only and op.inputs else None
                self._chosen[root] = followed if followed in devices else devices[0]
        for position in sources:
            devices = self._devices(position)
            followed = self._device_of_consumers(graph.operations[position], devices)
            self._chosen[position] = followed if followed in devices else devices[0]
        return {op.name: self._chosen[graph.root(position)] for position, op in enumerate(graph.operations)}

    def _device_of(self, op: Operation) -> str | None:
        position = self._graph.positions.get(op)
        return None if position is None else self._chosen.get(self._graph.root(position))

    def _device_of_consumers(self, source: Operation, devices: list[str]) -> str | None:
        """The device of all consumers; if they take the value in main memory, and it is always there, the device of that."""
        (output,) = source.outputs
        consumers = [op for op in output.consumers() if op in self._graph.positions]
        found = {self._device_of(op) for op in consumers}
        if len(found) != 1:
            return None
        (device,) = found
        if source.control_inputs:  # in a loop it would be sent in each iteration
            return device
        if device is not None and all(_wants_in_host_memory(op, output, device) for op in consumers):
            return next((name for name in devices if parse(name).device_type == "CPU"), device)
        return device

    def _devices(self, position: int) -> list[str]:
        """The devices that may run the group of an operation, best first."""
        graph = self._graph
        root = graph.root(position)
        devices = graph.possible.devices(graph.names[root], graph.types[root])
        if not devices:
            op = graph.operations[position]
            raise InvalidArgumentError(
                None,
                op,
                f"Cannot assign a device for operation {op.name!r} ({op.type}, created at {op.created_at}): "
                f"{self._reason(position)} All available devices [{', '.join(graph.possible.by_name)}]."
                f"{graph.describe_groups(position)}",
            )
        return devices

    def _reason(self, position: int) -> str:
        graph = self._graph
        op, name = graph.operations[position], graph.names[graph.root(position)]
        unsatisfied = f"Could not satisfy explicit device specification '{op.device}'"
        if parse(op.device) != name:
            return (
                f"{unsatisfied} because the node was colocated with a group of nodes that required incompatible device "
                f"'{name.to_string()}'."
            )
        if not graph.possible.matching(name):
            return (
                f"{unsatisfied}: Operation was explicitly assigned to {op.device} but available devices are "
                f"[ {', '.join(graph.possible.by_name)} ]. Make sure the device specification refers to a valid device."
            )
        if name.device_type is None:
            return f"{unsatisfied} because no supported kernel for its devices is available."
        return (
            f"{unsatisfied} because no supported kernel for {name.device_type} devices is available.\n"
            f"Registered kernels:\n{describe_kernels(op.type)}\n"
        )


def _is_source(op: Operation) -> bool:
    return not op.inputs and len(op.outputs) == 1 and not op.outputs[0].dtype.is_ref


def _wants_in_host_memory(op: Operation, tensor: Tensor, device: str) -> bool:
    if not has_registered_kernels(op.type):
        return False
    uses = {position for position, each in enumerate(op.inputs) if each is tensor}
    return uses <= host_memory_inputs(op, parse(device).device_type or "")
