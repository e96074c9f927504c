"""Running one item of a plan: which tier, where, and under which leases.

State, all of it changed on the event loop only: `programs` by shapes, the least recently used of which make room; `sightings`,
how often shapes without a program were seen; `unfit`, shapes that have none, and why; `building`, an event for each build under
way; `costs`, what steps have told of the nodes, where they are measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Hashable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from aioexec.devices.jit.walker import PC, Outcome
from aioexec.devices.workers import Job
from aioexec.errors import OpError, ResourceExhaustedError
from aioexec.execution.arena_limit import NoRoomError
from aioexec.execution.arenas import out_of_memory
from aioexec.execution.budget import TICK_NS
from aioexec.execution.engine import Engine, spec_of
from aioexec.execution.frame import Frame
from aioexec.execution.hosting import begun, ended, may_help, walked, walked_by_workers
from aioexec.execution.leases import lease, release, take
from aioexec.execution.program import Array, MisfitError, Program, Run
from aioexec.execution.propagator import Values
from aioexec.execution.reference import ReferenceTier
from aioexec.execution.step import Step
from aioexec.planning.plan import Item, Partition

if TYPE_CHECKING:
    from aioexec.observability.cost_model import CostModel
    from aioexec.observability.step_stats import StepStatsCollector

logger = logging.getLogger(__name__)

MOST_PROGRAMS = 16
"""Sets of shapes an item keeps programs for; what goes beyond makes the least recently used leave."""
_MOST_SIGHTINGS = 1024
_LARGEST_CONTENT = 16  # elements of an input whose content may join the key

Key = tuple[Hashable, ...]
_uses = itertools.count()


class ItemRunner:
    """Runs one item for all steps of a session."""

    def __init__(self, item: Item, partition: Partition, engine: Engine) -> None:
        self.item = item
        self.partition = partition
        self.engine = engine
        self._is_native = engine.jit != "off" and engine.devices[item.device].is_native
        self._reference = ReferenceTier(item, engine)
        self.programs: dict[Key, Program] = {}
        self.unfit: dict[Key, str] = {}
        self._sightings: dict[Key, int] = {}
        self._building: dict[Key, asyncio.Event] = {}
        self._costs: CostModel | None = None
        self._content = tuple(k for k, value in enumerate(item.inputs) if value in item.shape_inputs)

    def learn(self, costs: CostModel) -> None:
        """Let measured costs decide where reference kernels and new programs run."""
        self._costs = costs
        self._reference.learn(costs)

    # Choosing a program

    def key_of(self, inputs: Sequence[Array]) -> Key | None:
        """What a program is laid out for; None if an input's content matters and is too large to be part of it."""
        shapes: list[Hashable] = []
        for value in inputs:
            shapes.append(value.shape)  # noqa: PERF401 (what every step does is in loops: they take half as long)
        if not self._content:
            return tuple(shapes)
        content = []
        for k in self._content:
            if inputs[k].dtype.kind not in "iub":
                continue  # no shape follows from it
            if inputs[k].size > _LARGEST_CONTENT:
                return None
            content.append(inputs[k].tobytes())
        return (*shapes, *content)

    def _sight(self, key: Key, inputs: Sequence[Array]) -> None:
        """Build in the background what is seen a second time."""
        if len(self._sightings) > _MOST_SIGHTINGS:
            self._sightings.clear()
        self._sightings[key] = self._sightings.get(key, 0) + 1
        if self._sightings[key] >= 2 and key not in self._building:
            self._start_build(key, inputs)

    async def _program_for(self, key: Key, inputs: Sequence[Array]) -> Program | None:
        """The program for these inputs, made if need be; None: there is none, the reference tier runs them."""
        if key not in self.programs:
            if key not in self._building:
                self._start_build(key, inputs)
            if key in self._building:
                await self._building[key].wait()
        program = self.programs.get(key)
        if program is not None:
            program.last_used = next(_uses)
        return program

    def _start_build(self, key: Key, inputs: Sequence[Array]) -> None:
        finished = self._building[key] = asyncio.Event()
        specs = {
            value: spec_of(inputs[k], with_content=k in self._content and inputs[k].dtype.kind in "iub")
            for k, value in enumerate(self.item.inputs)
        }

        def done(job: Job[Program | None]) -> None:
            del self._building[key]
            finished.set()
            self._settle(key, job)

        try:
            self.engine.builder.submit(partial(self.engine.build, self.item, self.partition, specs), done)
        except ResourceExhaustedError:  # no thread: NumPy computes, and the next step tries again
            del self._building[key]

    def _settle(self, key: Key, job: Job[Program | None]) -> None:
        """Keep what the builder made, or remember why there is nothing."""
        try:
            program = job.outcome()
        except OpError as error:
            self._refuse(key, str(error))  # the reference tier raises it where the node is known
        except Exception as error:
            logger.warning(
                "item %d: no program for %s, NumPy computes instead", self.item.index, key, exc_info=True
            )
            self._refuse(key, f"{type(error).__name__}: {error}")
        else:
            if program is not None:
                self._keep(key, program)
            else:
                self._refuse(key, "no native tier here")

    def _refuse(self, key: Key, reason: str) -> None:
        if len(self.unfit) >= _MOST_SIGHTINGS:
            self.unfit.clear()
        self.unfit[key] = reason

    async def built(self) -> None:
        """Wait until no program is being made."""
        for finished in list(self._building.values()):
            await finished.wait()

    def _keep(self, key: Key, program: Program) -> None:
        if len(self.programs) >= MOST_PROGRAMS:
            del self.programs[min(self.programs, key=lambda k: self.programs[k].last_used)]
        self._sightings.pop(key, None)
        if self._costs is not None:
            program.expect(self._costs)
        if program.forks:
            self.engine.devices[self.item.device].workers.start_all()
        self.programs[key] = program

    # Running

    def begin(self, values: Values, fresh: set[int], step: Step) -> Awaitable[None] | None:
        """Run the item if that can be done at once; else what is left is to be awaited."""
        if not self._is_native:
            return self._reference.begin(values, step)
        inputs: list[Array] = []
        for place in self.item.inputs:
            value = values[place]
            if not isinstance(value, np.ndarray):
                return self._reference.begin(values, step)
            inputs.append(value)
        key = self.key_of(inputs)
        program = self.programs.get(key) if key is not None else None
        if key is None or program is None:
            return self._begin_without(key, inputs, values, fresh, step)
        if not program.inline or (self.item.writes and self._must_wait()):
            return self._run(key, inputs, values, fresh, step)
        try:
            return self._begin_inline(program, inputs, values, fresh, step)
        except NoRoomError:
            return self._run(key, inputs, values, fresh, step)

    def _begin_without(
        self, key: Key | None, inputs: Sequence[Array], values: Values, fresh: set[int], step: Step
    ) -> Awaitable[None] | None:
        """Run the item where there is no program for these inputs."""
        if key is None or key in self.unfit:
            return self._reference.begin(values, step)
        if self.engine.jit == "background":
            self._sight(key, inputs)
            return self._reference.begin(values, step)
        return self._run(key, inputs, values, fresh, step)

    def _begin_inline(
        self, program: Program, inputs: Sequence[Array], values: Values, fresh: set[int], step: Step
    ) -> Awaitable[None] | None:
        """Run a program that exists, or what has to stand in for it.

        Raises:
            NoRoomError: there is no room for its arena at the moment; nothing was run.
        """
        program.last_used = next(_uses)
        try:
            if program.may_move:
                if not program.has_room:
                    raise NoRoomError
                return self._walk_or_move(self._start(program, values, False, step), values, fresh, step)
            if program.is_stateless and step.collector is None:
                outputs = self._walk_stateless(program, inputs)
                if outputs is not None:
                    for place, value in enumerate(self.item.outputs):
                        values[value] = outputs[place]
                    fresh.update(self.item.outputs)
                    return None
            run = self._walk_inline(self._start(program, values, True, step), step.collector)
        except MisfitError:
            return self._reference.begin(values, step)
        except MemoryError as error:
            raise _no_memory(program) from error
        self._take(run, values, fresh)
        return None

    def _must_wait(self) -> bool:
        for variable in self.item.writes:  # noqa: SIM110 (a generator takes longer than most items)
            if variable.leased:
                return True
        return False

    async def _run(
        self, key: Key, inputs: Sequence[Array], values: Values, fresh: set[int], step: Step
    ) -> None:
        """Run what cannot be run at once; `fresh` collects the values nobody else holds."""
        program = await self._program_for(key, inputs)
        if self.engine.budget.spent > TICK_NS:
            await self.engine.budget.turn()  # many may have waited for one program
        try:
            run = None if program is None else await self.run_program(program, values, step)
        except MisfitError:
            run = None
        if run is None:
            await self._reference.run(values, step)
        else:
            self._take(run, values, fresh)

    def _take(self, run: Run, values: Values, fresh: set[int]) -> None:
        """The values a finished run put out."""
        variant = run.program.variant
        for (value, _), output in zip(variant.outputs, run.outputs, strict=True):
            values[value] = output
            fresh.add(value)
        for value, number in variant.objects:
            values[value] = run.objects[number]
        for value, known in variant.given:
            values[value] = known

    async def run_program(self, program: Program, values: Values, step: Step) -> Run:
        """Run a program to its end, inline or on a worker.

        Raises:
            MisfitError: it does not fit the variables as they are; nothing was run.
        """
        writes = self.item.writes
        try:
            if program.inline and not program.may_move and not self._must_wait():
                with contextlib.suppress(NoRoomError):
                    return self._walk_inline(self._start(program, values, True, step), step.collector)
            await lease(writes)
            try:
                return await self._run_on_worker(program, values, step)
            finally:
                release(writes)
        except MemoryError as error:
            raise _no_memory(program) from error

    def _start(
        self, program: Program, values: Values, in_place: bool, step: Step, frame: Frame | None = None
    ) -> Run:
        inputs = [values[value] for value in program.variant.inputs]
        run = Run(program, inputs, in_place, step.collector is not None, frame)
        for value in program.variant.object_inputs:
            run.objects[value] = values[value]
        return run

    def may_run_at_once(self, inputs: Sequence[Array]) -> bool:
        """Whether there is a program for these inputs that `run_at_once` runs if nothing is in its way."""
        key = self.key_of(inputs)
        program = self.programs.get(key) if key is not None else None
        return program is not None and (program.inline or program.unbroken)

    def run_at_once(self, inputs: Sequence[Array]) -> list[Array] | RestOfRun | None:
        """The outputs, by a program that exists and has no breaks.

        What is left of a run that is not for the loop alone must be awaited. None: there is no such program, nothing was run.
        """
        key = self.key_of(inputs)
        program = self.programs.get(key) if key is not None else None
        if program is None:
            return None
        try:
            if not program.inline:
                return self._begin_shared(program, inputs)
            program.last_used = next(_uses)
            if program.is_stateless:
                outputs = self._walk_stateless(program, inputs)
                if outputs is not None:
                    return outputs
            elif not program.unbroken or program.may_move or self._must_wait():
                return None
            return self._walk_inline(Run(program, inputs, True), None).outputs
        except (MisfitError, NoRoomError, MemoryError):
            return None

    def walk_at_once(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The outputs, by a program that exists, runs on the loop and has no state; None: there is none, nothing was run."""
        key = self.key_of(inputs)
        program = self.programs.get(key) if key is not None else None
        if program is None or not program.inline or not program.is_stateless:
            return None
        program.last_used = next(_uses)
        try:
            return self._walk_stateless(program, inputs)
        except (MisfitError, NoRoomError, MemoryError):
            return None

    def _begin_shared(self, program: Program, inputs: Sequence[Array]) -> list[Array] | RestOfRun | None:
        """Begin a run that is not for the loop alone: with its help, or in a worker."""
        if not program.unbroken or self._must_wait():
            return None
        engine = self.engine
        program.last_used = next(_uses)
        run = Run(program, inputs, False, queued=True)
        run.frame.words[PC] = 0  # of its last run
        if not may_help(program, engine.workers, engine.budget):
            return RestOfRun(run, None, self)
        outcome = None
        try:
            outcome, spent = begun(run, engine.budget)
        finally:
            if outcome != Outcome.PAUSED:
                run.finish(outcome == Outcome.DONE)
        if outcome == Outcome.PAUSED:
            return RestOfRun(run, spent, self)
        program.measured(spent)
        return run.outputs

    def _walk_stateless(self, program: Program, inputs: Sequence[Array]) -> list[Array] | None:
        """The usual case of `_walk_inline` in the fewest steps; None: it did not end well, and may be begun again."""
        began = perf_counter_ns()
        outputs = []
        for shape, dtype in program.specs:
            outputs.append(np.empty(shape, dtype))
        at_hand = program.at_hand
        frame = at_hand[-1] if at_hand else program.lease()
        outcome = program.walker.start_inline(frame.words, *inputs, *outputs)
        if not at_hand:
            program.release(frame)
        ended = perf_counter_ns()
        self.engine.budget.charge(began, ended)
        if outcome != Outcome.DONE:
            return None
        program.measured(ended - began)
        return outputs

    def _walk_inline(self, run: Run, collector: StepStatsCollector | None) -> Run:
        """Walk on the loop, to the end: what is inline by the clock is not stopped because an estimate was too high."""
        began = perf_counter_ns()
        walker, done = run.walker, False
        try:
            outcome = run.start(walker.start_inline)
            if outcome != Outcome.DONE:
                outcome = run.walk(outcome, walker.resume_inline)
                while outcome == Outcome.PAUSED:
                    outcome = run.walk(walker.resume_inline(run.frame.words), walker.resume_inline)
            done = True
        finally:
            run.finish(done, collector)
            ended = perf_counter_ns()
            self.engine.budget.charge(began, ended)
        run.program.measured(ended - began)
        return run

    def _walk_or_move(self, run: Run, values: Values, fresh: set[int], step: Step) -> Awaitable[None] | None:
        """Walk on the loop for a while; what is not over by then goes on in a worker, and is to be awaited."""
        began = perf_counter_ns()
        walker, program = run.walker, run.program
        outcome: int | None = None
        try:
            until = began + program.bound
            outcome = run.walk(run.start(walker.start_inline), walker.resume_inline, until)
        finally:
            ended = perf_counter_ns()
            self.engine.budget.charge(began, ended)
            if outcome != Outcome.PAUSED:
                run.finish(outcome == Outcome.DONE, step.collector)
        if outcome == Outcome.PAUSED:
            return self._moved(run, values, fresh, step, ended - began)
        program.measured(ended - began)
        self._take(run, values, fresh)
        return None

    def _moved(self, run: Run, values: Values, fresh: set[int], step: Step, spent: int) -> Awaitable[None]:
        """Let a run that was paused end in a worker.

        What it holds is taken now, and given back when the task is done: one that is cancelled before it begins runs nothing.
        """
        writes = self.item.writes
        take(writes)
        run.pin(1)
        run.program.move_to_worker(run.frame)
        outcome: int | None = None

        async def rest() -> None:
            nonlocal outcome
            outcome, more = await walked_by_workers(run, Outcome.PAUSED, step.workers)
            run.program.measured(spent + more)
            self._take(run, values, fresh)

        def give_back(done: asyncio.Future[None]) -> None:
            run.pin(-1)
            run.finish(outcome == Outcome.DONE, step.collector)
            release(writes)

        task = asyncio.ensure_future(rest())
        task.add_done_callback(give_back)
        return task

    async def _run_on_worker(self, program: Program, values: Values, step: Step) -> Run:
        """Run a program whose leases are held."""
        frame = await program.lease_in_turn()
        try:
            run = self._start(program, values, False, step, frame)
        except BaseException:
            program.release(frame)
            raise
        run.pin(1)
        run.frame.words[PC] = 0  # of its last run
        done = False

        try:
            outcome, spent = await walked(run, step.workers, self.engine.budget)
            done = outcome == Outcome.DONE
            program.measured(spent)
        finally:
            run.pin(-1)
            run.finish(done, step.collector)
        return run


class RestOfRun:
    """What is left of a run that is not for the loop alone; it must be awaited.

    Args:
        spent: nanoseconds of the loop's help so far; None: it has not begun.
    """

    __slots__ = ("_run", "_runner", "_spent")

    def __init__(self, run: Run, spent: int | None, runner: ItemRunner) -> None:
        self._run = run
        self._spent = spent
        self._runner = runner
        take(runner.item.writes)
        run.pin(1)

    async def finish(self) -> list[Array]:
        """The outputs.

        Raises:
            OpError: a node failed.
        """
        run, engine, outcome = self._run, self._runner.engine, None
        try:
            if self._spent is None:
                outcome, spent = await walked(run, engine.workers, engine.budget)
            else:
                outcome, spent = await ended(run, self._spent, engine.workers, engine.budget)
            run.program.measured(spent)
        finally:
            run.pin(-1)
            run.finish(outcome == Outcome.DONE)
            release(self._runner.item.writes)
        return run.outputs


def _no_memory(program: Program) -> OpError:
    variant = program.variant
    return out_of_memory(
        program,
        f"OOM on {program.device}: the step needs {variant.arena_bytes} bytes for values between its "
        f"{len(variant.item.instructions)} nodes and {variant.output_bytes} for the results",
    )
