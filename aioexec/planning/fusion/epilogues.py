"""Epilogue fusion: a bias addition and a rectifier are applied by the kernel that computes their operand.

Launches that support it declare it (`Launch.epilogue`). An elementwise row that adds a vector to each row of their result, or
rectifies it, becomes an epilogue of these launches, if the result has no other use. The epilogue runs at the place of the
launches, earlier than the row did. So no row in between may write the vector, or touch the output.

The elementwise update of an optimizer absorbs the matrix product that is its gradient (`Launch.handover`), if the product has
no other use: then it is never stored. The product runs at the place of its user, later than it did. So no row in between may
write its factors, nor may the user.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import ADDS_BIAS, CLIPS, RECTIFIES, ElementwiseKernel, Launch, LoopKernel
from aioexec.graph.kernels.launches import ITEMSIZE, c_strides
from aioexec.planning.fusion.bodies import statements_of
from aioexec.planning.fusion.lifetimes import kept, without_unused
from aioexec.planning.layout.buffers import Buffer
from aioexec.planning.layout.pending import Pending, PendingOperand, PendingRow, labels, touched

if TYPE_CHECKING:
    from aioexec.planning.layout.layout import Layout

_Each = TypeVar("_Each")

REST = 4
"""Divisor for the cost of a row that becomes an epilogue: its operand is in the first-level cache."""


@dataclass(frozen=True, slots=True)
class _End:
    """An elementwise row that can be an epilogue: `flag` is its kind, `value` its operand, `bias` the vector added, if any."""

    flag: int
    value: PendingOperand
    bias: PendingOperand | None = None
    _: KW_ONLY
    target: PendingOperand
    dtype: str
    width: int
    nbytes: int


FACTORS = 2
"""The number of operands of the product that the kernel of its `Handover` also has."""


@dataclass(frozen=True, slots=True)
class _User:
    """An elementwise row that may absorb a product: its operands are scalars, or contiguous and of the product's size.

    Attributes:
        moving: the bit set of operands that are not scalars.
        nbytes: the size of each of those.
    """

    dtype: str
    moving: int
    nbytes: int


def fuse_epilogues(layout: Layout) -> None:
    """Fuse rows into epilogues in a finished layout, in place."""
    _Epilogues(layout).apply()


class _Epilogues:
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

    def apply(self) -> None:
        pending = self.layout.pending
        if not any(isinstance(row, PendingRow) and row.launch.epilogue is not None for row in pending):
            return
        entered = {label.row for label in labels(pending)}
        for number, row in enumerate(pending):
            if number in entered or (number and row.position < pending[number - 1].position):
                self.makers.clear()
            if not isinstance(row, PendingRow) or row.after is not None:
                self.makers.clear()
            elif row.launch.epilogue is not None:
                buffer, _ = row.operands[row.launch.epilogue.output]
                self.makers.setdefault(id(buffer), []).append(number)
            elif not self._absorb_epilogue(number, row):
                self._absorb_product(number, row)
        if self.into:
            self._finish()

    def _absorb_epilogue(self, number: int, row: PendingRow) -> bool:
        """Make a row an epilogue of the rows that compute its operand, if that is possible."""
        end = _end_of(row)
        makers = [] if end is None else self.makers.get(id(end.value[0]), [])
        if end is None or not makers or not self._fits(number, end, makers):
            return False
        taken = [self._row(maker) for maker in makers]
        total = sum(maker.launch.cost for maker in taken)
        (old, _), (new, _) = end.value, end.target
        for maker, each in zip(makers, taken, strict=True):
            self.rows[maker] = _with_end(each, end, row, total)
        self.rows[number] = None
        self.into[number] = makers[-1]
        self.touching[id(new)] = sorted({*makers, *self.touching[id(new)]} - {number})
        self.makers[id(new)] = self.makers.pop(id(old))
        new.born = min(new.born, *(maker.position for maker in taken))
        for buffer in self.layout.buffers:
            buffer.heirs = [heir for heir in buffer.heirs if heir is not new]
        return True

    def _absorb_product(self, number: int, row: PendingRow) -> None:
        """Make an elementwise row absorb a product that is its operand, if that is possible."""
        user = _user_of(row)
        for place, (product, _) in enumerate(row.reads if user is not None else ()):
            makers = self.makers.get(id(product), [])
            if (
                user is None
                or len(makers) != 1
                or not self._can_absorb_product(number, user, place, makers[0])
            ):
                continue
            (maker,) = makers
            made = self._row(maker)
            self.rows[number] = _with_product(row, user, place, made)
            self.rows[maker] = None
            self.into[maker] = number
            for buffer, _ in made.operands[:FACTORS]:
                buffer.dies = max(buffer.dies, row.position)
                self.touching[id(buffer)] = sorted({*self.touching[id(buffer)], number} - {maker})
            return

    def _can_absorb_product(self, number: int, user: _User, place: int, maker: int) -> bool:
        """Whether row `number` may absorb row `maker`, whose result is its operand at `place`."""
        row, made = self._row(number), self._row(maker)
        product, launch = row.operands[place], made.launch
        handover = launch.handover
        if handover is None or (launch.epilogue is not None and launch.words[launch.epilogue.word]):
            return False
        if handover.kernel in self.layout.refused or handover.kernel.pointers[0] != user.dtype:
            return False
        if len(row.operands) > handover.most or row.operands.count(product) != 1:
            return False
        if not user.moving >> place & 1 or not self._is_between(product, user.nbytes, [maker, number]):
            return False
        factors = [buffer for buffer, _ in made.operands[:FACTORS]]
        scalars = [buffer for k, (buffer, _) in enumerate(row.operands) if not user.moving >> k & 1]
        taken = {self._memory(buffer) for buffer in (*factors, *scalars)}
        if any(target.slot is None or self._memory(target) in taken for target, _ in row.writes):
            return False
        return not any(self._is_written(factor, maker, number) for factor in factors)

    def _row(self, number: int) -> PendingRow:
        row = self.rows[number]
        assert isinstance(row, PendingRow)
        return row

    def _fits(self, number: int, end: _End, makers: list[int]) -> bool:
        """Whether row `number` may become an epilogue of the rows that compute its operand."""
        target, start = end.target
        if not self._is_between(end.value, end.nbytes, [*makers, number]):
            return False
        if target.slot is not None or target.carried or start or target.nbytes != end.nbytes:
            return False
        if min(self.touching[id(target)]) != number:
            return False
        for maker in makers:
            launch = self._row(maker).launch
            epilogue, kernel = launch.epilogue, launch.kernel
            assert epilogue is not None
            assert isinstance(kernel, LoopKernel)
            if launch.words[epilogue.word] >= end.flag or kernel.pointers[epilogue.output] != end.dtype:
                return False
            if end.bias is not None and epilogue.width != end.width:
                return False
            if end.flag & CLIPS and not epilogue.clips:
                return False
        return end.bias is None or not self._is_written(end.bias[0], makers[0], number)

    def _is_between(self, value: PendingOperand, nbytes: int, rows: list[int]) -> bool:
        """Whether a value fills an arena buffer of `nbytes` bytes that only these rows use."""
        buffer, begin = value
        if buffer.slot is not None or buffer.carried or id(buffer) in self.kept or begin:
            return False
        return buffer.nbytes == nbytes and self.touching[id(buffer)] == rows

    def _is_written(self, buffer: Buffer, first: int, last: int) -> bool:
        """Whether one of the rows from `first` to before `last` may write a buffer."""
        memory = self._memory(buffer)
        for number in range(first, last):
            row = self.rows[number]
            if isinstance(row, PendingRow) and any(self._memory(each) == memory for each, _ in row.writes):
                return True
        return False

    def _memory(self, buffer: Buffer) -> int:
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


def _end_of(row: PendingRow) -> _End | None:
    kernel = row.launch.kernel
    if not isinstance(kernel, ElementwiseKernel) or row.launch.operands[-1].kind != "output":
        return None
    dtypes = {dtype for _, dtype in (*kernel.inputs, *kernel.outputs)}
    statements = statements_of(kernel.body)
    if len(dtypes) != 1 or len(statements) != 1:
        return None
    (dtype,), text = dtypes, statements[0].value
    rank, size = row.launch.words[0], ITEMSIZE[dtype]
    dims, *strides = (row.launch.words[1 + rank * k :][:rank] for k in range(len(row.operands) + 1))
    whole, along = c_strides(dims, size), (*[0] * (rank - 1), size)
    kinds = strides[:-1]
    fields = [f"{{{name}}}" for name, _ in kernel.inputs]
    *sources, target = row.operands
    end = partial(_End, dtype=dtype, target=target, width=dims[-1], nbytes=whole[0] * dims[0])
    if strides[-1] != whole:
        return None
    if len(fields) == 1 and text == f"maximum({fields[0]}, 0)" and kinds == [whole]:
        return end(RECTIFIES, sources[0])
    if len(fields) == 1 and text == f"minimum(maximum({fields[0]}, 0), 6)" and kinds == [whole]:
        return end(RECTIFIES | CLIPS, sources[0])
    if len(fields) == 2 and text == f"{fields[0]} + {fields[1]}":
        if kinds == [whole, along]:
            return end(ADDS_BIAS, sources[0], sources[1])
        if kinds == [along, whole]:
            return end(ADDS_BIAS, sources[1], sources[0])
    return None


def _user_of(row: PendingRow) -> _User | None:
    kernel = row.launch.kernel
    if not isinstance(kernel, ElementwiseKernel):
        return None
    dtypes = {dtype for _, dtype in (*kernel.inputs, *kernel.outputs)}
    rank, count, *strides = row.launch.words
    if rank != 1 or len(dtypes) != 1:
        return None
    (dtype,) = dtypes
    size = ITEMSIZE[dtype]
    if set(strides) - {0, size}:
        return None
    moving = sum(1 << k for k, stride in enumerate(strides) if stride)
    return _User(dtype, moving, count * size)


def _with_product(row: PendingRow, user: _User, place: int, made: PendingRow) -> PendingRow:
    """An elementwise row that computes its operand at `place` itself."""
    handover = made.launch.handover
    assert handover is not None
    assert isinstance(row.launch.kernel, ElementwiseKernel)
    moving = user.moving & ~(1 << place)
    *strides, line = handover.units.strides
    strides += [line * (moving >> k & 1) for k in range(handover.most)]
    count = len(row.operands)
    launch = Launch(
        handover.kernel,
        _with_factors(row.launch.operands, made.launch.operands, place, handover.most),
        (*handover.words, count, place, moving),
        cost=made.launch.cost + row.launch.cost // REST,
        units=replace(handover.units, strides=tuple(strides)),
        calls=row.launch.kernel,
    )
    operands = _with_factors(row.operands, made.operands, place, handover.most)
    parts = ((made.position, made.launch.cost), (row.position, row.launch.cost // REST))
    return PendingRow(launch, operands, row.position, None, parts)


def _with_factors(
    operands: tuple[_Each, ...], of_product: tuple[_Each, ...], place: int, most: int
) -> tuple[_Each, ...]:
    """The operands of a product and its user; a factor fills places that are not read."""
    factor = of_product[0]
    fill = [factor] * (most - len(operands))
    return (*of_product[:FACTORS], *operands[:place], factor, *operands[place + 1 :], *fill)


def _with_end(maker: PendingRow, end: _End, row: PendingRow, total: int) -> PendingRow:
    """A row with a part of another row as its epilogue."""
    launch = maker.launch
    epilogue = launch.epilogue
    assert epilogue is not None
    operands = list(maker.operands)
    operands[epilogue.output] = end.target[0], operands[epilogue.output][1]
    if end.bias is not None:
        buffer, offset = end.bias
        operands[epilogue.bias] = buffer, offset + launch.operands[epilogue.bias].offset
    words = list(launch.words)
    words[epilogue.word] |= end.flag
    cost = row.launch.cost * launch.cost // (total * REST) + 1
    parts = (*(maker.parts or ((maker.position, launch.cost),)), (row.position, cost))
    changed = replace(launch, words=tuple(words), cost=launch.cost + cost)
    return replace(maker, launch=changed, operands=tuple(operands), parts=parts)
