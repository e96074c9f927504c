"""The only partition of a step in parts, if it is nothing but feeds and programs: no loops, nothing dead, nothing received.

What is ready is then told by counts of what an item still waits for; all else is as in `PartitionRun`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from aioexec.errors import CancelledError
from aioexec.execution.budget import TICK_NS
from aioexec.execution.partition_run import PartitionExecutor
from aioexec.execution.step import Step
from aioexec.execution.together import Run


class StraightRun(Run):
    """Runs such a partition in one step.

    Constant: partition. Changing: `values`; `fresh`, those nobody else holds; `_waits`, for how much each item still waits;
    `_ready`, the items that wait for nothing; `_running`, what is awaited, with its item; `_missing_feeds`, how many are still
    to come; `_is_due`, an `_advance` is on its way.
    """

    __slots__ = (
        "_initial",
        "_is_due",
        "_missing_feeds",
        "_ready",
        "_runners",
        "_running",
        "_waits",
        "fresh",
        "on_finished",
        "partition",
        "values",
    )

    def __init__(self, executor: PartitionExecutor, step: Step, feeds: int) -> None:
        super().__init__(step)
        self.partition = partition = executor.partition
        self.values = list(partition.values)
        self.fresh: set[int] = set()
        self.on_finished: Callable[[Run, int], None] | None = None
        self._initial = executor.initial
        self._runners = executor.runners
        self._waits = executor.waits.copy()
        self._ready: deque[int] = deque()
        self._running: dict[asyncio.Future[None], int] = {}
        self._missing_feeds = feeds
        self._is_due = False

    @property
    def receives(self) -> int:
        return 0

    def start(self) -> None:
        """Begin: all that can be done at once has been done when this returns."""
        self.step.stops.append(self.stop)
        if self._initial:
            self._ready.extend([item.index for item in self._initial])
            self._advance()
        else:
            self._check_end()

    def stop(self) -> None:
        """The step has failed: cancel what is awaited."""
        for future in self._running:
            future.cancel()
        self._check_end()

    def _check_end(self) -> None:
        """End, once nothing runs and nothing more can come."""
        if self._running or self.has_ended:
            return
        if self.step.error is None and (self._missing_feeds or self._ready or self._is_due):
            return
        self._mark_ended()

    def feed(self, position: int, value: Any) -> None:
        """A feed has come."""
        place = self.partition.feeds[position]
        self.values[place] = value
        self._missing_feeds -= 1
        self._finished(self.partition.producers[place])
        self._advance()

    def _finished(self, index: int) -> None:
        """An item is over: those that waited for nothing else are ready."""
        waits = self._waits
        for edge in self.partition.items[index].edges:
            target = edge.target
            waits[target] -= 1
            if not waits[target]:
                self._ready.append(target)
        if self.on_finished is not None:
            self.on_finished(self, index)

    def _advance(self) -> None:
        """Do all that can be done now; what is too much for this tick of the loop is done in the next one."""
        step, ready = self.step, self._ready
        budget = step.engine.budget
        try:
            while ready and step.error is None:
                if budget.spent > TICK_NS:
                    if not self._is_due:
                        self._is_due = True
                        budget.call_in_turn(self._advance_now)
                    return
                index = ready.popleft()
                runner = self._runners[index]
                assert runner is not None
                rest = runner.begin(self.values, self.fresh, step)
                if rest is None:
                    self._finished(index)
                else:
                    self._wait_for(rest, index)
        except BaseException as error:
            step.fail(error)
        self._check_end()

    def _advance_now(self) -> None:
        self._is_due = False
        self._advance()

    def _wait_for(self, rest: Awaitable[None], index: int) -> None:
        future = asyncio.ensure_future(rest)
        self._running[future] = index
        future.add_done_callback(self._done)

    def _done(self, future: asyncio.Future[None]) -> None:
        """What was awaited is over."""
        index = self._running.pop(future)
        try:
            future.result()
        except asyncio.CancelledError:  # by itself, if nobody has cancelled the step
            self.step.fail(CancelledError(f"{self.partition.items[index].node.name!r} was cancelled"))
        except BaseException as error:
            self.step.fail(error)
        else:
            if self.step.error is None:
                self._finished(index)
        self._advance()
