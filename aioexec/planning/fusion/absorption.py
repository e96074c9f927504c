"""Absorption: rows of a finished layout become parts of the rows that compute one of their operands.

What all forms of it share: how the operands of an elementwise row broadcast, which rows touch a buffer and which with an
epilogue wrote it, when a value or a vector may be read elsewhere, and how the absorbed rows are removed. The planner's thread
only; an `Absorption` is one pass over one layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.epilogue import Epilogue
from aioexec.graph.kernels.kernel import ElementwiseKernel, Launch, LoopKernel
from aioexec.graph.kernels.launches import ITEMSIZE, c_strides
from aioexec.planning.fusion.lifetimes import kept, without_unused
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.pending import Pending, PendingOperand, PendingRow, labels, touched

if TYPE_CHECKING:
    from aioexec.planning.layout.layout import Layout

REST = 4
"""Divisor for the cost of a row that becomes part of another: its operand is in the first-level cache."""


@dataclass(frozen=True, slots=True)
class Broadcasts:
    """How the operands of an elementwise row broadcast; they have one dtype, and the row writes a whole array in C order.

    Attributes:
        dims: of the array.
        inputs: the strides of each input, in bytes.
        whole: the strides of the array.
        along: the strides of a vector along its rows.
    """

    dtype: str
    dims: tuple[int, ...]
    inputs: list[tuple[int, ...]]
    whole: tuple[int, ...]
    along: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return self.whole[0] * self.dims[0]


def broadcasts_of(row: PendingRow) -> Broadcasts | None:
    """Return how the operands of a row broadcast; None if it is no such row."""
    kernel = row.launch.kernel
    if not isinstance(kernel, ElementwiseKernel) or len(kernel.outputs) != 1:
        return None
    dtypes = {dtype for _, dtype in (*kernel.inputs, *kernel.outputs)}
    if len(dtypes) != 1 or row.launch.operands[-1].kind != "output":
        return None
    (dtype,) = dtypes
    rank, size = row.launch.words[0], ITEMSIZE[dtype]
    dims, *inputs, output = (row.launch.words[1 + rank * k :][:rank] for k in range(len(row.operands) + 1))
    whole, along = c_strides(dims, size), (*[0] * (rank - 1), size)
    return Broadcasts(dtype, dims, inputs, whole, along) if output == whole else None


def has_epilogues(layout: Layout) -> bool:
    """Whether a row supports an epilogue."""
    return any(isinstance(row, PendingRow) and row.launch.epilogue is not None for row in layout.pending)


class Absorption:
    """One pass over a layout.

    Buffers are identified by id(). Constant: `kept`, those with readers other than rows; `same`, maps a buffer to an older one
    that may be the same memory. Changing: `rows`, None for one that was absorbed; `into`, the row that absorbed such a row;
    `touching`, the numbers of the rows that touch a buffer; `makers`, the rows with an epilogue that wrote a buffer, in the
    present stretch.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows: list[Pending | None] = list(layout.pending)
        self.into: dict[int, int] = {}
        self.kept = {id(buffer) for buffer in kept(layout)}
        self.same = {
            id(use.new): id(use.old)
            for use in layout.versions.uses()
            if use.old is not None and use.new is not None
        }
        self.touching: dict[int, list[int]] = {}
        for number, row in enumerate(layout.pending):
            for buffer in {id(buffer): buffer for buffer in touched(row)}.values():
                self.touching.setdefault(id(buffer), []).append(number)
        self.makers: dict[int, list[int]] = {}

    def visit(self, absorb: Callable[[int, PendingRow], None]) -> None:
        """Call `absorb` for each row without an epilogue, in order; then remove the rows that were absorbed."""
        pending = self.layout.pending
        entered = {label.row for label in labels(pending)}
        for number, row in enumerate(pending):
            if number in entered or (number and row.position < pending[number - 1].position):
                self.makers.clear()
            if not isinstance(row, PendingRow) or row.after is not None:
                self.makers.clear()
            elif row.launch.epilogue is not None:
                buffer, _ = row.operands[row.launch.epilogue.output]
                self.makers.setdefault(id(buffer), []).append(number)
            else:
                absorb(number, row)
        if self.into:
            self._finish()

    def row(self, number: int) -> PendingRow:
        row = self.rows[number]
        assert isinstance(row, PendingRow)
        return row

    def ends_of(self, makers: Sequence[int]) -> Iterator[tuple[Launch, LoopKernel, Epilogue]]:
        """Yield the launch of each of these rows, with its kernel and epilogue."""
        for maker in makers:
            launch = self.row(maker).launch
            assert isinstance(launch.kernel, LoopKernel)
            assert launch.epilogue is not None
            yield launch, launch.kernel, launch.epilogue

    def let_makers_absorb(
        self, number: int, makers: Sequence[int], changed: Sequence[PendingRow], old: Buffer, new: Buffer
    ) -> None:
        """Replace the rows that wrote `old` by changed ones that write `new`, as row `number` did."""
        before, absorbed = [self.row(maker) for maker in makers], self.row(number)
        for maker, each in zip(makers, changed, strict=True):
            self.rows[maker] = each
        self.rows[number] = None
        self.into[number] = makers[-1]
        for buffer in {id(buffer): buffer for each in changed for buffer in touched(each)}.values():
            self.touching[id(buffer)] = sorted({*makers, *self.touching[id(buffer)]} - {number})
        self.makers[id(new)] = self.makers.pop(id(old))
        new.born = min(new.born, *(maker.position for maker in before))
        for buffer, _ in absorbed.reads:
            if buffer is not old:
                self._end_earlier(buffer, absorbed.position)
        for buffer in self.layout.buffers:
            buffer.heirs = [heir for heir in buffer.heirs if heir is not new]

    def _end_earlier(self, buffer: Buffer, position: int) -> None:
        """End the live range of a buffer that a row at this position was the last to need: its makers read it earlier."""
        if buffer.slot is None and not buffer.carried and buffer.past < buffer.dies == position:
            pending = self.layout.pending
            buffer.dies = max(pending[number].position for number in self.touching[id(buffer)])

    def is_free(self, target: PendingOperand, nbytes: int, number: int) -> bool:
        """Whether an output of row `number` may be written earlier: an arena buffer of `nbytes` bytes that it touches first."""
        buffer, start = target
        if buffer.slot is not None or buffer.carried or start or buffer.nbytes != nbytes:
            return False
        return min(self.touching[id(buffer)]) == number

    def is_between(self, value: PendingOperand, nbytes: int, rows: list[int]) -> bool:
        """Whether a value fills an arena buffer of `nbytes` bytes that only these rows use."""
        buffer, begin = value
        if buffer.slot is not None or buffer.carried or id(buffer) in self.kept or begin:
            return False
        return buffer.nbytes == nbytes and self.touching[id(buffer)] == rows

    def is_written(self, buffer: Buffer, first: int, last: int) -> bool:
        """Whether one of the rows from `first` to before `last` may write a buffer."""
        memory = self.memory(buffer)
        for number in range(first, last):
            row = self.rows[number]
            if isinstance(row, PendingRow) and any(self.memory(each) == memory for each, _ in row.writes):
                return True
        return False

    def memory(self, buffer: Buffer) -> int:
        return self.same.get(id(buffer), id(buffer))

    def _finish(self) -> None:
        """Remove the rows that were absorbed."""
        layout, before = self.layout, self.layout.pending
        after: list[Pending] = []
        places: dict[int, int] = {}
        for number, row in enumerate(self.rows):
            places[number] = len(after)
            if row is not None:
                after.append(row)
        places[len(before)] = len(after)
        for label in labels(before):
            label.row = places[label.row]
        layout.versions.renumber(places | {gone: places[maker] for gone, maker in self.into.items()})
        layout.cost += _cost(after) - _cost(before)
        layout.pending = after
        layout.buffers = without_unused(layout.buffers, before, after)


def _cost(rows: list[Pending]) -> int:
    return sum(row.launch.cost for row in rows if isinstance(row, PendingRow))


def parts_with(maker: PendingRow, row: PendingRow, cost: int) -> tuple[tuple[int, int], ...]:
    """The parts of a row that absorbs another, to which it adds this cost."""
    own = maker.parts or ((maker.position, maker.launch.cost),)
    absorbed = row.parts or ((row.position, cost),)
    total = sum(each for _, each in absorbed)
    return (*own, *((position, each * cost // total) for position, each in absorbed))
