"""The executions of nodes in one step: plain records, converted to a StepStats proto after the step.

A record costs a tuple and an append, from any thread; the proto is built, and its module imported, on request only.

Times are those of `perf_counter_ns`. The wall clock is read once, when the collector is made, so that setting it during the
step neither reorders nodes nor stretches them. For every node scheduled <= start <= end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from aioexec.dtypes import as_dtype

if TYPE_CHECKING:
    from aioexec.formats.protos import DeviceStepStats, NodeExecStats, StepStats

ALLOCATOR = "cpu"
_LARGEST_LISTED = 20  # tensors listed individually in an out-of-memory report


class OutputRecord(NamedTuple):
    """An output of a node: its slot, the name of its dtype, its shape, and the bytes it takes."""

    slot: int
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class NodeRecord(NamedTuple):
    """One execution of one node. Times are nanoseconds of `perf_counter_ns`; `thread_id` is the system's.

    `inputs` are names of tensors, "a" or "a:1", without control inputs.
    """

    device: str
    name: str
    op: str
    scheduled: int
    start: int
    end: int
    thread_id: int
    outputs: tuple[OutputRecord, ...]
    inputs: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        return sum(output.nbytes for output in self.outputs)

    @property
    def label(self) -> str:
        return f"{self.name} = {self.op}({', '.join(self.inputs)})"


class StepStatsCollector:
    """Collects the records of one step.

    Constant: `_to_wall`, the difference between the wall clock and `perf_counter_ns`. Changing: `records`, appended to by the
    threads that run nodes; `_others`, the StepStats of other processes for this step.
    """

    def __init__(self) -> None:
        self.records: list[NodeRecord] = []
        self._others: list[StepStats] = []
        self._to_wall = time.time_ns() - time.perf_counter_ns()

    def node_done(
        self,
        device: str,
        node_name: str,
        op_type: str,
        scheduled_ns: int,
        start_ns: int,
        end_ns: int,
        thread_id: int,
        outputs: Sequence[tuple[int, str, tuple[int, ...], int]] = (),
        inputs: Sequence[str] = (),
    ) -> None:
        """Record an execution of a node; thread-safe.

        Args:
            thread_id: from `threading.get_native_id`.
            outputs: (slot, dtype name, shape, bytes) of each output that is known.
            inputs: names of its input tensors.
        """
        self.records.append(
            NodeRecord(
                device,
                node_name,
                op_type,
                min(scheduled_ns, start_ns),
                start_ns,
                max(start_ns, end_ns),
                thread_id,
                tuple([OutputRecord(*output) for output in outputs]),
                tuple(inputs),
            )
        )

    def add(self, others: StepStats) -> None:
        """Add the StepStats of another process for this step."""
        self._others.append(others)

    def step_stats(self) -> StepStats:
        """All records so far, by device, in order of start time."""
        from aioexec.formats.protos import StepStats

        result = StepStats()
        devices: dict[str, DeviceStepStats] = {}
        names = {thread.native_id: thread.name for thread in threading.enumerate()}
        for record in sorted(self.records, key=lambda record: record.start):
            if record.device not in devices:
                devices[record.device] = result.dev_stats.add(device=record.device)
            device = devices[record.device]
            self._write(device.node_stats.add(), record)
            if record.thread_id in names:
                device.thread_names[record.thread_id] = names[record.thread_id]
        for others in self._others:
            result.MergeFrom(others)
        return result

    def _write(self, node: NodeExecStats, record: NodeRecord) -> None:
        scheduled, start, end = (at + self._to_wall for at in (record.scheduled, record.start, record.end))
        node.node_name = record.name
        node.timeline_label = record.label
        node.thread_id = record.thread_id
        node.scheduled_micros, node.scheduled_nanos = scheduled // 1000, scheduled
        node.all_start_micros, node.all_start_nanos = start // 1000, start
        node.op_end_rel_micros = node.all_end_rel_micros = end // 1000 - start // 1000
        node.op_end_rel_nanos = node.all_end_rel_nanos = end - start
        for output in record.outputs:
            _write_output(node.output.add(slot=output.slot), output)
        if record.nbytes:
            total = record.nbytes
            node.memory.add(allocator_name=ALLOCATOR, total_bytes=total, peak_bytes=total, live_bytes=total)


def _write_output(node_output: Any, output: OutputRecord) -> None:
    from aioexec.formats.tensor_codec import shape_to_proto

    description = node_output.tensor_description
    description.dtype = as_dtype(output.dtype).as_datatype_enum
    description.shape.CopyFrom(shape_to_proto(output.shape))
    allocation = description.allocation_description
    allocation.requested_bytes = allocation.allocated_bytes = output.nbytes
    allocation.allocator_name = ALLOCATOR


# Out-of-memory reports


def allocations_report(records: Iterable[NodeRecord], alive: Iterable[str] | None = None) -> str:
    """List the largest tensors of a step that ran out of memory, for `report_tensor_allocations_upon_oom`.

    Args:
        alive: names of the tensors that are still held ("a" or "a:1"); None: all that were made.
    """
    wanted = None if alive is None else set(alive)
    devices: dict[str, dict[str, OutputRecord]] = {}
    for record in records:
        for output in record.outputs:
            name = tensor_name(record.name, output.slot)
            if output.nbytes and (wanted is None or name in wanted):
                devices.setdefault(record.device, {})[name] = output
    return "\n".join(line for device, outputs in devices.items() for line in _device_report(device, outputs))


def _device_report(device: str, outputs: dict[str, OutputRecord]) -> Iterator[str]:
    total = sum(output.nbytes for output in outputs.values())
    yield f"Current usage from device: {device}, allocator: {ALLOCATOR}, {readable_bytes(total)}"
    largest = sorted(outputs.items(), key=lambda item: (-item[1].nbytes, item[0]))
    for name, output in largest[:_LARGEST_LISTED]:
        yield f"  {readable_bytes(output.nbytes)} from {name}, {output.dtype}{list(output.shape)}"
    rest = largest[_LARGEST_LISTED:]
    if rest:
        size = sum(output.nbytes for _, output in rest)
        yield f"  {readable_bytes(size)} in {len(rest)} smaller ones"


def tensor_name(node: str, slot: int) -> str:
    """The name of an output in the form of node inputs."""
    return f"{node}:{slot}" if slot else node


def readable_bytes(count: int) -> str:
    """A human-readable number of bytes: 512B, 1.50KiB, 3.00MiB."""
    if count < 1024:
        return f"{count}B"
    size = float(count)
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.2f}{unit}"
    return f"{size / 1024:.2f}GiB"
