"""Makes variants: lays an item out for concrete shapes, then assigns each buffer its place and each row its operands."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping
from typing import Any

import numpy as np

from aioexec.errors import UnimplementedError
from aioexec.graph.kernels.kernel import Kernel, Role, Spec
from aioexec.graph.kernels.panels import Storage
from aioexec.planning.fusion.called_epilogues import call_epilogues
from aioexec.planning.fusion.elementwise import fuse
from aioexec.planning.fusion.epilogues import fuse_epilogues
from aioexec.planning.fusion.product_results import place_results
from aioexec.planning.instruction import Instruction
from aioexec.planning.layout.buffers import ALIGNMENT, Buffer, Local, lay_out
from aioexec.planning.layout.layout import Layout
from aioexec.planning.layout.packed_constants import PackedConstant, PackedConstants
from aioexec.planning.layout.pending import (
    AbstractValue,
    Array,
    InMemory,
    ListsRefusedError,
    Object,
    Pending,
    PendingBreak,
    PendingGrow,
    PendingJump,
    PendingMove,
    PendingRow,
    copy_row,
    touched,
)
from aioexec.planning.layout.reserves import move_reserves
from aioexec.planning.layout.state import NOTHING_SETTLED
from aioexec.planning.layout.variant import (
    Break,
    Grow,
    Jump,
    Move,
    ParallelRegion,
    Place,
    ProgramRow,
    Row,
    Source,
    Task,
    Variant,
)
from aioexec.planning.parallelism.lane_buffers import lay_out_lanes
from aioexec.planning.parallelism.lanes import PendingParallelRegion, cut
from aioexec.planning.plan import Item
from aioexec.resources.variable import Variable

logger = logging.getLogger(__name__)

_LARGE = 1 << 20
"""Bytes from which on a program does not copy constants, and a program that would only copy variables is refused."""


def lay_out_item(
    item: Item,
    values: tuple[Any, ...],
    inputs: Mapping[int, Spec],
    refused: Container[Kernel] = (),
    lanes: int = 1,
    packing: PackedConstants | None = None,
    settled: Mapping[Variable, Array] = NOTHING_SETTLED,
    storage: Storage = "",
) -> Variant:
    """Lay an item out for inputs of these specs; those in `shape_inputs` with their content.

    Args:
        values: the plan's values, of which constants and variables are known.
        refused: kernels that are not compiled, or cannot be; nodes that would need one become breaks.
        lanes: the number of workers; expensive rows are split into tasks for them.
        packing: packs constants; None: kernels take all constants as they are.
        settled: contents of variables that the item only reads; the variant holds while they stay (see `Variant.assumed`).
        storage: in what packed matrices of products are kept.

    Raises:
        GraphValueError: the shapes do not fit an op.
        UnimplementedError: without the refused kernels there is no program at all; or a program would only copy large
            variables, which reference kernels pass on without a copy.
    """
    options: dict[str, Any] = {"packing": packing, "settled": settled, "storage": storage}
    try:
        return _lay_out(Layout(item, values, inputs, refused, **options), lanes)
    except ListsRefusedError as refusal:
        logger.debug("item %d keeps its lists as objects: %s", item.index, refusal)
        return _lay_out(Layout(item, values, inputs, refused, with_lists=False, **options), lanes)


def _lay_out(layout: Layout, lanes: int) -> Variant:
    layout.run()
    if not layout.pending and _reads_large_variables(layout):
        raise UnimplementedError("a program that only reads large variables would copy them")
    fuse_epilogues(layout)
    fuse(layout)
    place_results(layout)
    call_epilogues(layout)
    move_reserves(layout)
    return _Freezer(layout, lanes).variant()


def _reads_large_variables(layout: Layout) -> bool:
    """Whether an item only reads variables, as a saver does, and large ones."""
    specs = [layout.spec(layout.values[value]) for value in layout.item.outputs]
    is_large = sum(spec.nbytes for spec in specs if spec is not None) >= _LARGE
    return is_large and all(each.node.row.role is Role.READ for each in layout.instructions)


class _Freezer:
    """Numbers the slots of a finished layout.

    Outputs come in three kinds: `outputs` in memory of their own, filled by rows or by `copies`; `objects`, left by breaks or
    taken from inputs; `given`, known beforehand.
    """

    def __init__(self, layout: Layout, lanes: int) -> None:
        self.layout = layout
        self.lanes = lanes
        self.copies: list[PendingRow] = []
        self.outputs: list[tuple[int, Buffer, Spec]] = []
        self.objects: list[tuple[int, int]] = []
        self.given: list[tuple[int, Variable | Array]] = []
        self.packed: dict[PackedConstant, int] = {}
        self.large: dict[int, Array] = {}
        self.arena_slot = 0

    def variant(self) -> Variant:
        layout = self.layout
        for value in layout.item.outputs:
            self._place_output(value, layout.values[value])
        slots = self._number_slots()
        constants = self._pool(self.arena_slot + 1)
        uses = layout.versions.uses()
        rows: list[Pending | PendingParallelRegion] = [*layout.pending, *self.copies]
        same = {id(use.new): use.old for use in uses if use.old is not None and use.in_place}
        parallel = cut([*layout.pending, *self.copies], self.lanes, same)
        if parallel is None:
            arena_bytes = lay_out(layout.buffers)
        else:
            rows = parallel.rows
            arena_bytes = lay_out_lanes(layout.buffers, parallel, self.lanes, slots)
        places = (lambda row: (row,)) if parallel is None else parallel.places.__getitem__
        return Variant(
            layout.item,
            tuple(layout.input_buffers),
            layout.object_inputs,
            tuple(use.freeze(places) for use in uses),
            tuple((value, spec) for value, _, spec in self.outputs),
            tuple(self.objects),
            tuple(self.given),
            tuple(self._final(row) for row in rows),
            tuple(layout.instructions),
            slots + (parallel is not None),
            self.arena_slot,
            arena_bytes,
            self.arena_slot + 1,
            constants,
            self.packed,
            self.large,
            -1 if parallel is None else slots,
            layout.cost + sum(row.launch.cost for row in self.copies),
            layout.native,
            sum(each.structure is None for each in layout.instructions),
            {value: each.spec for value, each in layout.values.items() if isinstance(each, Local)},
            tuple(layout.assumed.items()),
        )

    def _place_output(self, value: int, abstract: AbstractValue) -> None:
        """An output slot for a value with consumers: its own buffer, or a copy if it shares the buffer."""
        if isinstance(abstract, InMemory):
            raise ListsRefusedError("a list that leaves the program")
        if isinstance(abstract, Object):
            self.objects.append((value, abstract.value))
        elif isinstance(abstract, Variable) or (
            isinstance(abstract, np.ndarray) and abstract.dtype == object
        ):
            self.given.append((value, abstract))
        elif isinstance(abstract, Local) and _owns_its_buffer(abstract):
            abstract.buffer.slot = -1
            self.outputs.append((value, abstract.buffer, abstract.spec))
        else:
            self._copy_output(value, abstract)

    def _copy_output(self, value: int, abstract: Local | Array) -> None:
        if isinstance(abstract, Local):
            spec, source = abstract.spec, (abstract.buffer, abstract.offset)
        else:
            spec, source = Spec(abstract.dtype, abstract.shape), (self.layout.constant(abstract), 0)
        target = self.layout.external(spec.nbytes)
        self.outputs.append((value, target, spec))
        source[0].dies = self.layout.last
        row = copy_row(spec, source, (target, 0), self.layout.last - 1)
        if row is None:
            return
        if row.launch.kernel in self.layout.refused:
            raise UnimplementedError("outputs cannot be copied: that kernel does not compile")
        self.copies.append(row)

    def _number_slots(self) -> int:
        layout, slot = self.layout, 0
        contents = [content for use in layout.versions.uses() for content in (use.old, use.new)]
        bound = [*layout.input_buffers.values(), *contents, *(buffer for _, buffer, _ in self.outputs)]
        for buffer in bound:
            if buffer is not None:
                buffer.slot, slot = slot, slot + 1
        self.arena_slot, slot = slot, slot + 2  # the constants' slot follows the arena's
        used = {id(buffer) for row in layout.pending for buffer in touched(row)}
        for constant, buffer in layout.packed.items():
            if id(buffer) in used:
                buffer.slot = self.packed[constant] = slot
                slot += 1
        for buffer, content in layout.constants:
            if content.nbytes >= _LARGE and content.flags.c_contiguous and content.flags.aligned:
                buffer.slot, self.large[slot] = slot, content
                slot += 1
        for buffer in (*layout.break_buffers, *layout.versions.rebound):
            buffer.slot, slot = slot, slot + 1
        return slot

    def _pool(self, slot: int) -> Array:
        """All constants but large ones in one array of bytes, each aligned."""
        offset = 0
        copied = [
            (buffer, content) for buffer, content in self.layout.constants if buffer.slot not in self.large
        ]
        for buffer, content in copied:
            buffer.slot, buffer.offset = slot, offset
            offset += -(-content.nbytes // ALIGNMENT) * ALIGNMENT
        pool = np.zeros(offset + ALIGNMENT, np.uint8)
        start = -pool.__array_interface__["data"][0] % ALIGNMENT
        pool = pool[start : start + max(offset, 1)]
        for buffer, content in copied:
            flat = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
            pool[buffer.offset : buffer.offset + content.nbytes] = flat
        return pool

    def _final(self, row: Pending | PendingParallelRegion) -> Row:
        if isinstance(row, PendingParallelRegion):
            return _final_region(row, self.lanes)
        if isinstance(row, PendingRow):
            launch = row.launch
            operands = tuple(self._address(*operand) for operand in row.operands)
            words = launch.words if row.after is None else (*launch.words[:-1], row.after.row)
            return ProgramRow(
                launch.kernel,
                operands,
                words,
                launch.reals,
                launch.cost,
                launch.units,
                row.position,
                row.parts,
                launch.calls,
            )
        if isinstance(row, PendingJump):
            predicate = None if row.predicate is None else self._address(*row.predicate)
            return Jump(row.target.row, predicate, row.position)
        if isinstance(row, PendingGrow):
            storage, _ = self._address(row.storage)
            length, room = self._address(row.length), self._address(row.room)
            return Grow(storage, length, room, row.nbytes, row.limit, row.position)
        if isinstance(row, PendingMove):
            return Move(
                tuple((self._source(abstract), number) for abstract, number in row.moves), row.position
            )
        return Break(
            row.instruction,
            row.position,
            row.reason,
            tuple(self._source(abstract) for abstract in row.inputs),
            tuple(out if isinstance(out, int) else (self._address(out[0])[0], out[1]) for out in row.outputs),
            row.publishes,
            tuple(self._rebinds(row)),
        )

    def _address(self, buffer: Buffer, offset: int = 0) -> tuple[int, int]:
        slot = self.arena_slot if buffer.slot is None else buffer.slot
        assert slot >= 0
        return slot, buffer.offset + offset

    def _source(self, abstract: AbstractValue) -> Source:
        if isinstance(abstract, Local):
            return Place(*self._address(abstract.buffer, abstract.offset), abstract.spec)
        if isinstance(abstract, InMemory):
            raise ListsRefusedError("a list that Python code uses")
        return abstract.value if isinstance(abstract, Object) else abstract

    def _rebinds(self, row: PendingBreak) -> Iterator[tuple[int, Variable, tuple[int, ...], Instruction]]:
        for buffer, variable, shape in row.rebinds:
            reader = self.layout.versions.reader(buffer)
            if reader is not None:
                yield self._address(buffer)[0], variable, shape, reader


def _final_region(region: PendingParallelRegion, lanes: int) -> ParallelRegion:
    tasks: list[Task] = []
    start = region.start + 1
    for task in region.tasks:
        order = tuple(number for number, _ in task.rows)
        end = start + len(order)
        tasks.append(Task(start, end, order, tuple(task.next), task.waits.bit_count()))
        start = end
    scratch = region.scratch.offset if region.scratch is not None else 0
    return ParallelRegion(tuple(tasks), start, lanes, scratch, region.lane_bytes, region.positions[0])


def _owns_its_buffer(abstract: Local) -> bool:
    """Whether a value is alone in a buffer of the arena, so that the buffer may become an output's."""
    return (
        abstract.buffer.slot is None
        and abstract.offset == 0
        and abstract.buffer.nbytes == abstract.spec.nbytes
    )
