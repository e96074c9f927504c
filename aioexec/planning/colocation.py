"""Colocation: groups of operations that must share a device, and the placement constraints of each group.

Joined are the members of a colocation group ("loc:@x" in the attribute `_class`), and the two ends of a reference or resource
edge, since neither crosses devices. The constraints of a group are those of all its members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aioexec import dtypes
from aioexec.devices.device_set import DeviceSet
from aioexec.errors import GraphValueError, InternalError, InvalidArgumentError
from aioexec.graph.attrs import arg_dtypes
from aioexec.graph.device_spec import DeviceName, parse
from aioexec.graph.kernels.kernel_registry import DeviceTypes, describe_kernels, supported_device_types
from aioexec.graph.node import Operation, Tensor

if TYPE_CHECKING:
    from aioexec.devices.device import Device

_COLOCATED: Final = "loc:@"


class ColocationGraph:
    """A union-find structure over operations, by position; the data of a group is stored at its root.

    Attributes:
        names: the device requested for the group; a full name if a member is assigned.
        types: the device types that can run every member, preferred ones first.
        assigned: the device on which a member is already, or "".
        sizes: the number of members.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        devices: DeviceSet,
        assigned: Mapping[str, str],
        allow_soft_placement: bool,
    ) -> None:
        self.operations = operations
        self.positions = {op: position for position, op in enumerate(operations)}
        self.possible = Possible(devices, allow_soft_placement)
        self._soft = allow_soft_placement
        self._parents = list(range(len(operations)))
        self.sizes = [1] * len(operations)
        self.names: list[DeviceName] = []
        self.types: list[tuple[str, ...]] = []
        self.assigned: list[str] = [assigned.get(op.name, "") for op in operations]
        for op, device in zip(operations, self.assigned, strict=True):
            self._add(op, device)

    def _add(self, op: Operation, assigned: str) -> None:
        types = supported_device_types(op, self.possible.device_types)
        if assigned:
            device = self._assigned_device(op, assigned)
            if device.device_type not in types:
                raise InternalError(
                    None,
                    op,
                    f"Assigned device {assigned!r} of {op.name!r} does not have registered OpKernel support for {op.type}",
                )
            types = (device.device_type,)
        elif not types:
            raise InvalidArgumentError(
                None,
                op,
                f"No OpKernel was registered to support Op {op.type!r} used by {op.name!r} on any of the device types "
                f"{list(self.possible.device_types)}\nRegistered kernels:\n{describe_kernels(op.type)}",
            )
        self.names.append(self._requested_device(op) if not assigned else parse(assigned))
        self.types.append(types)

    def _requested_device(self, op: Operation) -> DeviceName:
        try:
            return parse(op.device)
        except GraphValueError as error:
            raise InvalidArgumentError(None, op, f"{op.type} {op.name!r}: {error.message}") from error

    def _assigned_device(self, op: Operation, assigned: str) -> Device:
        try:
            parse(assigned)
        except GraphValueError as error:
            message = f"Malformed assigned device {assigned!r} of {op.name!r}: {error.message}"
            raise InternalError(None, op, message) from error
        device = self.possible.by_name.get(assigned)
        if device is None:
            raise InternalError(
                None,
                op,
                f"Assigned device {assigned!r} of {op.name!r} does not match any device; there are "
                f"{list(self.possible.by_name)}",
            )
        return device

    def root(self, position: int) -> int:
        """The position that represents the group."""
        parents = self._parents
        while parents[position] != position:
            parents[position] = parents[parents[position]]
            position = parents[position]
        return position

    def members(self, position: int) -> list[Operation]:
        root = self.root(position)
        return [op for other, op in enumerate(self.operations) if self.root(other) == root]

    # Joining

    def join_groups(self) -> None:
        """Join the members of each colocation group.

        Raises:
            InvalidArgumentError: two of them cannot share a device.
        """
        firsts: dict[str, int] = {}
        named = [(position, op) for position, op in enumerate(self.operations) if "_class" in op.attrs]
        groups = {group for _, op in named for group in op.attrs["_class"]}
        if groups:
            wanted = {group.removeprefix(_COLOCATED) for group in groups}
            firsts = {f"{_COLOCATED}{op.name}": i for op, i in self.positions.items() if op.name in wanted}
        for position, op in named:
            for group in op.attrs["_class"]:
                if group.startswith(_COLOCATED):
                    self._join(position, firsts.setdefault(group, position))

    def join_edges(self, fed: Collection[Tensor]) -> None:
        """Join the ends of each reference or resource edge that does not come from a feed.

        Raises:
            InvalidArgumentError: no device serves both.
        """
        has_own_memory = not all(self.possible.device_types.values())
        for position, op in enumerate(self.operations):
            for tensor in _held_inputs(op):
                source = self.positions.get(tensor.op)
                if source is not None and tensor not in fed:
                    self._join_edge(source, position)
            for tensor in op.inputs if has_own_memory else ():
                source = self.positions.get(tensor.op)
                if tensor.dtype is dtypes.variant and source is not None and tensor not in fed:
                    self._join_if_possible(source, position)

    def _join_if_possible(self, source: int, target: int) -> None:
        """Join the ends of an edge with a list, whose elements are in the memory of the device that made it."""
        first, second = self.root(source), self.root(target)
        if (self.assigned[first] and self.assigned[second]) or not self._can_merge(first, second):
            return
        if _common(self.types[first], self.types[second]):
            self._join(target, source)

    def _join_edge(self, source: int, target: int) -> None:
        """Join two groups; the request of the target is dropped if it contradicts the source's."""
        first, second = self.root(source), self.root(target)
        if first == second:
            return
        if self.assigned[first] and self.assigned[second] and self.assigned[first] != self.assigned[second]:
            raise InvalidArgumentError(
                None,
                self.operations[target],
                "Nodes were connected by a reference connection (requiring them to be on the same device), but the two "
                f"nodes were assigned two different devices: {self._describe(source)} and {self._describe(target)}",
            )
        kept, other = (second, first) if self.assigned[second] else (first, second)
        if not self.names[kept].is_open and not self._can_merge(kept, other):
            self.names[other] = self.names[kept]
        self._join(target, source)

    def _can_merge(self, kept: int, other: int) -> bool:
        name, asked = self.names[kept], self.names[other]
        if asked.is_open or name == asked:
            return True
        types = _common(self.types[kept], self.types[other])
        return name.is_compatible(asked) and bool(self.possible.devices(name.merged_over(asked), types))

    def _join(self, position: int, other: int) -> None:
        first, second = self.root(position), self.root(other)
        if first == second:
            return
        types = _common(self.types[first], self.types[second])
        if not types:
            raise InvalidArgumentError(
                None,
                self.operations[position],
                f"Cannot colocate nodes {self._named(position)} and {self._named(other)} because no device type supports both "
                f"of those nodes and the other nodes colocated with them.{self.describe_groups(position, other)}",
            )
        name, assigned = self._merge(position, other, first, second)
        if self.sizes[first] < self.sizes[second]:
            first, second = second, first
        self._parents[second] = first
        self.sizes[first] += self.sizes[second]
        self.names[first], self.types[first], self.assigned[first] = name, types, assigned

    def _merge(self, position: int, other: int, first: int, second: int) -> tuple[DeviceName, str]:
        """The constraints of both groups together: an assigned device does not change."""
        try:
            name = merge_constraints(self.names[first], self.names[second], self._soft)
            assigned = {self.assigned[first], self.assigned[second]} - {""}
            if len(assigned) > 1:
                raise Incompatible(f"they are assigned to two devices, {sorted(assigned)}")
        except Incompatible as error:
            raise InvalidArgumentError(
                None,
                self.operations[position],
                f"Cannot colocate nodes {self._named(position)} and {self._named(other)}: {error}"
                f"{self.describe_groups(position, other)}",
            ) from None
        for device in assigned:
            return parse(device), device
        return name, ""

    # Descriptions for errors

    def _named(self, position: int) -> str:
        return repr(self.operations[position].name)

    def _describe(self, position: int) -> str:
        root = self.root(position)
        return f"{self._named(position)} on {self.assigned[root] or self.names[root].to_string()!r}"

    def describe_groups(self, *positions: int) -> str:
        """The members of the groups of these positions: their ops, device types and requested devices."""
        return "\n".join(["", *self._description(positions)])

    def _description(self, positions: Sequence[int]) -> Iterator[str]:
        members = list(dict.fromkeys(op for position in positions for op in self.members(position)))
        yield "Colocation group had the following types and supported devices:"
        for op_type, op in {op.type: op for op in members}.items():
            yield f"  {op_type}: {' '.join(supported_device_types(op, self.possible.device_types))}"
        yield "Colocation members and user-requested devices:"
        for op in members[:_MOST_SHOWN]:
            yield f"  {op.name} ({op.type}) {op.device}".rstrip()
        if len(members) > _MOST_SHOWN:
            yield f"  and {len(members) - _MOST_SHOWN} more"


