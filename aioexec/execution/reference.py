"""The reference tier: runs an item node by node with NumPy kernels, small ones on the event loop, heavy ones on workers.

A kernel is heavy if it is estimated to be (see `planning.workload`) or was measured to be: one that has blocked the loop for
too long more than once runs on a worker from then on; where costs are measured, so does one that was never faster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.errors import OpError
from aioexec.execution.budget import CHECK_NS, TICK_NS
from aioexec.execution.engine import Engine
from aioexec.execution.programs.leases import lease, release, take
from aioexec.execution.programs.structures import StructureRun, dereference, inputs_of, store
from aioexec.execution.programs.trace import note_node
from aioexec.execution.propagator import Values
from aioexec.execution.step import Step
from aioexec.planning.instruction import Instruction, locate
from aioexec.planning.plan import Item
from aioexec.planning.workload import takes_long
from aioexec.resources.variable import Variable

if TYPE_CHECKING:
    from aioexec.observability.cost_model import CostModel
    from aioexec.observability.step_stats import StepStatsCollector

_MOST_SLOW_CALLS = 2  # slow calls after which a kernel leaves the loop


class ReferenceTier:
    """Runs one item for all steps of a session.

    Changing: `_slow`, how often the node at a position took longer than a slice; `_expensive`, the positions of nodes whose
    least measured time is longer than a slice.
    """

    def __init__(self, item: Item, engine: Engine) -> None:
        self.item = item
        self.engine = engine
        self._slow: Counter[int] = Counter()
        self._expensive: set[int] = set()

    def learn(self, costs: CostModel) -> None:
        """Select by measured costs, with some hysteresis, the kernels that always run on workers."""
        for position, instruction in enumerate(self.item.instructions):
            least = costs.least(instruction.node.name)
            if least is not None and least > CHECK_NS:
                self._expensive.add(position)
            elif least is not None and least < CHECK_NS * 4 // 5:
                self._expensive.discard(position)

    def begin(self, values: Values, step: Step) -> Awaitable[None] | None:
        """Run as much as needs no waiting; returns an awaitable for the rest, if any.

        Raises:
            OpError: of the node that failed.
        """
        writes = self.item.writes
        if any(variable.leased for variable in writes):
            return self.run(values, step)
        position, begun = self._slice(values, 0, step)
        if position == len(self.item.instructions):
            return None
        if not writes:
            return self._run_from(values, step, position, begun)
        take(
            writes
        )  # now, since other steps may write before the rest begins; a task may also be cancelled before it begins
        rest = asyncio.ensure_future(self._run_from(values, step, position, begun))
        rest.add_done_callback(lambda done: release(writes))
        return rest

    async def run(self, values: Values, step: Step) -> None:
        """Run the item on the values of a step.

        Raises:
            OpError: of the node that failed.
        """
        writes = self.item.writes
        await lease(writes)
        try:
            await self._run_from(values, step, 0)
        finally:
            release(writes)

    async def _run_from(
        self, values: Values, step: Step, position: int, begun: StructureRun | None = None
    ) -> None:
        """Run the nodes from `position` on, under the item's leases; first continue `begun`, a structure."""
        end = len(self.item.instructions)
        while position < end:
            if begun is not None:
                await self._finish_on_worker(values, begun, step)
                position, begun = position + 1, None
            elif self._is_heavy(position, _inputs(self.item.instructions[position], values)):
                instruction = self.item.instructions[position]
                if instruction.structure is not None:
                    begun = StructureRun(instruction, inputs_of(instruction, values), self.item.device)
                    continue
                await self._step_on_worker(values, instruction, step)
                position += 1
            elif self.engine.budget.spent > TICK_NS:
                await self.engine.budget.wait_for_turn()
            else:
                position, begun = self._slice(values, position, step)

    def _slice(self, values: Values, position: int, step: Step) -> tuple[int, StructureRun | None]:
        """Run nodes from `position` on, until the slice is over or the next one is heavy; returns the next position.

        A loop or conditional that does not end within the slice is the next position; its run is returned too.
        """
        began = now = perf_counter_ns()
        limit = self.engine.budget.check_ns
        collector, instructions = step.collector, self.item.instructions
        try:
            with np.errstate(all="ignore"):
                while position < len(instructions):
                    instruction = instructions[position]
                    inputs = [values[value] for value in instruction.inputs]
                    if self._is_heavy(position, inputs):
                        break
                    if instruction.structure is None:
                        self._step(values, instruction, inputs)
                    else:
                        begun = self._begin_structure(values, instruction)
                        if begun is not None:
                            now = perf_counter_ns()
                            return position, begun
                    before, now = now, perf_counter_ns()
                    if collector is not None:
                        self._record(collector, values, instruction, before, before, now)
                    if now - before > limit:
                        self._slow[position] += 1
                    position += 1
                    if now - began > limit:
                        break
        except OpError:
            now = perf_counter_ns()
            raise
        finally:
            self.engine.budget.charge(began, now)
        return position, None

    def _begin_structure(self, values: Values, instruction: Instruction) -> StructureRun | None:
        """Run a loop or conditional for a slice; returns its run, if it has not ended."""
        run = StructureRun(instruction, inputs_of(instruction, values), self.item.device)
        if not run.advance(self.engine.budget.check_ns):
            return run
        _take(run, values)
        return None

    async def _finish_on_worker(self, values: Values, run: StructureRun, step: Step) -> None:
        """Continue a loop or conditional until it ends or the step is cancelled."""
        with _pin(run.resources()):
            await step.workers.submit(run.advance).result(run.cancel)
        _take(run, values)

    async def _step_on_worker(self, values: Values, instruction: Instruction, step: Step) -> None:
        """Run one heavy node. Variables it may read are pinned, so that no other step writes over them."""
        scheduled = perf_counter_ns()

        def run() -> None:
            started = perf_counter_ns()
            with np.errstate(all="ignore"):
                self._step(values, instruction, _inputs(instruction, values))
            if step.collector is not None:
                self._record(step.collector, values, instruction, scheduled, started, perf_counter_ns())

        with _pin(values[value] for value in instruction.inputs):
            await step.workers.submit(run).result()

    def _record(
        self,
        collector: StepStatsCollector,
        values: Values,
        instruction: Instruction,
        scheduled: int,
        start: int,
        end: int,
    ) -> None:
        outputs = [values[value] for value in instruction.outputs]
        note_node(collector, instruction.node, self.item.device, scheduled, start, end, outputs)

    def _step(self, values: Values, instruction: Instruction, inputs: list[Any]) -> None:
        """Run one node by its reference kernel."""
        try:
            if instruction.dereferences:
                inputs = dereference(instruction, inputs)
            store(values, instruction, instruction.compute(*inputs))
        except Exception as error:
            raise locate(error, instruction, self.item.device) from error

    def _is_heavy(self, position: int, inputs: Sequence[Any]) -> bool:
        if position in self._expensive or (self._slow and self._slow[position] >= _MOST_SLOW_CALLS):
            return True
        return takes_long(self.item.instructions[position], inputs)


def _inputs(instruction: Instruction, values: Values) -> list[Any]:
    """The inputs of a node, with references as they are."""
    return [values[value] for value in instruction.inputs]


def _take(run: StructureRun, values: Values) -> None:
    """Store the outputs of a structure."""
    for value, output in zip(run.instruction.outputs, run.outputs(), strict=True):
        values[value] = output


@contextlib.contextmanager
def _pin(values: Iterable[Any]) -> Iterator[None]:
    """Pin the variables among some values, so that their contents are not written over."""
    held = [value for value in values if isinstance(value, Variable)]
    for variable in held:
        variable.pins += 1
    try:
        yield
    finally:
        for variable in held:
            variable.pins -= 1
