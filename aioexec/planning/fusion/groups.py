"""Fusion groups: elementwise rows that form one kernel; the conditions, the time saved, and the kernel.

A group executes all its rows for one vector of elements, then for the next. That is equivalent to executing the rows one after
another if each memory that one row writes, and another reads or writes, is accessed at the same place for the same element:
through the same view. Values that are written and read inside then stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from math import prod

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import ElementwiseKernel, Operand
from aioexec.graph.kernels.launches import ENTRY_NS, ITEMSIZE, View, expensive_calls, launch
from aioexec.planning.fusion.bodies import JoinedBody, statements_of
from aioexec.planning.fusion.spaces import Dims, refined, restrided
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.pending import PendingOperand, PendingRow

MOST_STATEMENTS = 32
"""The most statements of a kernel: compiling takes milliseconds for each, and longer kernels save little more."""
MOST_EXPENSIVE = 8
"""The most calls of elementary functions: in a longer dependent chain, out-of-order execution has nothing to overlap."""
MOST_OPERANDS = 16
BYTE_NS = 0.0075  # to load or store a byte, in the first-level cache
ROW_NS = 6  # to enter a kernel
LINE_NS = 5  # to advance to the next line of a nest
WHOLE, REST = 32, 16
"""Elements of a vector in the main loop of a line, and in its remainder, where each element takes about twice as long."""

Place = tuple[int, tuple[int, ...], int]
"""The place of elements in a buffer: offset, strides, and element width (a bool in a register has one bit, not a byte)."""
Uses = Callable[[Buffer], int]
"""The number of reads of a buffer by rows; more than any row has if there are other readers."""


@dataclass(frozen=True, slots=True)
class Access:
    """The access of a row to an operand.

    Attributes:
        memory: equal for buffers that may be the same memory, such as the present and the new content of a variable.
    """

    memory: int
    buffer: Buffer
    operand: Operand
    dtype: str
    place: Place

    @property
    def view(self) -> tuple[int, Place]:
        return id(self.buffer), self.place


@dataclass(frozen=True, slots=True)
class Part:
    """A row, in the iteration space of its group; `number` is its position in the program as it was laid out."""

    row: PendingRow
    number: int
    kernel: ElementwiseKernel
    inputs: tuple[Access, ...]
    outputs: tuple[Access, ...]

    def within(self, dims: Dims, finer: Dims) -> Part:
        """The same in a finer space."""

        def moved(each: Access) -> Access:
            offset, strides, width = each.place
            return replace(each, place=(offset, restrided(strides, dims, finer), width))

        inputs, outputs = (tuple(map(moved, accesses)) for accesses in (self.inputs, self.outputs))
        return Part(self.row, self.number, self.kernel, inputs, outputs)


@dataclass(slots=True, eq=False)
class Group:
    """Rows that are, or could be, one kernel.

    Attributes:
        dims: the space of all of them.
        parts: the rows, in order.
        statements: the number of statements in their bodies; `expensive`: the number of calls of elementary functions.
        work: nanoseconds for each element, by static cost.
        saved: nanoseconds saved in each run, compared with one kernel for each row.
        reads: for each memory, the views that are loaded, and how often.
        writes: for each memory, the last access that writes it.
        forwarded: for each buffer, by its identity, how often it is read from a register.
    """

    dims: Dims
    parts: list[Part]
    statements: int
    expensive: int
    work: float
    saved: float = 0.0
    reads: dict[int, dict[tuple[int, Place], int]] = field(default_factory=dict)
    writes: dict[int, Access] = field(default_factory=dict)
    forwarded: dict[int, int] = field(default_factory=dict)

    @property
    def nanoseconds(self) -> float:
        """The estimated duration; lines that are not a whole number of vectors take longer."""
        inner = self.dims[-1]
        lanes = inner // WHOLE * WHOLE + 2 * -(-(inner % WHOLE) // REST) * REST
        return prod(self.dims[:-1]) * (LINE_NS + lanes * self.work)

    def is_needed(self, written: Access, uses: Uses) -> bool:
        """Whether a written value has readers outside of the group, so that it must be stored."""
        return uses(written.buffer) > self.forwarded.get(id(written.buffer), 0)

    def operands(self, uses: Uses) -> int:
        loaded = sum(map(len, self.reads.values()))
        return loaded + sum(self.is_needed(each, uses) for each in self.writes.values())


def group_of(row: PendingRow, number: int, memory: Callable[[PendingOperand], tuple[int, Buffer]]) -> Group:
    """A row by itself.

    Args:
        memory: see `Access`; and the buffer, or another that always holds the same.
    """
    kernel, words = row.launch.kernel, row.launch.words
    assert isinstance(kernel, ElementwiseKernel)
    rank = words[0]
    dims = words[1 : rank + 1]
    accesses = []
    for k, (_, dtype) in enumerate((*kernel.inputs, *kernel.outputs)):
        number_of, buffer = memory(row.operands[k])
        width = 0 if dtype == "bool" else ITEMSIZE[dtype]
        strides = words[1 + rank * (k + 1) : 1 + rank * (k + 2)]
        accesses.append(
            Access(number_of, buffer, row.launch.operands[k], dtype, (row.operands[k][1], strides, width))
        )
    inputs = len(kernel.inputs)
    part = Part(row, number, kernel, tuple(accesses[:inputs]), tuple(accesses[inputs:]))
    work = max(row.launch.cost - ENTRY_NS, 0) / prod(dims)
    return _gather_accesses(
        Group(dims, [part], len(statements_of(kernel.body)), expensive_calls(kernel.body), work)
    )


def _gather_accesses(group: Group) -> Group:
    """Set the reads and writes of a group that has one part."""
    (part,) = group.parts
    for each in part.inputs:
        views = group.reads.setdefault(each.memory, {})
        views[each.view] = views.get(each.view, 0) + 1
    for each in part.outputs:
        group.writes[each.memory] = each
    return group


def join(first: Group, second: Group, uses: Uses) -> Group | None:
    """Both groups as one, if that is allowed and saves time."""
    dims = refined(first.dims, second.dims)
    statements, expensive = first.statements + second.statements, first.expensive + second.expensive
    if dims is None or statements > MOST_STATEMENTS or expensive > MOST_EXPENSIVE:
        return None
    before = first.nanoseconds + second.nanoseconds
    first, second = _within(first, dims), _within(second, dims)
    if not _may_run_together(first, second):
        return None
    group = Group(
        dims,
        first.parts + second.parts,
        statements,
        expensive,
        first.work + second.work,
        first.saved + second.saved,
        {memory: dict(views) for memory, views in first.reads.items()},
        first.writes | second.writes,
        dict(first.forwarded),
    )
    spared = _forward(group, first, second, uses)
    gain = ROW_NS + spared * BYTE_NS * prod(dims) + before - group.nanoseconds
    group.saved += gain
    return group if gain > 0 and group.operands(uses) <= MOST_OPERANDS else None


def _within(group: Group, dims: Dims) -> Group:
    """A group in a finer space."""
    if dims == group.dims:
        return group
    parts = [part.within(group.dims, dims) for part in group.parts]

    def moved(place: Place) -> Place:
        return place[0], restrided(place[1], group.dims, dims), place[2]

    reads = {
        memory: {(buffer, moved(place)): count for (buffer, place), count in views.items()}
        for memory, views in group.reads.items()
    }
    writes = {each.memory: each for part in parts for each in part.outputs}
    return replace(group, dims=dims, parts=parts, reads=reads, writes=writes)


def _may_run_together(first: Group, second: Group) -> bool:
    """Whether each memory that both touch, and one writes, is accessed through the same view."""
    for memory, views in second.reads.items():
        written = first.writes.get(memory)
        if written is not None and any(view != written.view for view in views):
            return False
    for memory, writing in second.writes.items():
        written = first.writes.get(memory)
        if written is not None and written.view != writing.view:
            return False
        if any(place != writing.place for _, place in first.reads.get(memory, ())):
            return False
    return True


def _forward(group: Group, first: Group, second: Group, uses: Uses) -> int:
    """Forward values of the first group to the second in registers; returns the bytes saved for each element."""
    spared = 0
    for buffer, count in second.forwarded.items():
        group.forwarded[buffer] = group.forwarded.get(buffer, 0) + count
    for memory, views in second.reads.items():
        written = first.writes.get(memory)
        loaded = group.reads.setdefault(memory, {})
        for view, count in views.items():
            buffer, (_, _, width) = view
            if written is None:
                spared += width if view in loaded else 0
                loaded[view] = loaded.get(view, 0) + count
            else:
                group.forwarded[buffer] = group.forwarded.get(buffer, 0) + count
                spared += width if group.is_needed(written, uses) else 2 * width
    return spared


def fuse_group(group: Group, uses: Uses, position: int) -> PendingRow:
    """The row that replaces all rows of a group, at this position."""
    body = JoinedBody()
    names: dict[tuple[int, Place], tuple[str, str]] = {}  # by view: the name of its value, and its dtype
    loaded: list[Access] = []
    written: dict[tuple[int, Place], Access] = {}

    def value(each: Access) -> str:
        if each.view not in names:
            loaded.append(each)
            names[each.view] = body.read(each.dtype), each.dtype
        name, dtype = names[each.view]
        return name if dtype == each.dtype else body.reinterpret(name, each.dtype)

    for part in group.parts:
        outputs = body.append(part.kernel, [value(each) for each in part.inputs])
        for each, name in zip(part.outputs, outputs, strict=True):
            names[each.view] = name, each.dtype
            written[each.view] = each
    stored = [each for each in written.values() if group.is_needed(each, uses)] or list(written.values())
    names_in = [name for name, _ in body.inputs]
    sources = [(name, _view(each)) for name, each in zip(names_in, loaded, strict=True)]
    sinks = [(names[each.view][0], _view(each)) for each in stored]
    made = launch(body.text, sources, sinks, group.dims)
    assert made is not None
    operands = tuple((each.buffer, each.place[0]) for each in (*loaded, *stored))
    parts = tuple((part.row.position, part.row.launch.cost) for part in group.parts)
    return PendingRow(made, operands, position, parts=parts)


def _view(each: Access) -> View:
    return View(each.operand, each.dtype, each.place[1])
