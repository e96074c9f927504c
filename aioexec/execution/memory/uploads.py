"""The constants of one partition in the memory of a device: copied there once for all steps.

A step does not wait for the copies before it begins, since its work comes after them; but it ends after them, and fails if one
of them does. The next step then copies that constant again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.devices.memory_device import MemoryDevice
from aioexec.errors import OpError
from aioexec.execution.memory.device_work import DeviceWork
from aioexec.planning.instruction import locate_node
from aioexec.planning.plan import Partition
from aioexec.planning.subgraph import Node
from aioexec.resources.buffer import Buffer


@dataclass(slots=True, eq=False)
class _Upload:
    """A constant: its number among the partition's values, its node, its array, and its copy on the device once begun."""

    value: int
    node: Node
    array: Any
    buffer: Buffer | None = None

    @property
    def has_succeeded(self) -> bool:
        ready = None if self.buffer is None else self.buffer.ready
        return ready is not None and ready.is_done and ready.error is None


class Uploads:
    """See the module. `_uncertain` are the constants whose copies are not known to have succeeded."""

    def __init__(self, device: MemoryDevice, partition: Partition) -> None:
        self._device = device
        self._uncertain = [_Upload(value, node, partition.values[value]) for value, node in partition.uploads]

    @property
    def are_done(self) -> bool:
        """Whether all constants are on the device."""
        return not self._uncertain

    def begin(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Begin the copies that were not begun, or have failed: the values of the partition with all copies.

        Raises:
            OpError: the device cannot take a constant; it names the node.
        """
        found = list(values)
        for each in self._uncertain:
            if each.buffer is None or each.buffer.ready.error is not None:
                try:
                    each.buffer = self._device.copy_in(each.array)
                except OpError as error:
                    raise locate_node(error, each.node, self._device.name) from error
            found[each.value] = each.buffer
        self._uncertain = [each for each in self._uncertain if not each.has_succeeded]
        return tuple(found)

    def watch(self, work: DeviceWork) -> None:
        """Have a step end after the copies that go on, and fail by one that has failed."""
        for each in self._uncertain:
            if each.buffer is not None:
                work.watch(each.buffer.ready, work.launcher(each.node))
