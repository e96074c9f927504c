"""The state of a layout: values, buffers and rows so far. `item`, `lists` and `structures` lay out instructions with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aioexec.graph.kernels.kernel import Kernel, ListVerb, Spec
from aioexec.graph.kernels.panels import Storage
from aioexec.planning.instruction import Instruction, with_inner
from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.planning.layout.packed_constants import PackedConstant, PackedConstants
from aioexec.planning.layout.pending import (
    AbstractValue,
    Array,
    Mark,
    Object,
    Pending,
    PendingOperand,
    PendingRow,
    Slab,
)
from aioexec.planning.layout.versions import Versions
from aioexec.planning.plan import Item
from aioexec.resources.variable import Variable

NOTHING_SETTLED: Mapping[Variable, Array] = {}


class LayoutState(ABC):
    """The state of one layout.

    Attributes:
        item: what is laid out. Constant, as are the attributes up to `object_inputs`.
        refused: kernels that are not compiled, or cannot be; their rows become breaks.
        instructions: those of the item, each at its position; a structure is before its contents.
        position_of: the position of each instruction, by `id`.
        last: the position after all instructions, at which the outputs are needed.
        last_use: the last position that needs each value; `last` for outputs.
        gradient_sources: the sources of the TensorArrays of gradients that the instructions make.
        input_buffers: the buffer of each input that memory can hold.
        object_inputs: the inputs that are `Object`s.
        values: the abstract value of each value laid out so far.
        versions: the versions of each variable.
        buffers: every buffer made.
        break_buffers: those of `buffers` that hold outputs of breaks; a run binds them.
        constants: each known content that a row reads, with its buffer.
        constant_buffers: the buffer of each of `constants`, by `id`.
        packing: makes the packed constants; None: there are none.
        storage: in what packed matrices of products are kept.
        packed: each constant that a row takes packed, with its buffer.
        settled: variables whose contents are known and stay, so that rows may take copies of them packed.
        settled_contents: the content of each of these in memory, by the id() of the buffer.
        assumed: those of `settled` of which a row takes a packed copy.
        slabs: the lists in memory.
        pending: the rows, whose operands are still (buffer, offset).
        around: the first and last position of each structure being laid out, the innermost last; None for a conditional.
        native: the number of nodes that are not breaks.
        cost: the estimated nanoseconds of all rows.
    """

    def __init__(
        self,
        item: Item,
        values: tuple[Any, ...],
        inputs: Mapping[int, Spec],
        refused: Container[Kernel],
        packing: PackedConstants | None = None,
        settled: Mapping[Variable, Array] = NOTHING_SETTLED,
        storage: Storage = "",
    ) -> None:
        self.item = item
        self.refused = refused
        self.instructions = list(with_inner(item.instructions))
        self.position_of = {id(each): position for position, each in enumerate(self.instructions)}
        self._ends = {
            position: position + sum(1 for _ in with_inner([each])) - 1
            for position, each in enumerate(self.instructions)
            if each.structure is not None
        }
        self.last = len(self.instructions)
        self.last_use = _last_uses(self.instructions) | dict.fromkeys(item.outputs, self.last)
        self.gradient_sources = _gradient_sources(self.instructions)
        self.input_buffers: dict[int, Buffer] = {}
        self.object_inputs = tuple(value for value, spec in inputs.items() if spec.dtype == object)
        self.values: dict[int, AbstractValue] = {
            value: content for value, content in enumerate(values) if content is not None
        }
        self.versions = Versions(self.external)
        self.buffers: list[Buffer] = []
        self.break_buffers: list[Buffer] = []
        self.constants: list[tuple[Buffer, Array]] = []
        self.constant_buffers: dict[int, Buffer] = {}
        self.packing = packing
        self.storage = storage
        self.packed: dict[PackedConstant, Buffer] = {}
        self.settled = settled
        self.settled_contents: dict[int, tuple[Variable, Array]] = {}
        self.assumed: dict[Variable, Array] = {}
        self.slabs: list[Slab] = []
        self.pending: list[Pending] = []
        self.around: list[tuple[int, int] | None] = []
        self.native = 0
        self.cost = 0
        for value, spec in inputs.items():
            self._take_input(value, spec)

    def _take_input(self, value: int, spec: Spec) -> None:
        if spec.dtype == object:
            self.values[value] = Object(value)
            return
        self.input_buffers[value] = self.external(spec.nbytes)
        if spec.value is not None:
            self.values[value] = spec.value
        else:
            self.values[value] = Local(self.input_buffers[value], 0, spec)

    def external(self, nbytes: int) -> Buffer:
        buffer = Buffer(nbytes, slot=-1)
        self.buffers.append(buffer)
        return buffer

    def arena(self, nbytes: int, position: int) -> Buffer:
        buffer = Buffer(nbytes, born=position, dies=position)
        self.buffers.append(buffer)
        return buffer

    @abstractmethod
    def visit(self, instruction: Instruction) -> None:
        """Lay out one instruction."""

    def note_use(self, abstract: AbstractValue, position: int) -> None:
        """Extend a value's live range to a position; in a loop, a value from outside is needed in the next iteration too."""
        if isinstance(abstract, Local):
            abstract.buffer.seen = max(abstract.buffer.seen, position)
            abstract.buffer.dies = max(abstract.buffer.dies, position)
            for loop in self.around:
                if loop is not None and abstract.buffer.born < loop[0]:
                    abstract.buffer.keep_past(loop[1])

    def end_of(self, position: int) -> int:
        """The last position inside of a structure."""
        return self._ends[position]

    def mark(self) -> Mark:
        """The current extent of the layout."""
        slabs = [replace(slab, gradients=dict(slab.gradients)) for slab in self.slabs]
        return Mark(
            len(self.pending), len(self.buffers), len(self.break_buffers), self.native, self.cost, slabs
        )

    def roll_back_to(self, mark: Mark) -> None:
        """Discard the rows laid out since a mark."""
        self.native, self.cost = mark.native, mark.cost
        del (
            self.pending[mark.pending :],
            self.buffers[mark.buffers :],
            self.break_buffers[mark.break_buffers :],
        )
        del self.slabs[len(mark.slabs) :]
        for slab, before in zip(self.slabs, mark.slabs, strict=True):
            slab.element, slab.known, slab.version = before.element, before.known, before.version
            slab.gradients = before.gradients

    def unite(self, made: Buffer, kept: Buffer) -> None:
        """Replace one buffer of the arena by another in all rows."""

        def place(operand: PendingOperand) -> PendingOperand:
            return (kept, operand[1]) if operand[0] is made else operand

        for k, row in enumerate(self.pending):
            if isinstance(row, PendingRow) and any(buffer is made for buffer, _ in row.operands):
                self.pending[k] = replace(row, operands=tuple(place(operand) for operand in row.operands))
        self.buffers = [buffer for buffer in self.buffers if buffer is not made]
        for abstract in self.values.values():
            if isinstance(abstract, Local) and abstract.buffer is made:
                abstract.buffer = kept
        kept.heirs = [heir for heir in kept.heirs if heir is not made] + made.heirs

    def address(self, position: int, instruction: Instruction, abstract: AbstractValue) -> PendingOperand:
        if isinstance(abstract, Variable):
            local = self.versions.content(abstract, position, instruction, certain=not self.around)
            return local.buffer, local.offset
        if isinstance(abstract, np.ndarray):
            return self.constant(abstract), 0
        assert isinstance(abstract, Local)
        return abstract.buffer, abstract.offset

    def constant(self, content: Array) -> Buffer:
        buffer = self.constant_buffers.get(id(content))
        if buffer is None:
            buffer = self.external(content.nbytes)
            self.constant_buffers[id(content)] = buffer
            self.constants.append((buffer, content))
        return buffer

    def packed_constant(self, constant: PackedConstant) -> Buffer:
        buffer = self.packed.get(constant)
        if buffer is None:
            buffer = self.packed[constant] = self.external(constant.nbytes)
        return buffer

    def settled_content(self, abstract: Local) -> tuple[Variable, Array] | None:
        """The variable and the content that a value in memory has in every run; None if it is not known to stay."""
        known = self.settled_contents.get(id(abstract.buffer))
        whole = known is not None and abstract.offset == 0 and abstract.spec.nbytes == known[1].nbytes
        return known if whole else None

    def spec(self, abstract: AbstractValue) -> Spec | None:
        if isinstance(abstract, Local):
            return (
                replace(abstract.spec, may_be_packed=True, storage=self.storage)
                if self.settled_content(abstract)
                else abstract.spec
            )
        if isinstance(abstract, np.ndarray):
            if abstract.dtype == object:
                return None
            return Spec(abstract.dtype, abstract.shape, abstract, self.packing is not None, self.storage)
        return self.versions.spec(abstract) if isinstance(abstract, Variable) else None


def _last_uses(instructions: Sequence[Instruction]) -> dict[int, int]:
    """The position of the last instruction that takes each value."""
    return {
        value: position for position, instruction in enumerate(instructions) for value in instruction.inputs
    }


def _gradient_sources(instructions: Sequence[Instruction]) -> list[str]:
    """The sources of the lists of gradients that the instructions use."""
    uses = ((each.node.row.lists, each.node.op.attrs) for each in instructions if each.node.feed is None)
    return sorted({attrs["source"] for use, attrs in uses if use and use.verb is ListVerb.GRADIENT})
