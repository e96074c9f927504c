"""A device: nodes are placed on it; it holds their state and the threads that compute them.

The rest of the engine uses only the interface in this module, so a new device type consists of a `Device`, a `DeviceFactory`
(see `registry`) and, unless it runs the rows' own kernels, kernels registered for its type.
"""

from __future__ import annotations

import os
from dataclasses import field
from typing import Any, ClassVar

from aioexec.data_classes import dataclass
from aioexec.devices.op_segment import OpSegment
from aioexec.devices.threads.pools import dismiss_pool
from aioexec.devices.threads.workers import Workers
from aioexec.resources.manager import ResourceManager

MEMORY_LIMIT = 256 << 20
"""The memory limit that a device in main memory reports, as TensorFlow's CPU devices do; it is not enforced."""


def new_incarnation() -> int:
    """64 random bits that are not all zero: distinguish a restarted device from its predecessor of the same name."""
    return int.from_bytes(os.urandom(8), "little") or 1


@dataclass(frozen=True, slots=True)
class DeviceAttributes:
    """The attributes of a device, which are also sent to other processes.

    Attributes:
        name: the full name, "/job:localhost/replica:0/task:0/device:CPU:0".
        memory_limit: in bytes.
        numa_node: 0 if it is not known.
        physical_device_desc: a description of the hardware; "" for the processor itself.
    """

    name: str
    device_type: str
    memory_limit: int = MEMORY_LIMIT
    incarnation: int = field(default_factory=new_incarnation)
    numa_node: int = 0
    physical_device_desc: str = ""

    @property
    def memory_limit_bytes(self) -> int:
        """TensorFlow's name for `memory_limit` in the result of `Session.list_devices`."""
        return self.memory_limit

    def to_proto(self) -> Any:
        """The DeviceAttributes message."""
        from aioexec.formats.protos import DeviceAttributes as Message, DeviceLocality  # loads protobuf

        return Message(
            name=self.name,
            device_type=self.device_type,
            memory_limit=self.memory_limit,
            locality=DeviceLocality(numa_node=self.numa_node),
            incarnation=self.incarnation,
            physical_device_desc=self.physical_device_desc,
        )

    @classmethod
    def from_proto(cls, message: Any) -> DeviceAttributes:
        """Read a DeviceAttributes message."""
        return cls(
            message.name,
            message.device_type,
            message.memory_limit,
            message.incarnation,
            message.locality.numa_node,
            message.physical_device_desc,
        )


class Device:
    """One device of a session.

    `is_native`, `is_remote`, `runs_cpu_kernels` and `has_own_memory` are class attributes: whether programs may be compiled for
    it, whether it belongs to another process (see `remote`), whether it runs the op rows' own kernels (otherwise only kernels
    registered for its type), and whether its values are in memory that the processor does not read (see `memory_device`).

    `resources` and `op_segment` hold its state and its kernels. `workers` compute its nodes; the device is one of the pool's
    holders until it is dismissed.
    """

    is_native: ClassVar[bool] = False
    is_remote: ClassVar[bool] = False
    runs_cpu_kernels: ClassVar[bool] = False
    has_own_memory: ClassVar[bool] = False

    def __init__(self, attributes: DeviceAttributes, workers: Workers) -> None:
        self.attributes = attributes
        self.workers = workers
        self.resources = ResourceManager()
        self.op_segment = OpSegment()
        self._dismissed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    @property
    def name(self) -> str:
        return self.attributes.name

    @property
    def device_type(self) -> str:
        return self.attributes.device_type

    def prepare(self) -> None:
        """Get ready for planning and for the first step, as far as that takes long; called in a planner thread, maybe often."""

    def rewrite(self, subgraph: Any) -> None:
        """Change the `Subgraph` that this device will run; called before it is divided into items."""

    async def sync(self) -> None:
        """Wait until all work submitted to the device so far is done."""

    def dismiss(self) -> None:
        """Release the workers without waiting for their threads; idempotent."""
        if not self._dismissed:
            self._dismissed = True
            dismiss_pool(self.workers)

    async def close(self) -> None:
        """Drop all state and release the workers; their threads have ended if there is no other holder."""
        self.dismiss()
        self.resources.clear()
        if self.workers.closed:
            await self.workers.close()
