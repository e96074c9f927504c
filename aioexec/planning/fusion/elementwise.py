"""Fusion: elementwise rows of a layout are fused to one row with one kernel; see `fusion.groups` for the conditions.

Rows are visited in order. Each is joined with the groups of the rows whose results it reads, if it can move to the place of
such a group, or the group to the place of the row: no row in between may write a buffer that the moved one touches, or touch
one that it writes. Jumps and breaks are never crossed; nor does a row that writes a variable cross one that may fail.

A group is fused only if it saves more than its own kernel costs; otherwise its rows are left as they are. Two groups that
kernels of convolutions or products may call (see `fusion.called_epilogues`) stay apart, as in a sum of many convolutions: one
row can be called by one of them only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import ElementwiseKernel
from aioexec.planning.fusion.bodies import is_plain
from aioexec.planning.fusion.called_epilogues import callable_rows
from aioexec.planning.fusion.groups import Group, fuse_group, group_of, join
from aioexec.planning.fusion.lifetimes import Move, kept, update_live_ranges, without_unused
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.pending import Pending, PendingOperand, PendingRow, labels, touched

if TYPE_CHECKING:
    from aioexec.planning.layout.layout import Layout

LEAST_SAVED_NS = 200
"""The least time that a fused kernel must save in each run: compiling it takes 10⁵ times as long."""
_MANY = 1 << 30


@dataclass(slots=True, eq=False)
class _Item:
    """Rows that run consecutively at the place of row `place`; `numbers` are their numbers in the layout.

    Attributes:
        group: the same rows as a fusion group, if they can be one kernel.
        reads, writes: the memories they read and write.
        may_be_called: whether the kernel that computes an operand may call it.
        writes_variable, may_fail: two items with these properties must not be reordered.
    """

    place: int
    numbers: list[int]
    group: Group | None
    reads: set[int]
    writes: set[int]
    writes_variable: bool
    may_fail: bool
    may_be_called: bool = False

    @property
    def is_in_place(self) -> bool:
        """Whether its rows are consecutive in the layout."""
        return self.numbers == list(range(self.numbers[0], self.numbers[0] + len(self.numbers)))


@dataclass(slots=True)
class _Stretch:
    """Consecutive items without jumps and breaks, by place; for each memory the sorted places of its readers and writers."""

    items: dict[int, _Item] = field(default_factory=dict)
    readers: dict[int, list[int]] = field(default_factory=dict)
    writers: dict[int, list[int]] = field(default_factory=dict)
    failing: list[int] = field(default_factory=list)

    def add(self, item: _Item) -> None:
        self.items[item.place] = item
        for memory in item.reads:
            insort(self.readers.setdefault(memory, []), item.place)
        for memory in item.writes:
            insort(self.writers.setdefault(memory, []), item.place)
        if item.may_fail:
            self.failing.append(item.place)

    def remove(self, item: _Item) -> None:
        del self.items[item.place]
        for touched_by, memories in ((self.readers, item.reads), (self.writers, item.writes)):
            for memory in memories:
                places = touched_by[memory]
                del places[bisect_left(places, item.place)]

    def producer(self, memories: set[int], place: int) -> _Item | None:
        """The last item before a place that writes one of some memories."""
        latest = -1
        for memory in memories:
            places = self.writers.get(memory, [])
            before = bisect_left(places, place)
            if before:
                latest = max(latest, places[before - 1])
        return self.items[latest] if latest >= 0 else None

    def common_place(self, first: _Item, second: _Item) -> int | None:
        """The place at which two items can run consecutively; None if there is none."""
        if self._may_cross(second, first.place, second.place):
            return first.place
        return second.place if self._may_cross(first, first.place, second.place) else None

    def _may_cross(self, item: _Item, low: int, high: int) -> bool:
        """Whether an item may move across the rows between two places."""
        return not (
            any(_is_between(self.readers.get(memory, []), low, high) for memory in item.writes)
            or any(_is_between(self.writers.get(memory, []), low, high) for memory in item.writes)
            or any(_is_between(self.writers.get(memory, []), low, high) for memory in item.reads)
            or (item.writes_variable and _is_between(self.failing, low, high))
        )


def _is_between(places: list[int], low: int, high: int) -> bool:
    """Whether one of the sorted places lies between two others."""
    after = bisect_right(places, low)
    return after < len(places) and places[after] < high


def fuse(layout: Layout) -> None:
    """Fuse rows of a finished layout, in place."""
    _Fusion(layout).apply()


class _Fusion:
    """One pass over a layout.

    Constant: `memories`, by the identity of a buffer the number of the memory it is in and a buffer that always holds the same;
    `counts`, how often each buffer is read.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows: list[Pending] = list(layout.pending)
        self.memories: dict[int, tuple[int, Buffer]] = {}
        for use in layout.versions.uses():
            if use.old is not None and use.new is not None:
                self.memories[id(use.new)] = id(use.old), use.new
        self._merge_constants()
        self.counts = self._counts()
        self.may_be_called = callable_rows(layout)

    def _merge_constants(self) -> None:
        """One buffer for all scalars of the same content."""
        scalars: dict[tuple[str, bytes], Buffer] = {}
        for buffer, content in self.layout.constants:
            if content.size == 1:
                same = scalars.setdefault((content.dtype.str, content.tobytes()), buffer)
                self.memories[id(buffer)] = id(same), same

    def _counts(self) -> Counter[int]:
        counts: Counter[int] = Counter()
        for row in self.rows:
            if isinstance(row, PendingRow):
                counts.update(id(buffer) for buffer, _ in row.reads)
        for buffer in self._read_by_others():
            counts[id(buffer)] = _MANY
        return counts

    def _read_by_others(self) -> Iterator[Buffer]:
        """Buffers with readers other than rows with kernels."""
        for row in self.rows:
            if not isinstance(row, PendingRow):
                yield from touched(row)
        yield from kept(self.layout)
        yield from (buffer for buffer in self.layout.buffers if buffer.carried)

    def uses(self, buffer: Buffer) -> int:
        return _MANY if buffer.slot is not None else self.counts[id(buffer)]

    def memory(self, operand: PendingOperand) -> tuple[int, Buffer]:
        return self.memories.get(id(operand[0]), (id(operand[0]), operand[0]))

    # Finding groups

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Begin and end of each straight-line stretch of rows."""
        targets = {label.row for label in labels(self.rows)}
        start = 0
        for number, row in enumerate(self.rows):
            back = number > start and row.position < self.rows[number - 1].position
            if number > start and (number in targets or back):
                yield start, number
                start = number
            if not isinstance(row, PendingRow) or row.after is not None:
                yield start, number + 1
                start = number + 1
        if start < len(self.rows):
            yield start, len(self.rows)

    def items(self, start: int, stop: int) -> list[_Item]:
        """The items of a stretch, in order of execution."""
        stretch = _Stretch()
        for number in range(start, stop):
            item = self._item(number)
            stretch.add(item)
            if item.group is not None:
                self._join(stretch, item)
        return [stretch.items[place] for place in sorted(stretch.items)]

    def _join(self, stretch: _Stretch, item: _Item) -> None:
        """Join an item with the producers of its operands, the latest first.

        A producer that cannot be joined blocks earlier ones that wrote the same memory, so these are not tried.
        """
        memories = set(item.reads)
        while (producer := stretch.producer(memories, item.place)) is not None:
            both = self._join_pair(stretch, producer, item)
            if both is None:
                memories -= producer.writes
            else:
                item = both

    def _join_pair(self, stretch: _Stretch, first: _Item, second: _Item) -> _Item | None:
        if first.group is None or second.group is None or (first.may_be_called and second.may_be_called):
            return None
        place = stretch.common_place(first, second)
        group = None if place is None else join(first.group, second.group, self.uses)
        if place is None or group is None:
            return None
        stretch.remove(first)
        stretch.remove(second)
        both = _Item(
            place,
            first.numbers + second.numbers,
            group,
            first.reads | second.reads,
            first.writes | second.writes,
            first.writes_variable or second.writes_variable,
            False,
            first.may_be_called or second.may_be_called,
        )
        stretch.add(both)
        return both

    def _item(self, number: int) -> _Item:
        row = self.rows[number]
        if not isinstance(row, PendingRow):
            return _Item(number, [number], None, set(), set(), False, True)
        reads = {self.memory(operand)[0] for operand in row.reads}
        writes = {self.memory(operand)[0] for operand in row.writes}
        may_fail = self._may_fail(row)
        group = None if may_fail or not _is_elementwise(row) else group_of(row, number, self.memory)
        variable = any(operand.kind == "state" for operand in row.launch.operands)
        called = group is not None and self.may_be_called(row)
        return _Item(number, [number], group, reads, writes, variable, may_fail, called)

    def _may_fail(self, row: PendingRow) -> bool:
        kernel, known = row.launch.kernel, self.layout.instructions[row.position].node.row
        if isinstance(kernel, ElementwiseKernel) and not any("int" in dtype for _, dtype in kernel.inputs):
            return False  # of elementwise kernels only integer division can fail
        return bool((known.native is not None and known.native.statuses) or known.lists is not None)

    # Replacing rows

    def apply(self) -> None:
        """Fuse the groups that save enough; if there are none, the layout is unchanged."""
        stretches = [(start, self.items(start, stop)) for start, stop in self.stretches()]
        made = {id(item): row for _, items in stretches for item in items if (row := self._fuse(item))}
        if not made:
            return
        starts, numbers = {len(self.rows): 0}, {len(self.rows): 0}
        order: list[Pending] = []
        moves: list[Move] = []
        for start, items in stretches:
            starts[start] = len(order)
            for item in items:
                row, position = made.get(id(item)), self.rows[item.place].position
                if row is not None:
                    moves.append(Move(row, position))
                    numbers |= dict.fromkeys(item.numbers, len(order))
                    order.append(row)
                    continue
                for number in item.numbers:
                    each = self.rows[number]
                    if each.position != position and not item.is_in_place:
                        assert isinstance(each, PendingRow)
                        moves.append(Move(each, position))
                    numbers[number] = len(order)
                    order.append(each)
        starts[len(self.rows)] = numbers[len(self.rows)] = len(order)
        for label in labels(self.rows):
            label.row = starts[label.row]
        layout = self.layout
        layout.versions.renumber(numbers)
        layout.pending = order
        for row in made.values():
            layout.cost += row.launch.cost - sum(cost for _, cost in row.parts)
        update_live_ranges(layout.buffers, order, moves)
        layout.buffers = without_unused(layout.buffers, self.rows, order)

    def _fuse(self, item: _Item) -> PendingRow | None:
        if item.group is None or len(item.numbers) == 1 or item.group.saved < LEAST_SAVED_NS:
            return None
        row = fuse_group(item.group, self.uses, self.rows[item.place].position)
        return None if row.launch.kernel in self.layout.refused else row


def _is_elementwise(row: PendingRow) -> bool:
    """Whether a row is elementwise, and accesses memory in order."""
    kernel = row.launch.kernel
    if not isinstance(kernel, ElementwiseKernel) or row.after is not None:
        return False
    outputs = kernel.pattern[len(kernel.inputs) :]
    return "x" not in kernel.pattern and "s" not in outputs and is_plain(kernel.body)
