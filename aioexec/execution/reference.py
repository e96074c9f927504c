"""The reference tier: runs an item node by node with NumPy kernels, small ones on the event loop, heavy ones on workers.

A kernel is heavy if it is estimated to be (see `planning.workload`) or was measured to be: one that repeatedly blocked the loop
for too long runs on workers until it no longer does; where costs are measured, so does one that was never faster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.execution.budget import CHECK_NS, TICK_NS
from aioexec.execution.engine import Engine
from aioexec.execution.node_calls import CallList, bind_item, specialise
from aioexec.execution.programs.leases import lease, release, take
from aioexec.execution.programs.structures import StructureRun, inputs_of
from aioexec.execution.programs.trace import note_node
from aioexec.execution.propagator import Values
from aioexec.execution.step import Step
from aioexec.planning.instruction import Instruction, locate
from aioexec.planning.plan import Item, Partition
from aioexec.planning.shape_dependence import ShapeDependence
from aioexec.resources.variable import Variable

if TYPE_CHECKING:
    from aioexec.observability.cost_model import CostModel
    from aioexec.observability.step_stats import StepStatsCollector

_SLOW_CALL = 8
"""What a slow call adds to the score of a kernel, from which every other call subtracts 1."""
_HEAVY_SCORE, _LIGHT_SCORE = 2 * _SLOW_CALL, _SLOW_CALL
"""The score from which on a kernel runs on workers, and the one at which it returns to the loop."""
_MOST_SHAPES = 16
"""Sets of shapes of the inputs for which an item has calls of its own."""

Successor = Callable[[bool], Awaitable[None] | None]
"""Called before each slice, with whether no node with an effect has run yet. Returns an awaitable that runs all of the item in
place of the rest, or None.
"""


class _Leases:
    """The leases of some variables, which are released once."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._variables: Sequence[Variable] = variables
        take(variables)

    def release(self, *_: Any) -> None:
        held, self._variables = self._variables, ()
        release(held)


class _Run:
    """A run of an item: the values of its step, the `calls`, and the `index` of the next one.

    `begun` is the loop or conditional at that index, if it has begun. `shapes` is the key under which calls for these inputs
    will be kept, None if they are not; `heavy` are the positions of nodes that were estimated to be heavy.
    """

    __slots__ = ("begun", "calls", "heavy", "index", "shapes", "step", "values")

    def __init__(self, values: Values, step: Step, calls: CallList, shapes: Hashable = None) -> None:
        self.values = values
        self.step = step
        self.calls = calls.calls
        self.index = 0
        self.begun: StructureRun | None = None
        self.shapes = shapes
        self.heavy: set[int] = set()
        for value, held in calls.given:
            values[value] = held

    @property
    def is_done(self) -> bool:
        return self.index == len(self.calls)


