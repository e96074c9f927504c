"""The only partition of a step in parts, if it is nothing but feeds and programs: no loops, nothing dead, nothing received.

What is ready is then told by counts of what an item still waits for; all else is as in `PartitionRun`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from aioexec.errors import CancelledError
from aioexec.execution.budget import TICK_NS
from aioexec.execution.items_run import ItemsRun, PartitionExecutor
from aioexec.execution.step import Step


class StraightRun(ItemsRun):
    """Runs such a partition in one step.

    Changing: `_waits`, for how much each item still waits; `_ready`, the items that wait for nothing.
    """

    __slots__ = ("_ready", "_waits")

    def __init__(self, executor: PartitionExecutor, step: Step, missing_feeds: int) -> None:
        super().__init__(executor, step, missing_feeds=missing_feeds)
        self._waits = executor.waits.copy()
        self._ready: deque[int] = deque()

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

    def _is_waiting(self) -> bool:
        return bool(self._ready)

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
        step, ready = self.step, self._ready
        budget = step.engine.budget
        try:
            while ready and step.error is None:
                if budget.spent > TICK_NS:
                    self._put_off()
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

    def _done(self, future: asyncio.Future[Any]) -> None:
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
