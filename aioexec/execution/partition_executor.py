"""The executor of one partition: the state that outlives its steps, and the factory of its runs."""

from __future__ import annotations

from typing import Any

from aioexec.execution.engine import Engine
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.partition_run import PartitionRun
from aioexec.execution.propagator import initial_items
from aioexec.execution.rendezvous import transfer_key
from aioexec.execution.step import Step
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition

PROGRAM, SEND, RECV = Kind.PROGRAM, Kind.SEND, Kind.RECV


class PartitionExecutor:
    """Makes the runs of one partition; holds the state that they share.

    Attributes:
        initial: the items that are ready when a step begins.
        runners: of the items that are programs.
        keys: of its transfers, by item.
        received: the dtypes of the values that its Recvs receive, by item.
        targets: the items of the operations that were asked for.
    """

    def __init__(self, partition: Partition, engine: Engine) -> None:
        self.partition = partition
        self.initial = initial_items(partition.items)
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
            else dtype.numpy  # references cannot be transferred: such a Recv is refused
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
        done: int = 0,
    ) -> PartitionRun:
        """A run of the partition in one step, not started yet.

        Args:
            values: the values of the partition when the step begins; None: its constants.
            fresh: collects the values that nothing else references.
            missing_feeds: how many feeds of a partial run are still to come.
            done: how many of the first items have run already.
        """
        return PartitionRun(self, step, values, fresh, missing_feeds, done)
