"""What outlives the runs of a partition: its item runners, the keys of its transfers, its constants on the device."""

from __future__ import annotations

from dataclasses import replace

from aioexec.devices.memory_device import MemoryDevice
from aioexec.execution.engine import Engine
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.memory.device_runner import DeviceRunner
from aioexec.execution.memory.device_work import DeviceWork
from aioexec.execution.memory.uploads import Uploads
from aioexec.execution.propagator import initial_items
from aioexec.execution.rendezvous import transfer_key
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition


class PartitionExecutor:
    """What all runs of one partition share.

    Attributes:
        initial: the items that are ready when a step begins.
        runners: of the items that are programs.
        keys: of its transfers, by item.
        received: the dtypes of the values that its Recvs receive, by item.
        goes_to_device: of each Send, whether what it sends stays in the memory of devices.
        targets: the items of the operations that were asked for.
        memory: the device, if it has memory of its own; then `device_runners` run the programs, not `runners`.

    `_uploads` are its constants on a device with memory of its own.
    """

    def __init__(self, partition: Partition, engine: Engine) -> None:
        self.partition = partition
        self.initial = initial_items(partition.items)
        device = engine.devices[partition.device]
        self.memory = device if isinstance(device, MemoryDevice) else None
        self.runners = [
            ItemRunner(item, partition, engine) if item.kind is Kind.PROGRAM and self.memory is None else None
            for item in partition.items
        ]
        self.device_runners = (
            [] if self.memory is None else [DeviceRunner(item, engine.jit) for item in partition.items]
        )
        self._uploads = None if self.memory is None else Uploads(self.memory, partition)
        self.keys = {
            item.index: transfer_key(item.node.op.attrs)
            for item in partition.items
            if item.kind is Kind.SEND or item.kind is Kind.RECV
        }
        self.received = {
            item.index: None
            if dtype.is_ref
            else dtype.numpy  # references cannot be transferred: such a Recv is refused
            for item in partition.items
            if item.kind is Kind.RECV
            for dtype in item.node.output_dtypes()
        }
        self.goes_to_device = {
            item.index: item.node.row.name == "_Send"
            and isinstance(engine.devices.get(item.node.op.attrs["recv_device"]), MemoryDevice)
            for item in partition.items
            if item.kind is Kind.SEND
        }
        wanted = {id(node) for node in partition.subgraph.targets}
        self.targets = {
            instruction.node.op: item.index
            for item in partition.items
            for instruction in item.instructions
            if id(instruction.node) in wanted
        }

    def upload(self) -> None:
        """Copy the constants to the device, if they are not there: once for all steps, whose work comes after it.

        Raises:
            OpError: the device cannot take one; it names the node.
        """
        if self._uploads is not None and not self._uploads.are_done:
            self.partition = replace(self.partition, values=self._uploads.begin(self.partition.values))

    def watch_uploads(self, work: DeviceWork) -> None:
        """Have a step, which has just begun, end after the copies of the constants."""
        if self._uploads is not None:
            self._uploads.watch(work)