_MOST_SHOWN: Final = 20


class Possible:
    """The devices that can run a group, best first; results are cached.

    The order: the preferred device type, then devices of the client's process, then the lowest name.
    """

    def __init__(self, devices: DeviceSet, allow_soft_placement: bool) -> None:
        runs_cpu_kernels = {device.device_type: device.runs_cpu_kernels for device in devices.devices}
        self.device_types: DeviceTypes = {
            device_type: runs_cpu_kernels[device_type] for device_type in devices.prioritized_device_types
        }
        self.by_name = {device.name: device for device in devices.devices}
        self.soft = allow_soft_placement
        self._names = {parse(name): name for name in self.by_name}
        client = devices.client_device
        self._client_process = parse(client.name if client is not None else "").without_device()
        self._answers: dict[tuple[DeviceName, tuple[str, ...]], list[str]] = {}

    def devices(self, name: DeviceName, types: tuple[str, ...]) -> list[str]:
        """The devices of these types that match the name; if there are none, under soft placement, others of that process."""
        key = (name, types)
        if key not in self._answers:
            found = self._matching(name, types)
            if not found and self.soft:
                found = self._matching(name.without_device(), types)
            self._answers[key] = found
        return self._answers[key]

    def matching(self, name: DeviceName) -> list[str]:
        """The devices that match the name, of any type."""
        return [full for each, full in self._names.items() if name.matches(each)]

    def _matching(self, name: DeviceName, types: tuple[str, ...]) -> list[str]:
        found = [
            (
                types.index(each.device_type),
                not self._client_process.matches(each),
                each.job or "",
                each.replica or 0,
                each.task or 0,
                each.device_index or 0,
                full,
            )
            for each, full in self._names.items()
            if each.device_type in types and name.matches(each)
        ]
        return [rank[-1] for rank in sorted(found)]


