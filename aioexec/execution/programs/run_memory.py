"""The memory of one run of a program: a leased frame, the arrays bound to its slots, and the values that it publishes.

`walk.Walk` executes the rows. One thread at a time uses the memory; the helpers of a parallel region use only their own frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import HEADER
from aioexec.errors import FailedPreconditionError, InvalidArgumentError, OpError
from aioexec.execution.programs.frame import Frame
from aioexec.execution.programs.linking import address_of
from aioexec.execution.programs.parallel_regions import RegionRun
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.structures import StructureRun
from aioexec.execution.programs.trace import Trace, note_program
from aioexec.observability.step_stats import StepStatsCollector
from aioexec.planning.instruction import Instruction, locate
from aioexec.planning.layout.variant import Break, Place, VariableUse
from aioexec.resources.variable import Variable

Array = np.ndarray[Any, Any]

_NO_VARIABLES: frozenset[Variable] = frozenset()


class GuardError(Exception):
    """A guard failed: a variable has another shape than the program was laid out for, or there is no memory for the outputs.

    Nothing was run; the reference tier runs the item.
    """


class RunMemory:
    """The memory of one run of a program.

    `arrays` are bound to the first slots, and rows write those from the slot `first_written` on; `news` the new contents of
    variables that are not written in place; `kept` are arrays that breaks bound to slots; `objects` are values that memory
    cannot hold. `walker` is the program's; `trace` is None in a run that is not traced; `inner` is the loop or conditional that
    Python runs, `region` the parallel region that is being executed, or that was not executed to its end.

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
        "first_written",
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
        self.first_written = len(inputs)
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
        self.region: RegionRun | None = None
        self.news: list[tuple[VariableUse, Array]] = []
        if program.variant.uses:
            self.arrays = [*inputs, *self._variables(in_place), *self.outputs]
        else:
            self.arrays = [*inputs, *self.outputs]
        self.walker = program.walker
        self.trace: Trace | None = None
        if traced:
            self.trace = Trace(len(program.variant.rows))
        if frame is None:  # last, since a constructor that raises must not hold a frame
            frame = program.lease_for_worker() if queued else program.lease()
        self.frame = frame
        if self.trace is not None:
            self.frame.words[walking.STAMPS] = address_of(self.trace.stamps)

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

    # For the rows that Python executes

    def input(self, source: Any) -> Any:
        """The source of an input of a row as Python code uses it; an array is valid during a break."""
        if isinstance(source, Place):
            views = self.frame.views
            found = views.get(id(source))
            if found is None:
                found = self.view(source)
                if source.slot in (self.program.variant.arena_slot, self.program.variant.constants_slot):
                    views[id(source)] = found
            return found
        return self.objects[source] if isinstance(source, int) else source

    def view(self, place: Place) -> Array:
        """A value in memory as an array, valid during a break."""
        variant, spec = self.program.variant, place.spec
        if place.slot < len(self.arrays):
            memory = self.arrays[place.slot]
            if place.slot >= self.first_written:  # as a view, so that a list that keeps the value copies it
                memory = memory[...]
        elif place.slot == variant.arena_slot:
            memory = self.frame.arena
        elif place.slot == variant.constants_slot:
            memory = variant.constants
        elif place.slot in variant.large:
            memory = variant.large[place.slot]
        else:
            memory = self.kept[place.slot]
        if place.offset == 0 and memory.dtype == spec.dtype and memory.shape == spec.shape:
            return memory
        memory = memory.reshape(-1).view(np.uint8)
        return memory[place.offset : place.offset + spec.nbytes].view(spec.dtype).reshape(spec.shape)

    def bind(self, slot: int, array: Array) -> None:
        self.kept[slot] = array
        self.frame.words[HEADER + slot] = address_of(array)

    def read_rebound(self, variable: Variable, shape: tuple[int, ...], reader: Instruction) -> Array:
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

    def publish_before(self, row: Break) -> None:
        if not row.publishes:
            return
        for use, new in self.news:
            variable = use.variable
            due = variable in row.publishes and variable not in self.published
            if due and use.is_whole(self._has_run):
                variable.publish(new)
                self.published |= {variable}

    # The end

    def _has_run(self, row: int) -> bool:
        """Whether a row has run and will not run again."""
        if self.region is not None and self.region.contains(row):
            return self.region.has_run(row)
        return bool(row < self.frame.words[walking.PC])

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
        if self.trace is not None:
            self.frame.words[walking.STAMPS] = 0
        self.program.release(self.frame)
        if collector is not None:
            self.note(collector)

    def pin(self, step: int) -> None:
        """Add this run to the readers of its variables (1), or remove it (-1)."""
        for use in self.program.variant.uses:
            use.variable.pins += step

    def note(self, collector: StepStatsCollector) -> None:
        """Note the nodes of a traced run, however it ended."""
        assert self.trace is not None
        note_program(collector, self.trace, self.program.variant, self.program.device)
