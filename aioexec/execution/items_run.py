"""What the ways to run the items of a partition have in common: what is awaited, what is still to come, and the end.

Driven by events: whatever happens leads to `_advance`, which does everything that can be done at once, in slices the event loop
can bear. Nothing is left behind: a run has ended when everything begun has finished.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from aioexec.errors import CancelledError
from aioexec.execution.propagator import Values
from aioexec.execution.step import Step
from aioexec.execution.structures import inputs_of, store
from aioexec.execution.together import Run
from aioexec.execution.trace import note_known, note_node
from aioexec.planning.instruction import Instruction, locate
from aioexec.planning.items import Kind
from aioexec.planning.plan import Item

if TYPE_CHECKING:
    from aioexec.execution.partition_executor import PartitionExecutor

PROGRAM = Kind.PROGRAM  # an enum's attribute costs as much as a dictionary


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

    def _open(self) -> None:
        """The first thing to be done."""
        self.step.stops.append(self.stop)
        if self.step.collector is not None:
            nodes = self.partition.subgraph.nodes
            note_known(self.step.collector, nodes, self.partition.device, perf_counter_ns())

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

    def _done(self, future: asyncio.Future[Any]) -> None:
        """What was awaited is over."""
        what = self._running.pop(future)
        try:
            result = future.result()
        except BaseException as error:
            self.step.fail(self._located(self._item(what), error))
        else:
            if self.step.error is None:
                try:
                    self._end(what, result)
                except Exception as error:
                    self.step.fail(error)
        self._advance()

    @abc.abstractmethod
    def _item(self, what: Any) -> Item:
        """The item that something was awaited for."""

    @abc.abstractmethod
    def _end(self, what: Any, result: Any) -> None:
        """What was awaited has ended well."""

    def _located(self, item: Item, error: BaseException) -> BaseException:
        if isinstance(error, asyncio.CancelledError):  # by itself, if nobody has cancelled the step
            error = CancelledError(f"{item.node.name!r} was cancelled")
        if item.kind is PROGRAM or not isinstance(error, Exception):
            return error
        return locate(error, item.instructions[0], self.partition.device)

    # Asynchronous kernels

    def _call(self, instruction: Instruction, values: Values) -> Awaitable[Any] | None:
        """Call a kernel: what is to be awaited comes back, and what that gives is to be stored; None: all is done."""
        began = perf_counter_ns()
        try:
            result = instruction.compute(self.step, *inputs_of(instruction, values))
        except Exception as error:
            raise locate(error, instruction, self.partition.device) from error
        if hasattr(result, "__await__"):
            return result if self.step.collector is None else self._timed(instruction, values, result, began)
        self._store(instruction, values, result)
        self._record(instruction, values, began)
        return None

    def _timed(
        self, instruction: Instruction, values: Values, result: Awaitable[Any], began: int
    ) -> asyncio.Future[Any]:
        future = asyncio.ensure_future(
            result
        )  # not one more coroutine: cancelled early, it would forget this one
        future.add_done_callback(lambda done: self._record(instruction, values, began))
        return future

    def _store(self, instruction: Instruction, values: Values, result: Any) -> None:
        try:
            store(values, instruction, result)
        except Exception as error:
            raise locate(error, instruction, self.partition.device) from error

    def _record(self, instruction: Instruction, values: Values, began: int) -> None:
        collector = self.step.collector
        if collector is not None:
            outputs = [values[value] for value in instruction.outputs]
            now = perf_counter_ns()
            note_node(collector, instruction.node, self.partition.device, began, began, now, outputs)

    # End

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
