"""What the ways to run the items of a partition have in common: what is awaited, what is still to come, and the end.

Driven by events: whatever happens leads to `_advance`, which does everything that can be done at once, in slices the event loop
can bear. Nothing is left behind: a run has ended when everything begun has finished.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aioexec.execution.engine import Engine
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.propagator import initial_items
from aioexec.execution.rendezvous import transfer_key
from aioexec.execution.step import Step
from aioexec.execution.together import Run
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition

PROGRAM, FEED, SEND, RECV = Kind.PROGRAM, Kind.FEED, Kind.SEND, Kind.RECV


class PartitionExecutor:
    """What outlives the steps of one partition: the items it begins with, for how much each item waits, the runners of its
    programs and the keys of its transfers, by item; `received` are the dtypes of what comes for its Recvs,
    `targets` the items of the operations that are asked for; `is_straight`, there is nothing but programs and feeds.
    """

    def __init__(self, partition: Partition, engine: Engine) -> None:
        self.partition = partition
        self.initial = initial_items(partition.items)
        self.waits = [item.waits for item in partition.items]
        self.is_straight = all(item.kind is PROGRAM or item.kind is FEED for item in partition.items)
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


class ItemsRun(Run):
    """Runs the items of one partition in one step.

    Constant: partition. Changing: `values`, of the outermost frame; `fresh`, those nobody else holds; `on_finished`, who is
    told of items that are over; `_running`, what is awaited, with what it is for; `_missing_feeds`, of a partial run, how many
    are still to come; `_is_due`, an `_advance` is on its way.
    """

    __slots__ = (
        "_initial",
        "_is_due",
        "_missing_feeds",
        "_runners",
        "_running",
        "fresh",
        "on_finished",
        "partition",
        "values",
    )

    def __init__(
        self,
        executor: PartitionExecutor,
        step: Step,
        values: list[Any] | None = None,
        fresh: set[int] | None = None,
        missing_feeds: int = 0,
    ) -> None:
        super().__init__(step)
        self.partition = executor.partition
        self.values = list(self.partition.values) if values is None else values
        self.fresh = set() if fresh is None else fresh
        self.on_finished: Callable[[ItemsRun, int], None] | None = None
        self._initial = executor.initial
        self._runners = executor.runners
        self._running: dict[asyncio.Future[Any], Any] = {}
        self._missing_feeds = missing_feeds
        self._is_due = False

    @abc.abstractmethod
    def _is_waiting(self) -> bool:
        """Whether there is something to begin, or something to come but feeds."""

    @abc.abstractmethod
    def _advance(self) -> None:
        """Do all that can be done now; what is too much for this tick of the loop is put off.

        Whatever is raised ends the step, and goes to who awaits it: in a callback of the loop it would be lost, and he wait on.
        """

    def _put_off(self) -> None:
        """Go on in another tick of the loop, in turn with whoever else has more to do."""
        if not self._is_due:
            self._is_due = True
            self.step.engine.budget.call_in_turn(self._advance_now)

    def _advance_now(self) -> None:
        self._is_due = False
        self._advance()

    def _wait_for(self, rest: Awaitable[Any], what: Any) -> None:
        future = asyncio.ensure_future(rest)
        self._running[future] = what
        future.add_done_callback(self._done)

    @abc.abstractmethod
    def _done(self, future: asyncio.Future[Any]) -> None:
        """What was awaited is over."""

    def stop(self) -> None:
        """The step has failed: cancel what is awaited."""
        for future in self._running:
            future.cancel()
        self._check_end()

    def _check_end(self) -> None:
        """End, once nothing runs and nothing more can come."""
        if self._running or self.has_ended:
            return
        if self.step.error is None and (self._missing_feeds or self._is_due or self._is_waiting()):
            return
        self._mark_ended()