class Incompatible(Exception):
    """Two device names contradict each other; the message states the component."""


def merge_constraints(name: DeviceName, other: DeviceName, soft: bool) -> DeviceName:
    """The constraints of both names; under soft placement, types or indices that differ are dropped.

    Raises:
        Incompatible: they contradict each other.
    """
    both = name.merged_over(other)
    if both == other.merged_over(name):
        return both
    fields = {
        "job": "jobs",
        "replica": "replicas",
        "task": "tasks",
        "device_type": "types",
        "device_index": "ids",
    }
    for field, plural in fields.items():
        if None in (getattr(name, field), getattr(other, field)) or getattr(name, field) == getattr(
            other, field
        ):
            continue
        if soft and field == "device_type":
            return both.without_device()
        if soft and field == "device_index":
            return DeviceName(both.job, both.replica, both.task, both.device_type)
        raise Incompatible(
            f"Cannot merge devices with incompatible {plural}: '{name.to_string()}' and '{other.to_string()}'"
        )
    raise AssertionError((name, other))


def _common(types: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return types if types == others else tuple(each for each in types if each in others)


def _held_inputs(op: Operation) -> Iterator[Tensor]:
    """The inputs that are references to state and are passed as references."""
    for position, tensor in enumerate(op.inputs):
        if tensor.dtype is dtypes.resource or (tensor.dtype.is_ref and _wants_reference(op, position)):
            yield tensor


def _wants_reference(op: Operation, position: int) -> bool:
    wanted = [dtype.is_ref for arg in op.row.definition.inputs for dtype in arg_dtypes(arg, op.attrs)]
    return wanted[position]
