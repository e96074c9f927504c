"""CPU devices: NumPy and compiled kernels on worker threads."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from aioexec.devices.device import Device, DeviceAttributes
from aioexec.devices.options import DeviceOptions
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.numa import NumaNode
from aioexec.devices.threads.pools import intra_op_pools

logger = logging.getLogger(__name__)


class ThreadPoolDevice(Device):
    """The processor, or with NUMA affinity one of its nodes."""

    is_native = True
    runs_cpu_kernels = True


class ThreadPoolDeviceFactory(DeviceFactory):
    """Makes `device_count["CPU"]` devices, by default one.

    `nodes` are those of the machine; they are passed in, since devices are made on the event loop, where no file may be read.
    """

    def __init__(self, nodes: Sequence[NumaNode]) -> None:
        self.nodes = nodes

    def list_physical_devices(self) -> list[str]:
        return ["/physical_device:CPU:0"]

    def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
        names = [f"{name_prefix}/device:CPU:{i}" for i in range(options.device_count.get("CPU", 1))]
        nodes = [self._node(i, name) if options.use_numa_affinity else None for i, name in enumerate(names)]
        bound = [node if len(self.nodes) > 1 else None for node in nodes]
        return [
            ThreadPoolDevice(DeviceAttributes(name, "CPU", numa_node=node.number if node else 0), workers)
            for name, node, workers in zip(names, nodes, intra_op_pools(options, bound), strict=True)
        ]

    def _node(self, index: int, name: str) -> NumaNode:
        node = self.nodes[index % len(self.nodes)]
        if index >= len(self.nodes):
            logger.info(
                "Only %d NUMA nodes visible in system, assigning device %s to NUMA node %d",
                len(self.nodes),
                name,
                node.number,
            )
        return node


class GPUCompatibleCPUDeviceFactory(ThreadPoolDeviceFactory):
    """Makes the CPU devices of a process that has GPUs; registered together with a factory of those, over the plain one.

    They are the same devices. The page-locked memory for what crosses is the GPU devices' (`cuda.pinned`): they give a CPU
    device arrays that have it. That device's own values, of which few cross, have none.
    """