class ReferenceTier:
    """Runs one item for all steps of a session.

    A single slow call says little: the system may have run another process meanwhile. A kernel leaves the loop when several of
    few calls were slow, and returns after as many calls on workers that were not.

    Constant: `_first_effect`, the position of the first node that has an effect.

    Changing: `_general`, the calls for inputs of any shapes, made by the first run, and `_special`, those for inputs of certain
    shapes, made by their second run (see `node_calls`); `_scores`, by position, of kernels that were slow lately; `_moved`,
    positions of those that run on workers for it; `_expensive`, positions of nodes whose least measured time is longer than a
    slice.
    """

    def __init__(self, item: Item, partition: Partition, engine: Engine) -> None:
        self.item = item
        self.engine = engine
        self._known = partition.values
        effects = (k for k, instruction in enumerate(item.instructions) if instruction.has_effect)
        self._first_effect = next(effects, len(item.instructions))
        self._general: CallList | None = None
        self._dependence: ShapeDependence | None = None
        self._special: dict[Hashable, CallList | None] = {}
        self._scores: dict[int, int] = {}
        self._moved: set[int] = set()
        self._expensive: set[int] = set()

    def learn(self, costs: CostModel) -> None:
        """Select by measured costs, with some hysteresis, the kernels that always run on workers."""
        for position, instruction in enumerate(self.item.instructions):
            least = costs.least(instruction.node.name)
            if least is not None and least > CHECK_NS:
                self._expensive.add(position)
            elif least is not None and least < CHECK_NS * 4 // 5:
                self._expensive.discard(position)

    def begin(self, values: Values, step: Step, successor: Successor | None = None) -> Awaitable[None] | None:
        """Run as much as needs no waiting; returns an awaitable for the rest, if any.

        Args:
            successor: what may run all of the item in place of the rest.

        Raises:
            OpError: of the node that failed.
        """
        writes = self.item.writes
        if any(variable.leased for variable in writes):
            return self.run(values, step)
        run = self._make_run(values, step)
        self._slice(run)
        if run.is_done:
            self._finish(run)
            return None
        if not writes:
            return self._continue(run, successor)
        # Now, since other steps may write before the rest begins; a task may also be cancelled before it begins.
        leases = _Leases(writes)
        rest = asyncio.ensure_future(self._continue(run, successor, leases))
        rest.add_done_callback(leases.release)
        return rest

    async def run(self, values: Values, step: Step) -> None:
        """Run the item on the values of a step.

        Raises:
            OpError: of the node that failed.
        """
        writes = self.item.writes
        await lease(writes)
        try:
            await self._continue(self._make_run(values, step))
        finally:
            release(writes)

    def _make_run(self, values: Values, step: Step) -> _Run:
        general = self._general
        if general is None:
            general = self._general = bind_item(self.item, self._known)
        if step.collector is not None:  # every node is recorded
            return _Run(values, step, general)
        shapes = tuple([getattr(values[value], "shape", None) for value in self.item.inputs])
        special = self._special.get(shapes)
        if special is not None:
            return _Run(values, step, special)
        is_new = shapes not in self._special
        if is_new:
            if len(self._special) >= _MOST_SHAPES:
                self._special.clear()
            self._special[shapes] = None
        return _Run(values, step, general, None if is_new else shapes)

    def _finish(self, run: _Run) -> None:
        """Keep calls for inputs of the same shapes, after the second run with them."""
        if run.shapes is not None:
            assert self._general is not None
            if self._dependence is None:
                self._dependence = ShapeDependence(self.item, self._known)
            self._special[run.shapes] = specialise(
                self.item, self._general, self._dependence, run.heavy, run.values
            )

    async def _continue(
        self, run: _Run, successor: Successor | None = None, leases: _Leases | None = None
    ) -> None:
        """Run the remaining nodes, under the item's leases, until the successor returns a run that takes their place."""
        while not run.is_done:
            if successor is not None and (instead := successor(self._may_begin_again(run))) is not None:
                if leases is not None:
                    leases.release()  # the run that takes the place acquires them itself
                await instead
                return
            if run.begun is not None:
                await self._finish_on_worker(run, run.begun)
            elif self._is_heavy(run):
                await self._step_on_worker(run)
            elif self.engine.budget.spent > TICK_NS:
                await self.engine.budget.wait_for_turn()
            else:
                self._slice(run)
        self._finish(run)

    def _may_begin_again(self, run: _Run) -> bool:
        """Whether no node with an effect has run, or begun."""
        return run.begun is None and run.calls[run.index][2] <= self._first_effect

    def _slice(self, run: _Run) -> None:
        """Run nodes until the slice is over, the next one is heavy, or a loop or conditional does not end within the slice."""
        began = now = perf_counter_ns()
        limit, instructions = self.engine.budget.check_ns, self.item.instructions
        calls, index, values, collector = run.calls, run.index, run.values, run.step.collector
        scores, elsewhere = self._scores, self._moved or self._expensive
        try:
            with np.errstate(all="ignore"):
                while index < len(calls) and now - began <= limit:
                    call, check, position = calls[index]
                    if (check is not None and check(values)) or (elsewhere and self._is_elsewhere(position)):
                        break
                    if call is not None:
                        try:
                            call(values)
                        except Exception as error:
                            raise locate(error, instructions[position], self.item.device) from error
                    elif not self._begin_structure(run, instructions[position]):
                        break
                    before, now = now, perf_counter_ns()
                    if collector is not None:
                        self._record(collector, values, instructions[position], before, before, now)
                    if now - before > limit or (scores and position in scores):
                        self._score(position, is_slow=now - before > limit)
                    index += 1
        finally:
            run.index = index
            self.engine.budget.charge(began, perf_counter_ns())

    def _begin_structure(self, run: _Run, instruction: Instruction) -> bool:
        """Run a loop or conditional for a slice: whether it has ended."""
        begun = StructureRun(instruction, inputs_of(instruction, run.values), self.item.device)
        if not begun.advance(self.engine.budget.check_ns):
            run.begun = begun
            return False
        _take(begun, run.values)
        return True

    async def _finish_on_worker(self, run: _Run, begun: StructureRun) -> None:
        """Continue a loop or conditional until it ends or the step is cancelled."""
        with _pin(begun.resources()):
            await run.step.workers.submit(begun.advance).result(begun.cancel)
        _take(begun, run.values)
        run.begun = None
        run.index += 1

    async def _step_on_worker(self, run: _Run) -> None:
        """Run one heavy node, or begin it. Variables it may read are pinned, so that no other step writes over them."""
        scheduled = perf_counter_ns()
        call, _, position = run.calls[run.index]
        instruction, values = self.item.instructions[position], run.values
        if call is None:
            run.begun = StructureRun(instruction, inputs_of(instruction, values), self.item.device)
            return

        def compute() -> int:
            started = perf_counter_ns()
            try:
                with np.errstate(all="ignore"):
                    call(values)
            except Exception as error:
                raise locate(error, instruction, self.item.device) from error
            ended = perf_counter_ns()
            if run.step.collector is not None:
                self._record(run.step.collector, values, instruction, scheduled, started, ended)
            return ended - started

        with _pin(values[value] for value in instruction.inputs):
            duration = await run.step.workers.submit(compute).result()
        if position in self._scores:
            self._score(position, is_slow=duration > self.engine.budget.check_ns)
        run.index += 1

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

    def _is_heavy(self, run: _Run) -> bool:
        """Whether the next node of a run is to run on a worker."""
        _, check, position = run.calls[run.index]
        if check is not None and check(run.values):
            run.heavy.add(position)
            return True
        return self._is_elsewhere(position)

    def _is_elsewhere(self, position: int) -> bool:
        """Whether the kernel runs on workers because of its measured duration."""
        return position in self._moved or position in self._expensive

    def _score(self, position: int, is_slow: bool) -> None:
        """Record the duration of a call of a kernel that is slow, or was lately."""
        score = self._scores.get(position, 0) + (_SLOW_CALL if is_slow else -1)
        self._scores[position] = score = min(score, _HEAVY_SCORE)
        if score == _HEAVY_SCORE:
            self._moved.add(position)
        elif score <= _LIGHT_SCORE:
            self._moved.discard(position)
        if score <= 0:
            del self._scores[position]


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
