"""Runs one item of a plan: by a program of its cache, or by the reference tier; and stores the outputs.

`program_cache` holds and builds programs, `program_run` runs one. Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Hashable, Mapping, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.devices.jit.walker import Outcome
from aioexec.execution.budget import TICK_NS
from aioexec.execution.engine import Engine
from aioexec.execution.program_cache import ProgramCache
from aioexec.execution.programs.arena_limit import NoRoomError
from aioexec.execution.programs.arenas import no_memory
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.program_run import DONE, ProgramRun, run_in_turn, run_now
from aioexec.execution.programs.run_memory import Array, GuardError
from aioexec.execution.propagator import Values
from aioexec.execution.reference import ReferenceTier
from aioexec.execution.step import Step
from aioexec.planning.plan import Item, Partition

if TYPE_CHECKING:
    from aioexec.observability.cost_model import CostModel

_LONG_NS = 20_000_000
"""The time after which a run by reference kernels is too long to wait for the second one with the same shapes."""
_NO_OBJECTS: Mapping[int, Any] = {}
_uses = itertools.count()


class ItemRunner:
    """Runs one item for all steps of a session."""

    def __init__(self, item: Item, partition: Partition, engine: Engine) -> None:
        self.item = item
        self.partition = partition
        self.engine = engine
        self._is_native = engine.jit != "off" and engine.devices[item.device].is_native
        self._reference = ReferenceTier(item, partition, engine)
        self.cache = ProgramCache(item, partition, engine)
        self._programs = self.cache.programs

    def learn(self, costs: CostModel) -> None:
        """Let measured costs decide where reference kernels and new programs run."""
        self.cache.learn(costs)
        self._reference.learn(costs)

    def begin(self, values: Values, fresh: set[int], step: Step) -> Awaitable[None] | None:
        """Run the item if that needs no waiting; else return an awaitable for the rest.

        Args:
            values: those of the step: holds the inputs, and receives the outputs.
            fresh: collects the outputs without another reference.
        """
        if not self._is_native:
            return self._reference.begin(values, step)
        inputs: list[Array] = []
        for place in self.item.inputs:
            value = values[place]
            if not isinstance(value, np.ndarray):
                return self._reference.begin(values, step)
            inputs.append(value)
        program = self._lookup(inputs)
        if program is None or not program.inline:
            return self._begin_later(program, inputs, values, fresh, step)
        try:
            if program.is_stateless and step.collector is None:
                outputs = self._walk_stateless(program, inputs)
                if outputs is not None:
                    for place, value in enumerate(self.item.outputs):
                        values[value] = outputs[place]
                    fresh.update(self.item.outputs)
                    return None
            bound, objects = _collect_inputs(program, values), _objects(program, values)
            run = run_now(program, bound, objects, self.engine.budget, step.workers, step.collector)
        except GuardError:
            return self._reference.begin(values, step)
        except MemoryError as error:
            raise no_memory(program) from error
        if run is None:
            return self._run(program, values, fresh, step)
        if run.state is DONE:
            self._take(run, values, fresh)
            return None
        rest = asyncio.ensure_future(self._finish(run, values, fresh))
        rest.add_done_callback(run.close)  # a task that is cancelled before it starts runs none of its code
        return rest

    def _lookup(self, inputs: Sequence[Array]) -> Program | None:
        """The program for these inputs, if it exists; it counts as used."""
        if self.cache.content:
            key = self.cache.key_of(inputs)
        else:  # as `key_of`, without a call: every step is here
            shapes: list[Hashable] = []
            for value in inputs:
                shapes.append(value.shape)  # noqa: PERF401 (a loop takes half as long as a comprehension)
            key = tuple(shapes)
        program = self._programs.get(key) if key is not None else None
        if program is not None:
            program.last_used = next(_uses)
            if program.settled is not None:
                return program.settled.current()
        return program

    def _begin_later(
        self, program: Program | None, inputs: Sequence[Array], values: Values, fresh: set[int], step: Step
    ) -> Awaitable[None] | None:
        """Run the item by a program that runs on a worker or is to be built first, or by its reference kernels.

        A program that is ready before a long run of the reference kernels has ended takes its place, if nothing is done twice.
        """
        if program is not None:
            return self._run(program, values, fresh, step)
        if not self.cache.record_miss(inputs):
            return self._run_when_built(inputs, values, fresh, step)
        if step.collector is not None:
            return self._reference.begin(values, step)
        began = perf_counter_ns()

        def successor(may_begin_again: bool) -> Awaitable[None] | None:
            program = self._lookup(inputs) if may_begin_again else None
            if program is not None:
                return self._run(program, values, fresh, step)
            if perf_counter_ns() - began > _LONG_NS:
                self.cache.build(inputs)
            return None

        return self._reference.begin(values, step, successor)

    async def _run_when_built(
        self, inputs: Sequence[Array], values: Values, fresh: set[int], step: Step
    ) -> None:
        """Run the item once its program is built, or known not to exist."""
        build = self.cache.build(inputs)
        if build is not None:
            await build.ended.wait()
        program = self._lookup(inputs)
        if program is None:
            await self._reference.run(values, step)
        else:
            await self._run(program, values, fresh, step)

    async def _run(self, program: Program, values: Values, fresh: set[int], step: Step) -> None:
        """Run a program once there are the leases and the arena that it needs.

        The run begins when this is awaited: until then it holds nothing, and needs no task.
        """
        budget = self.engine.budget
        if budget.spent > TICK_NS:
            await budget.wait_for_turn()  # many may have waited for one program
        bound, objects = _collect_inputs(program, values), _objects(program, values)
        try:
            run = run_now(program, bound, objects, budget, step.workers, step.collector)
            if run is None:
                run = await run_in_turn(program, bound, objects, budget, step.workers, step.collector)
        except GuardError:
            await self._reference.run(values, step)
            return
        except MemoryError as error:
            raise no_memory(program) from error
        await self._finish(run, values, fresh)

    async def _finish(self, run: ProgramRun, values: Values, fresh: set[int]) -> None:
        if run.state is not DONE:
            try:
                await run.finish()
            except MemoryError as error:
                raise no_memory(run.program) from error
        self._take(run, values, fresh)

    def _take(self, run: ProgramRun, values: Values, fresh: set[int]) -> None:
        """Store the outputs of a run that is done."""
        variant = run.program.variant
        for (value, _), output in zip(variant.outputs, run.outputs, strict=True):
            values[value] = output
            fresh.add(value)
        for value, number in variant.objects:
            values[value] = run.objects[number]
        for value, known in variant.given:
            values[value] = known

    def run_now(self, inputs: Sequence[Array]) -> list[Array] | ProgramRun | None:
        """Run a program that exists and has no breaks, without a step: its outputs.

        A run that is not done is returned, and must be finished. None: there is no such program, or it must wait; nothing was
        run.

        Raises:
            OpError: a node failed.
        """
        program = self._lookup(inputs)
        if program is None:
            return None
        try:
            if program.is_stateless and program.inline:
                outputs = self._walk_stateless(program, inputs)
                if outputs is not None:
                    return outputs
            if not program.unbroken:
                return None
            run = run_now(program, inputs, _NO_OBJECTS, self.engine.budget, self.engine.workers)
        except (GuardError, MemoryError):
            return None
        return run.outputs if run is not None and run.state is DONE else run

    def run_inline(self, inputs: Sequence[Array]) -> list[Array] | None:
        """Run a program that ends on the loop, as `run_now` does; None: it is not such a program."""
        program = self._lookup(inputs)
        if program is None or not program.inline or not program.is_stateless:
            return None
        try:
            return self._walk_stateless(program, inputs)
        except MemoryError:
            return None

    def _walk_stateless(self, program: Program, inputs: Sequence[Array]) -> list[Array] | None:
        """Run a stateless program without the overhead of a `ProgramRun`; None: it failed or has no arena.

        In that case it may be run again in the ordinary way, since it has changed nothing.
        """
        began = perf_counter_ns()
        outputs = []
        for shape, dtype in program.specs:
            outputs.append(np.empty(shape, dtype))
        at_hand = program.at_hand
        try:
            frame = at_hand[-1] if at_hand else program.lease()
        except NoRoomError:
            return None
        outcome = program.walker.start_inline(frame.words, *inputs, *outputs)
        if not at_hand:
            program.release(frame)
        ended = perf_counter_ns()
        self.engine.budget.charge(began, ended)
        if outcome != Outcome.DONE:
            return None
        program.record_duration(ended - began)
        return outputs


def _collect_inputs(program: Program, values: Values) -> list[Array]:
    """The inputs that are bound to slots."""
    return [values[value] for value in program.variant.inputs]


def _objects(program: Program, values: Values) -> Mapping[int, Any]:
    """The inputs that the arena cannot hold."""
    places = program.variant.object_inputs
    return {place: values[place] for place in places} if places else _NO_OBJECTS
