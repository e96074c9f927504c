"""The state of a layout: values, buffers and rows so far. `item`, `lists` and `structures` lay out instructions with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aioexec.graph.kernels.kernel import Kernel, ListVerb, Spec
from aioexec.planning.instruction import Instruction, with_inner
from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.planning.layout.pending import (
    Array,
    Held,
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


class LayoutState(ABC):
    """The state of one layout.

    Constant: `instructions`, each at its position, structures before their contents; `last_use`, the last position that needs
    a value, after all of them for outputs. Changing: `held`, the present knowledge of each value; `buffers`, every buffer made;
    `pending`, the rows, with operands still as (buffer, offset); `versions`, the variables; `around`, the first and last
    position of each structure being laid out, None for conditionals, the innermost last.
    """

    def __init__(
        self, item: Item, values: tuple[Any, ...], inputs: Mapping[int, Spec], refused: Container[Kernel]
    ) -> None:
        self.refused = refused
        self.slabs: list[Slab] = []
        self.item = item
        self.held: dict[int, Held] = {}
        self.buffers: list[Buffer] = []
        self.pending: list[Pending] = []
        self.around: list[tuple[int, int] | None] = []
        self.constants: list[tuple[Buffer, Array]] = []
        self.constant_buffers: dict[int, Buffer] = {}
        self.native = 0
        self.cost = 0
        self.instructions = list(with_inner(item.instructions))
        self.gradient_sources = _gradient_sources(self.instructions)
        self.position_of = {id(each): position for position, each in enumerate(self.instructions)}
        self._ends = {
            position: position + sum(1 for _ in with_inner([each])) - 1
            for position, each in enumerate(self.instructions)
            if each.structure is not None
        }
        self.last = len(self.instructions)
        self.last_use = _last_uses(self.instructions) | dict.fromkeys(item.outputs, self.last)
        for value, content in enumerate(values):
            if content is not None:
                self.held[value] = content
        self.input_buffers: dict[int, Buffer] = {}
        self.object_inputs = tuple(value for value, spec in inputs.items() if spec.dtype == object)
        for value, spec in inputs.items():
            self._take_input(value, spec)
        self.versions = Versions(self.external)
        self.break_buffers: list[Buffer] = []

    def _take_input(self, value: int, spec: Spec) -> None:
        if spec.dtype == object:
            self.held[value] = Object(value)
            return
        self.input_buffers[value] = self.external(spec.nbytes)
        if spec.value is not None:
            self.held[value] = spec.value
        else:
            self.held[value] = Local(self.input_buffers[value], 0, spec)

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

    def note_use(self, held: Held, position: int) -> None:
        """Extend a value's live range to a position; in a loop, a value from outside is needed in the next iteration too."""
        if isinstance(held, Local):
            held.buffer.seen = max(held.buffer.seen, position)
            held.buffer.dies = max(held.buffer.dies, position)
            for loop in self.around:
                if loop is not None and held.buffer.born < loop[0]:
                    held.buffer.keep_past(loop[1])

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
        for held in self.held.values():
            if isinstance(held, Local) and held.buffer is made:
                held.buffer = kept
        kept.heirs = [heir for heir in kept.heirs if heir is not made] + made.heirs

    def address(self, position: int, instruction: Instruction, held: Held) -> PendingOperand:
        if isinstance(held, Variable):
            local = self.versions.content(held, position, instruction, certain=not self.around)
            return local.buffer, local.offset
        if isinstance(held, np.ndarray):
            return self.constant(held), 0
        assert isinstance(held, Local)
        return held.buffer, held.offset

    def constant(self, content: Array) -> Buffer:
        buffer = self.constant_buffers.get(id(content))
        if buffer is None:
            buffer = self.external(content.nbytes)
            self.constant_buffers[id(content)] = buffer
            self.constants.append((buffer, content))
        return buffer

    def spec(self, held: Held) -> Spec | None:
        if isinstance(held, Local):
            return held.spec
        if isinstance(held, np.ndarray):
            return None if held.dtype == object else Spec(held.dtype, held.shape, held)
        return self.versions.spec(held) if isinstance(held, Variable) else None


def _last_uses(instructions: Sequence[Instruction]) -> dict[int, int]:
    """The position of the last instruction that takes each value."""
    return {
        value: position for position, instruction in enumerate(instructions) for value in instruction.inputs
    }


def _gradient_sources(instructions: Sequence[Instruction]) -> list[str]:
    """The sources of the lists of gradients that the instructions use."""
    uses = ((each.node.row.lists, each.node.op.attrs) for each in instructions if each.node.feed is None)
    return sorted({attrs["source"] for use, attrs in uses if use and use.verb is ListVerb.GRADIENT})
