"""One partition in one step, if it is nothing but feeds, programs and asynchronous kernels: nothing loops, is dead or received.

What is ready is then told by counts of what an item still waits for; all else is as in `PartitionRun`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from aioexec.execution.budget import TICK_NS
from aioexec.execution.items_run import ItemsRun
from aioexec.execution.step import Step
from aioexec.planning.plan import Item

if TYPE_CHECKING:
    from aioexec.execution.partition_executor import PartitionExecutor


class StraightRun(ItemsRun):
    """Runs such a partition in one step.

    Changing: `_waits`, for how much each item still waits; `_ready`, the items that wait for nothing.
    """

    __slots__ = ("_ready", "_waits")

    def __init__(
        self,
        executor: PartitionExecutor,
        step: Step,
        values: list[Any] | None = None,
        fresh: set[int] | None = None,
        missing_feeds: int = 0,
    ) -> None:
        super().__init__(executor, step, values, fresh, missing_feeds)
        self._waits = executor.waits.copy()
        self._ready: deque[int] = deque()

    def skip(self, count: int) -> None:
        """Take it that so many items have run; to be called before the start."""
        self._waits[:count] = [-1] * count
        for index in range(count):
            self._finished(index)

    @property
    def receives(self) -> int:
        return 0

    def start(self) -> None:
        """Begin: all that can be done at once has been done when this returns."""
        self._open()
        self._ready.extend([item.index for item in self._initial if not self._waits[item.index]])
        self._advance()

    def _is_waiting(self) -> bool:
        return bool(self._ready)

    def feed(self, position: int, value: Any) -> None:
        """A feed of a partial run has come."""
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
                if runner is not None:
                    rest = runner.begin(self.values, self.fresh, step)
                else:
                    budget.decided()
                    rest = self._call(self.partition.items[index].instructions[0], self.values)
                if rest is None:
                    self._finished(index)
                else:
                    self._wait_for(rest, index)
        except BaseException as error:
            step.fail(error)
        self._check_end()

    def _item(self, what: int) -> Item:
        return self.partition.items[what]

    def _end(self, what: int, result: Any) -> None:
        if self._runners[what] is None:
            self._store(self._item(what).instructions[0], self.values, result)
        self._finished(what)
