"""A variant: an item laid out for concrete shapes, as rows for the walker.

Immutable and shared by all runs. Slots of its frames come in this order: inputs, present contents of variables, new contents of
variables, outputs (all bound when a run starts), then the arena, the constants, packed ones, large ones, and the outputs of
breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Kernel, Spec, Units
from aioexec.planning.instruction import Instruction
from aioexec.planning.layout.packed_constants import PackedConstant
from aioexec.planning.plan import Item
from aioexec.resources.variable import Variable

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Place:
    """Memory of a value during a run: a slot, an offset in bytes, and the value's spec."""

    slot: int
    offset: int
    spec: Spec


Source = Place | int | Variable | Array
"""The source of a break's input: memory, the run's objects (by value number), or a value known when the program is made."""


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRow:
    """A launch with its operands resolved to (slot, byte offset).

    Attributes:
        position: its instruction in the item; of a fused row, where it runs.
        parts: the positions of all instructions fused into the row, each with its static cost.
        calls: see `Launch.calls`.
    """

    kernel: Kernel
    operands: tuple[tuple[int, int], ...]
    words: tuple[int, ...]
    reals: tuple[float, ...]
    cost: int
    units: Units | None
    position: int
    parts: tuple[tuple[int, int], ...] = ()
    calls: Kernel | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Break:
    """A row without a native kernel: the reference kernel runs, and the program continues.

    Attributes:
        reason: why there is no native form, for reports.
        inputs: where its inputs are.
        outputs: for each output its slot and spec, or the number of the value it becomes as an object.
        publishes: variables handed to the kernel, whose content as of this row must be their present one.
        rebinds: for each of those variables that later rows use: slot, variable, the shape they need, the first node that does.
    """

    instruction: Instruction
    position: int
    reason: str
    inputs: tuple[Source, ...]
    outputs: tuple[tuple[int, Spec] | int, ...]
    publishes: tuple[Variable, ...]
    rebinds: tuple[tuple[int, Variable, tuple[int, ...], Instruction], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Jump:
    """A jump to the row `target`, unless the bool at `predicate` is true; without a predicate, always."""

    target: int
    predicate: tuple[int, int] | None
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """A row that makes values objects of the run, all at once: each has a source and a number."""

    moves: tuple[tuple[Source, int], ...]
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Grow:
    """A row that enlarges the memory of a list: to twice the number of elements, and to a minimum.

    Attributes:
        storage: the slot of the elements.
        length, room: the places of the list's length and of its capacity, in elements.
        nbytes: of an element.
        limit: the most elements; -1: unlimited.
    """

    storage: int
    length: tuple[int, int]
    room: tuple[int, int]
    nbytes: int
    limit: int
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A task of a parallel region: the rows from `start` to before `end`, which one thread runs in their order.

    Attributes:
        order: for each row its position in program order, before the region was formed; parts of one row have the same.
        next: numbers of the tasks that wait for this one; `waits`: the number of tasks it waits for.
    """

    start: int
    end: int
    order: tuple[int, ...]
    next: tuple[int, ...]
    waits: int


@dataclass(frozen=True, slots=True, eq=False)
class ParallelRegion:
    """A row that begins a parallel region: the following rows, up to `end`, are tasks that several threads run.

    Attributes:
        tasks: in an order in which they may begin.
        lanes: the most threads that may be in the region at once.
        scratch: the offset in the arena of the memory of the lanes, of `lane_bytes` each.
    """

    tasks: tuple[Task, ...]
    end: int
    lanes: int
    scratch: int
    lane_bytes: int
    position: int


Row = ProgramRow | Break | Jump | Move | Grow | ParallelRegion


@dataclass(frozen=True, slots=True, eq=False)
class VariableUse:
    """The use of a variable by a program.

    Attributes:
        shape: the shape its present content must have; None if it is not known, and then nothing is bound.
        reader: the instruction that first needs its present content; None if none does.
        old_slot, new_slot: where its present and new content are bound; None if not needed.
        writes: for each write, in order, the rows that perform it.
        in_place: whether the new content may overwrite the present one if nothing else refers to that.
        certain: whether every run needs its present content, whatever branches are taken.
    """

    variable: Variable
    shape: tuple[int, ...] | None
    reader: Instruction | None
    old_slot: int | None
    new_slot: int | None
    writes: tuple[tuple[int, ...], ...]
    in_place: bool
    certain: bool

    def is_whole(self, has_run: Callable[[int], bool]) -> bool:
        """Whether the new content is that of the writes that were finished, given which rows have run."""
        finished = [all(has_run(row) for row in rows) for rows in self.writes]
        begun = [any(has_run(row) for row in rows) for rows in self.writes]
        return any(finished) and not any(b and not f for b, f in zip(begun, finished, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """An item for concrete shapes.

    Attributes:
        inputs: item inputs to bind, in slot order.
        object_inputs: item inputs that memory cannot hold (strings): breaks take them as they are.
        uses: variables, in slot order.
        outputs: (value, spec) of each output to be allocated and bound, in slot order.
        objects: (value, number) of each item output that is one of the run's objects: an input or from a break.
        given: item outputs that are known beforehand: variables themselves, strings.
        rows: program rows; a Break takes a row of its own.
        instructions: what `position` of a row refers to: the item's, structures before their contents.
        slots: number of slots.
        arena_slot, arena_bytes: the arena.
        constants_slot, constants: bytes of all constants the rows read, except packed and large ones.
        packed: the slot of each packed constant.
        large: the large constants, by slot: the arrays of the plan.
        lane_slot: the memory of the lane in which a task runs; -1: there are no parallel regions.
        cost: estimated nanoseconds of a run.
        native, total: nodes of the item that run natively (folded and aliased ones included), and all.
        specs: the spec of each value made in the item, if memory holds it; for traces.
        assumed: variables of which rows take packed copies, and the contents of these: the variant is valid while they stay.
    """

    item: Item
    inputs: tuple[int, ...]
    object_inputs: tuple[int, ...]
    uses: tuple[VariableUse, ...]
    outputs: tuple[tuple[int, Spec], ...]
    objects: tuple[tuple[int, int], ...]
    given: tuple[tuple[int, Variable | Array], ...]
    rows: tuple[Row, ...]
    instructions: tuple[Instruction, ...]
    slots: int
    arena_slot: int
    arena_bytes: int
    constants_slot: int
    constants: Array
    packed: Mapping[PackedConstant, int]
    large: Mapping[int, Array]
    lane_slot: int
    cost: int
    native: int
    total: int
    specs: Mapping[int, Spec]
    assumed: tuple[tuple[Variable, Array], ...]

    @property
    def breaks(self) -> list[Break]:
        return [row for row in self.rows if isinstance(row, Break)]

    @property
    def parallel_regions(self) -> list[ParallelRegion]:
        return [row for row in self.rows if isinstance(row, ParallelRegion)]

    @property
    def jumps(self) -> bool:
        """Whether the duration of a run depends on data."""
        return any(isinstance(row, Jump) for row in self.rows)

    @property
    def packed_bytes(self) -> int:
        return sum(constant.nbytes for constant in self.packed)

    @property
    def output_bytes(self) -> int:
        return sum(spec.nbytes for _, spec in self.outputs)

    @property
    def kernels(self) -> set[Kernel]:
        rows = [row for row in self.rows if isinstance(row, ProgramRow)]
        return {row.kernel for row in rows} | {row.calls for row in rows if row.calls is not None}
