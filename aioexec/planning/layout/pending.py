"""The parts of a layout under construction: abstract values, and rows whose buffers have no offset yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import ElementwiseKernel, Launch, Operand, Spec
from aioexec.graph.kernels.launches import copy_launch
from aioexec.planning.instruction import Instruction
from aioexec.planning.layout.buffers import Buffer, Local
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]


class RefusedError(Exception):
    """A loop or conditional cannot be laid out."""


class ListsRefusedError(Exception):
    """A list cannot be in the memory of a program."""


@dataclass(slots=True, eq=False)
class Slab:
    """A list in memory.

    Attributes:
        dtype, element: of each element; the shape is None until the first one is laid out.
        dims: the declared, perhaps partial, shape of each element.
        count: the number of elements of a list of fixed length; None for a growing list.
        is_value, writes_once: see `ListUse`; `adds`: it is a list of gradients; `clears`: reading clears an element.
        zeros: when an unset element reads as zeros: always, since `dims` are defined (`ZEROS`); once another element is set
            (`INFERS`); or only where a read determines the shape (0).
        storage: the elements. A growing list has its `length` and `room` in words, one of fixed length `flags`.
        limit: the most elements of a growing list; -1: unlimited.
        known: the elements, if they are known when the program is made: then there are none in memory.
        version: how often a list that is a value has been changed.
        closed: no further operation on it is allowed.
        gradients: lists of gradients of this one, by source.
    """

    dtype: np.dtype[Any]
    count: int | None
    is_value: bool
    writes_once: bool
    zeros: int
    adds: bool = False
    clears: bool = False
    element: Spec | None = None
    storage: Buffer | None = None
    length: Buffer | None = None
    room: Buffer | None = None
    flags: Buffer | None = None
    limit: int = -1
    known: Array | None = None
    version: int = 0
    dims: Dims = None
    closed: bool = False
    gradients: dict[str, Slab] = field(default_factory=dict)

    def buffers(self) -> list[Buffer]:
        found = (self.storage, self.length, self.room, self.flags)
        return [buffer for buffer in found if buffer is not None]


@dataclass(frozen=True, slots=True, eq=False)
class InMemory:
    """A list in memory, as it was at one point."""

    slab: Slab
    version: int


class Object:
    """A value that the arena cannot hold; runs keep it under its number."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


AbstractValue = Local | Object | Variable | InMemory | Array
"""What a layout knows of a value: its content (an array), or where a run finds it."""
PendingOperand = tuple[Buffer, int]


@dataclass(slots=True, eq=False)
class Label:
    """A row to jump to."""

    row: int = -1


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A launch whose buffers have no offset yet. Its kernel may jump to row `after`, which is then its last word.

    `parts` are the position and the static cost of each row that was fused into this one.
    """

    launch: Launch
    operands: tuple[PendingOperand, ...]
    position: int
    after: Label | None = None
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def reads(self) -> tuple[PendingOperand, ...]:
        """The operands it may read; for a kernel that is not elementwise, these include those it writes."""
        kernel = self.launch.kernel
        return self.operands[: len(kernel.inputs)] if isinstance(kernel, ElementwiseKernel) else self.operands

    @property
    def writes(self) -> tuple[PendingOperand, ...]:
        """The operands it may write; for a kernel that is not elementwise, these include all scratch."""
        kernel = self.launch.kernel
        if isinstance(kernel, ElementwiseKernel):
            return self.operands[len(kernel.inputs) :]
        pairs = zip(self.operands, self.launch.operands, strict=True)
        return tuple(operand for operand, declared in pairs if declared.kind not in ("input", "packed"))


@dataclass(frozen=True, slots=True)
class PendingBreak:
    """A break whose buffers have no offset yet; see `Break`."""

    instruction: Instruction
    position: int
    reason: str
    inputs: tuple[AbstractValue, ...]
    outputs: tuple[tuple[Buffer, Spec] | int, ...]
    publishes: tuple[Variable, ...]
    rebinds: tuple[tuple[Buffer, Variable, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class PendingJump:
    """A jump, unless the predicate holds; without one, always."""

    target: Label
    predicate: PendingOperand | None
    position: int


@dataclass(frozen=True, slots=True)
class PendingMove:
    """Values that become objects of the run, under these numbers."""

    moves: tuple[tuple[AbstractValue, int], ...]
    position: int


@dataclass(frozen=True, slots=True)
class PendingGrow:
    """A row that enlarges a list; see `Grow`."""

    storage: Buffer
    length: Buffer
    room: Buffer
    nbytes: int
    limit: int
    position: int


Pending = PendingRow | PendingBreak | PendingJump | PendingMove | PendingGrow


def touched(pending: Pending) -> Iterator[Buffer]:
    """The buffers that a row reads or writes; a break binds its outputs itself."""
    if isinstance(pending, PendingRow):
        yield from (buffer for buffer, _ in pending.operands)
    elif isinstance(pending, PendingJump):
        if pending.predicate is not None:
            yield pending.predicate[0]
    elif isinstance(pending, PendingGrow):
        yield from (pending.storage, pending.length, pending.room)
    elif isinstance(pending, PendingMove):
        yield from (abstract.buffer for abstract, _ in pending.moves if isinstance(abstract, Local))
    else:
        yield from (abstract.buffer for abstract in pending.inputs if isinstance(abstract, Local))


def labels(rows: Iterable[Pending]) -> list[Label]:
    """The labels that rows jump to, each once."""
    targets = [row.target for row in rows if isinstance(row, PendingJump)]
    targets += [row.after for row in rows if isinstance(row, PendingRow) and row.after is not None]
    return list({id(label): label for label in targets}.values())


@dataclass(frozen=True, slots=True)
class Mark:
    """The extent of a layout at some point of its construction."""

    pending: int
    buffers: int
    break_buffers: int
    native: int
    cost: int
    slabs: list[Slab]


def copy_row(spec: Spec, source: PendingOperand, target: PendingOperand, position: int) -> PendingRow | None:
    """Copy a contiguous value; elements wider than a word go in words. None: there is nothing to copy."""
    itemsize = spec.dtype.itemsize
    width = itemsize if itemsize in (1, 2, 4, 8) else 8 if itemsize % 8 == 0 else 1
    launch = copy_launch(
        Operand("input", 0), (width,), Operand("output", 0), (width,), (spec.nbytes // width,), width
    )
    return None if launch is None else PendingRow(launch, (source, target), position)
