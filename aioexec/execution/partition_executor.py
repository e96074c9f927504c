"""What outlives the steps of one partition, and makes what runs it in each of them."""

from __future__ import annotations

from typing import Any

from aioexec.execution.engine import Engine
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.partition_run import PartitionRun
from aioexec.execution.propagator import initial_items
from aioexec.execution.rendezvous import transfer_key
from aioexec.execution.step import Step
from aioexec.execution.straight_run import StraightRun
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition

PROGRAM, SEND, RECV = Kind.PROGRAM, Kind.SEND, Kind.RECV
_STRAIGHT = PROGRAM, Kind.FEED, Kind.ASYNCHRONOUS


class PartitionExecutor:
    """What outlives the steps of one partition: the items it begins with, for how much each item waits, the runners of its
    programs and the keys of its transfers, by item; `received` are the dtypes of what comes for its Recvs,
    `targets` the items of the operations that are asked for; `is_straight`, there is nothing
    but programs, feeds and asynchronous kernels.
    """

    def __init__(self, partition: Partition, engine: Engine) -> None:
        self.partition = partition
        self.initial = initial_items(partition.items)
        self.waits = [item.waits for item in partition.items]
        self.is_straight = all(item.kind in _STRAIGHT for item in partition.items)
        self.runners = [
            ItemRunner(item, partition, engine) if item.kind is PROGRAM else None for item in partition.items
        ]
        self.keys = {
            item.index: transfer_key(item.node.op.attrs)
            for item in partition.items
            if item.kind is SEND or item.kind is RECV
        }
        self.received = {
            item.index: None
            if dtype.is_ref
            else dtype.numpy  # references do not travel: such a Recv is refused
            for item in partition.items
            if item.kind is RECV
            for dtype in item.node.output_dtypes()
        }
        wanted = {id(node) for node in partition.subgraph.targets}
        self.targets = {
            instruction.node.op: item.index
            for item in partition.items
            for instruction in item.instructions
            if id(instruction.node) in wanted
        }

    def run(
        self,
        step: Step,
        values: list[Any] | None = None,
        fresh: set[int] | None = None,
        missing_feeds: int = 0,
    ) -> PartitionRun | StraightRun:
        """What runs it in one step, once that is started; `missing_feeds` are still to come, in a partial step."""
        kind = StraightRun if self.is_straight else PartitionRun
        return kind(self, step, values, fresh, missing_feeds)
