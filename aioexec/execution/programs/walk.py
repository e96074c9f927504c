"""Walking a program: a leased frame, the arrays bound to its slots, and the rows that Python has to run.

A `Walk` drives the walker until the program is done or paused. In between it runs the rows the walker stops at: breaks (nodes
that only a reference kernel computes), moves and lists that grow, and parallel regions. `program_run.ProgramRun` decides which
thread walks. One thread at a time is in a walk; the helpers of a parallel region use only their own frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import HEADER, Entry, Outcome
from aioexec.devices.threads.workers import Workers
from aioexec.errors import FailedPreconditionError, InternalError, InvalidArgumentError, OpError
from aioexec.execution.programs.frame import Frame
from aioexec.execution.programs.linking import address_of
from aioexec.execution.programs.parallel_regions import RegionRun, SharedRegion, shared_region
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.structures import StructureRun, dereferenced
from aioexec.execution.programs.trace import Trace, note_program
from aioexec.graph.kernels.kernel import Spec
from aioexec.observability.step_stats import StepStatsCollector
from aioexec.planning.instruction import Instruction, locate
from aioexec.planning.layout.variant import Break, Grow, Move, Place, ProgramRow, VariableUse
from aioexec.planning.workload import takes_long
from aioexec.resources.variable import Variable

Array = np.ndarray[Any, Any]
_COUNT = Spec(np.dtype(np.int64), ())
_LEAST_ROOM = 16  # elements of a list

_NO_VARIABLES: frozenset[Variable] = frozenset()


class GuardError(Exception):
    """A guard failed: a variable has another shape than the program was laid out for, or there is no memory for the outputs.

    Nothing was run; the reference tier runs the item.
    """


class Walk:
    """The memory of one run of a program, and the execution of its rows.

    `arrays` are bound to the first slots; `news` the new contents of variables that are not written in place; `kept`
    are arrays that breaks bound to slots; `objects` are values that memory cannot hold. `walker` has the entries to
    walk by; `trace` is None in a run that is not traced; `inner` is the loop or conditional that Python runs,
    `region` the parallel region that is being executed, or that was not executed to its end.

    Args:
        inputs: values of `variant.inputs`.
        traced: stamp the clock at each row.
        frame: one leased for this run, which stays the caller's if the constructor raises; None: lease one.
        queued: the run may wait for a worker.

    Raises:
        OpError: a variable is not initialised.
        GuardError: a variable has another shape than was declared, or there is no memory for the outputs: reference kernels
            check operands before they allocate.
    """

    __slots__ = (
        "arrays",
        "frame",
        "inner",
        "kept",
        "news",
        "objects",
        "outputs",
        "program",
        "published",
        "region",
        "trace",
        "walker",
    )

    def __init__(
        self,
        program: Program,
        inputs: Sequence[Array],
        in_place: bool,
        traced: bool = False,
        frame: Frame | None = None,
        queued: bool = False,
    ) -> None:
        self.program = program
        self.outputs: list[Array] = []
        try:
            for shape, dtype in program.specs:
                self.outputs.append(np.empty(shape, dtype))
        except MemoryError as error:
            raise GuardError from error
        self.kept: dict[int, Array] = {}
        self.objects: dict[int, Any] = {}
        self.published = _NO_VARIABLES
        self.inner: StructureRun | None = None
        self.region: RegionRun | SharedRegion | None = None
        self.news: list[tuple[VariableUse, Array]] = []
        if program.variant.uses:
            self.arrays = [*inputs, *self._variables(in_place), *self.outputs]
        else:
            self.arrays = [*inputs, *self.outputs]
        self.walker = program.walker
        self.trace: Trace | None = None
        if traced:
            assert self.walker.traced is not None
            self.walker = self.walker.traced
            self.trace = Trace(len(program.variant.rows))
        if frame is None:  # last, since a constructor that raises must not hold a frame
            frame = program.lease_for_worker() if queued else program.lease()
        self.frame = frame
        if self.trace is not None:
            self.frame.words[walking.STAMPS] = address_of(self.trace.stamps)

    def note(self, collector: StepStatsCollector) -> None:
        """Note the nodes of a traced run, however it ended."""
        assert self.trace is not None
        note_program(collector, self.trace, self.program.variant, self.program.device)

    def _variables(self, in_place: bool) -> list[Array]:
        bound: list[Array] = []
        for use in self.program.variant.uses:
            variable = use.variable
            if use.old_slot is not None:
                content = variable.buffer
                if content is None and not use.certain:
                    raise GuardError(variable.name)  # the row that reads it may not be executed
                if content is None:
                    raise self._uninitialised(variable, use.reader)
                if content.shape != use.shape:
                    raise GuardError(variable.name)
                bound.append(content)
            if use.new_slot is not None:
                new = variable.next_buffer(in_place and use.in_place)
                bound.append(new)
                if new is not variable.buffer:
                    self.news.append((use, new))
        return bound

    def _uninitialised(self, variable: Variable, reader: Instruction | None) -> OpError:
        assert reader is not None
        try:
            variable.require()
        except OpError as error:
            return locate(error, reader, self.program.device)
        return locate(
            FailedPreconditionError(f"variable {variable.name!r} changed"), reader, self.program.device
        )

    # Walking

    def start(self, entry: Entry) -> int:
        """Begin; if an input is not contiguous and aligned, copy the inputs and begin again."""
        outcome = entry(self.frame.words, *self.arrays)
        if outcome == Outcome.UNALIGNED:
            self.arrays = [np.require(array, requirements=["C", "A"]) for array in self.arrays]
            outcome = entry(self.frame.words, *self.arrays)
        return outcome

    def walk(self, outcome: int, resume: Entry, until: int | None = None) -> int:
        """Continue from an outcome until it is DONE or PAUSED; after the time `until`, no further break or task is begun.

        Raises:
            OpError: a node failed; CANCELLED is left to the caller.
        """
        while outcome == Outcome.BREAK:
            position = int(self.frame.words[walking.PC])
            began = 0 if self.trace is None else perf_counter_ns()
            try:
                outcome = self._stopped_at(position, until)
            finally:
                if self.trace is not None:
                    self.trace.stamp(position, began)
            if outcome != Outcome.DONE:
                break
            self.frame.words[walking.PC] += 1
            if until is not None and perf_counter_ns() > until:
                return Outcome.PAUSED
            outcome = resume(self.frame.words)
        if outcome == Outcome.FAILED:
            raise self._failure()
        return outcome

    def _stopped_at(self, position: int, until: int | None) -> int:
        """Run a row at which the walker stops: DONE, or the outcome that ends the walk."""
        if position in self.program.parallel_regions:
            return self._execute_region(position, until)
        row = self.program.variant.rows[position]
        if isinstance(row, Break):
            if not self._break(row, until):
                return Outcome.PAUSED
            return Outcome.DONE if not self.frame.words[walking.CANCEL] else Outcome.CANCELLED
        if isinstance(row, Move):
            self._move(row)
            return Outcome.DONE
        assert isinstance(row, Grow)
        self._grow(row)
        return Outcome.DONE

    def _execute_region(self, position: int, until: int | None) -> int:
        """Execute a parallel region as its owner, with helpers: DONE, PAUSED, CANCELLED, or FAILED, as of a walk."""
        link = self.program.parallel_regions[position]
        if until is None:
            self.region = self.region or RegionRun(self, link)
            outcome = self.region.execute()
        else:
            self.region = shared = shared_region(self, position)
            outcome = shared.help(until)
        if outcome == Outcome.DONE:
            self.frame.words[walking.PC] = link.region.end - 1  # the whole region was one row for the walker
            self.region = None
        return outcome

    def _has_run(self, row: int) -> bool:
        """Whether a row has run and will not run again."""
        if self.region is not None and self.region.contains(row):
            return self.region.has_run(row)
        return bool(row < self.frame.words[walking.PC])

    def _resumed(self, resume: Entry) -> int:
        """Continue after a pause; a region that has begun, until its helpers have left, even if the run is cancelled."""
        return resume(self.frame.words) if self.region is None else Outcome.BREAK

    def released(self, outcome: int | None, workers: Workers) -> int:
        """Start (None) or continue, on one of these workers; PAUSED: other jobs wait for the thread."""
        walker = self.walker
        if self.trace is not None:
            self.trace.moved(0 if outcome is None else int(self.frame.words[walking.PC]))
        if outcome is None:
            outcome = self.walk(self.start(walker.start_released), walker.resume_released)
        else:
            outcome = self.walk(self._resumed(walker.resume_released), walker.resume_released)
        while outcome == Outcome.PAUSED and not workers.are_wanted:
            outcome = self.walk(walker.resume_released(self.frame.words), walker.resume_released)
        return outcome

    def helped(self, outcome: int | None, until: int) -> int:
        """Start (None) or continue on the loop until a time; PAUSED: continue by `helped` again, or by `released`."""
        walker = self.walker
        entered = self.start(walker.start_inline) if outcome is None else self._resumed(walker.resume_inline)
        return self.walk(entered, walker.resume_inline, until)

    def cancel(self) -> None:
        """Request that the walk stop before its next row; from any thread."""
        self.frame.spoilt = True
        self.frame.words[walking.CANCEL] = 1
        if self.inner is not None:
            self.inner.cancel()
        if (region := self.region) is not None:
            region.cancel()

    def give_back(self, done: bool, collector: StepStatsCollector | None = None) -> None:
        """Publish the variables written, also those of a run that failed or was cancelled midway, and release the frame.

        Args:
            collector: records the nodes that ran, and when.
        """
        for use, new in self.news:
            variable = use.variable
            if variable in self.published:
                continue
            if done or use.is_whole(self._has_run):
                variable.publish(new)
            else:
                variable.spare = new
        self.program.release(self.frame)
        if collector is not None:
            self.note(collector)

    def pin(self, step: int) -> None:
        """Add this run to the readers of its variables (1), or remove it (-1)."""
        for use in self.program.variant.uses:
            use.variable.pins += step

    def _failure(self) -> OpError:
        words = self.frame.words
        failed = self.program.variant.rows[int(words[walking.PC])]
        assert isinstance(failed, ProgramRow)
        instruction = self.program.variant.instructions[failed.position]
        row = instruction.node.row
        statuses = row.lists.statuses if row.lists is not None else ()
        statuses = statuses or (row.native.statuses if row.native is not None else ())
        status = int(words[walking.STATUS])
        if not 1 <= status <= len(statuses):
            return locate(
                InternalError(f"native kernel returned status {status}"), instruction, self.program.device
            )
        kind, message = statuses[status - 1]
        text = message.format_map(instruction.node.op.attrs)
        return locate(kind(text), instruction, self.program.device)

    # Breaks

    def _move(self, row: Move) -> None:
        values = [self._input(source) for source, _ in row.moves]
        for (source, number), value in zip(row.moves, values, strict=True):
            self.objects[number] = np.array(value) if isinstance(source, Place) else value

    def _grow(self, row: Grow) -> None:
        """Enlarge the memory of a list; the list of the next run gets as much at once."""
        length, room = (self._view(Place(slot, offset, _COUNT)) for slot, offset in (row.length, row.room))
        if 0 <= row.limit <= length:
            error = InvalidArgumentError(
                f"Tried to push item into a full list; list size: {length} max_num_elements: {row.limit}"
            )
            raise locate(error, self.program.variant.instructions[row.position], self.program.device)
        rooms = self.program.rooms
        count = max(2 * int(room[()]), rooms.get(row.storage, _LEAST_ROOM))
        count = count if row.limit < 0 else min(count, row.limit)
        rooms[row.storage] = count
        storage = np.empty(count * row.nbytes, np.uint8)
        kept = int(length[()]) * row.nbytes
        if kept:
            storage[:kept] = self.kept[row.storage].reshape(-1).view(np.uint8)[:kept]
        self._bind(row.storage, storage)
        room[...] = count

    def _break(self, row: Break, until: int | None) -> bool:
        """Compute a row by its reference kernel; False: it would take too long for a walk with a deadline."""
        self._publish_before(row)
        inputs = dereferenced(row.instruction, [self._input(source) for source in row.inputs])
        instruction = row.instruction
        if until is not None and instruction.structure is None and takes_long(instruction, inputs):
            return False
        try:
            with np.errstate(all="ignore"):
                result = self._computed(instruction, inputs, until)
            if result is Outcome.PAUSED:
                return False
            self._store(row, result if len(row.outputs) > 1 else (result,), inputs)
        except Exception as error:
            raise locate(error, row.instruction, self.program.device) from error
        for slot, variable, shape, reader in row.rebinds:
            self._bind(slot, self._rebound(variable, shape, reader))
        return True

    def _computed(self, instruction: Instruction, inputs: list[Any], until: int | None) -> Any:
        """The result of an instruction's kernel; PAUSED: the deadline has passed in a loop or conditional."""
        if instruction.structure is None:
            return instruction.compute(*inputs)
        run = self.inner
        if run is None:
            run = self.inner = StructureRun(instruction, inputs, self.program.device)
        if self.frame.words[walking.CANCEL]:
            run.cancel()
        if not run.advance(None if until is None else max(until - perf_counter_ns(), 0)):
            return Outcome.PAUSED
        self.inner = None
        outputs = run.outputs()
        return outputs if len(outputs) != 1 else outputs[0]

    def _bind(self, slot: int, array: Array) -> None:
        self.kept[slot] = array
        self.frame.words[HEADER + slot] = address_of(array)

    def _rebound(self, variable: Variable, shape: tuple[int, ...], reader: Instruction) -> Array:
        """The content of a variable after a break that may have replaced it."""
        buffer = variable.buffer
        if buffer is None:
            raise self._uninitialised(variable, reader)
        if buffer.shape != shape:
            error = InvalidArgumentError(
                f"variable {variable.name!r} changed its shape during the step: expected {shape}, got {buffer.shape}"
            )
            raise locate(error, reader, self.program.device)
        return buffer

    def _publish_before(self, row: Break) -> None:
        for use, new in self.news:
            variable = use.variable
            due = variable in row.publishes and variable not in self.published
            if due and use.is_whole(self._has_run):
                variable.publish(new)
                self.published |= {variable}

    def _input(self, source: Any) -> Any:
        if isinstance(source, Place):
            return self._view(source)
        return self.objects[source] if isinstance(source, int) else source

    def _view(self, place: Place) -> Array:
        """A value in the arena as an array, valid during a break."""
        variant, spec = self.program.variant, place.spec
        if place.slot < len(self.arrays):
            memory = self.arrays[place.slot].reshape(-1).view(np.uint8)
        elif place.slot == variant.arena_slot:
            memory = self.frame.arena
        elif place.slot == variant.constants_slot:
            memory = variant.constants
        else:
            memory = self.kept[place.slot].reshape(-1).view(np.uint8)
        return memory[place.offset : place.offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)

    def _store(self, row: Break, results: Sequence[Any], inputs: Sequence[Any]) -> None:
        for output, result in zip(row.outputs, results, strict=False):
            if isinstance(output, int):
                self.objects[output] = result if isinstance(result, Variable) else np.array(result, copy=True)
                continue
            slot, spec = output
            if result is None:  # the output of a branch that was not taken; no row reads it
                result = np.zeros(spec.shape, spec.dtype)
            array = np.asarray(result)
            if array.shape != spec.shape or array.dtype != spec.dtype:
                raise InternalError(
                    f"expected {spec.dtype}{spec.shape} from the kernel, got {array.dtype}{array.shape}"
                )
            if (
                array.base is not None
                or any(array is given for given in inputs)
                or not array.flags.c_contiguous
            ):
                array = np.array(array, copy=True, order="C")
            self._bind(slot, array)
