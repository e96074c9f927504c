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
from aioexec.graph.kernels.epilogue import ADDS_BIAS, CLIPS, RECTIFIES
from aioexec.graph.kernels.kernel import ElementwiseKernel, Launch
from aioexec.graph.kernels.launches import ITEMSIZE
from aioexec.planning.fusion.absorption import REST, Absorption, broadcasts_of, has_epilogues, parts_with
from aioexec.planning.fusion.bodies import statements_of
from aioexec.planning.layout.pending import PendingOperand, PendingRow

if TYPE_CHECKING:
    from aioexec.planning.layout.layout import Layout

_Each = TypeVar("_Each")


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
    if has_epilogues(layout):
        _Epilogues(layout).apply()


class _Epilogues:
    """One pass over a layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.absorption = Absorption(layout)

    def apply(self) -> None:
        self.absorption.visit(self._absorb)

    def _absorb(self, number: int, row: PendingRow) -> None:
        if not self._absorb_epilogue(number, row):
            self._absorb_product(number, row)

    def _absorb_epilogue(self, number: int, row: PendingRow) -> bool:
        """Make a row an epilogue of the rows that compute its operand, if that is possible."""
        end = _end_of(row)
        makers = [] if end is None else self.absorption.makers.get(id(end.value[0]), [])
        if end is None or not makers or not self._fits(number, end, makers):
            return False
        taken = [self.absorption.row(maker) for maker in makers]
        total = sum(maker.launch.cost for maker in taken)
        changed = [_with_end(each, end, row, total) for each in taken]
        self.absorption.let_makers_absorb(number, makers, changed, end.value[0], end.target[0])
        return True

    def _absorb_product(self, number: int, row: PendingRow) -> None:
        """Make an elementwise row absorb a product that is its operand, if that is possible."""
        user = _user_of(row)
        for place, (product, _) in enumerate(row.reads if user is not None else ()):
            makers = self.absorption.makers.get(id(product), [])
            if (
                user is None
                or len(makers) != 1
                or not self._can_absorb_product(number, user, place, makers[0])
            ):
                continue
            (maker,) = makers
            made = self.absorption.row(maker)
            self.absorption.rows[number] = _with_product(row, user, place, made)
            self.absorption.rows[maker] = None
            self.absorption.into[maker] = number
            for buffer, _ in made.operands[:FACTORS]:
                buffer.dies = max(buffer.dies, row.position)
                touching = self.absorption.touching
                touching[id(buffer)] = sorted({*touching[id(buffer)], number} - {maker})
            return

    def _can_absorb_product(self, number: int, user: _User, place: int, maker: int) -> bool:
        """Whether row `number` may absorb row `maker`, whose result is its operand at `place`."""
        absorption = self.absorption
        row, made = absorption.row(number), absorption.row(maker)
        product, launch = row.operands[place], made.launch
        handover = launch.handover
        if handover is None or (launch.epilogue is not None and launch.words[launch.epilogue.word]):
            return False
        if handover.kernel in self.layout.refused or handover.kernel.pointers[0] != user.dtype:
            return False
        if len(row.operands) > handover.most or row.operands.count(product) != 1:
            return False
        if not user.moving >> place & 1 or not absorption.is_between(product, user.nbytes, [maker, number]):
            return False
        factors = [buffer for buffer, _ in made.operands[:FACTORS]]
        scalars = [buffer for k, (buffer, _) in enumerate(row.operands) if not user.moving >> k & 1]
        taken = {absorption.memory(buffer) for buffer in (*factors, *scalars)}
        if any(target.slot is None or absorption.memory(target) in taken for target, _ in row.writes):
            return False
        return not any(absorption.is_written(factor, maker, number) for factor in factors)

    def _fits(self, number: int, end: _End, makers: list[int]) -> bool:
        """Whether row `number` may become an epilogue of the rows that compute its operand."""
        absorption = self.absorption
        if not absorption.is_between(end.value, end.nbytes, [*makers, number]):
            return False
        if not absorption.is_free(end.target, end.nbytes, number):
            return False
        for launch, kernel, epilogue in absorption.ends_of(makers):
            if launch.words[epilogue.word] >= end.flag or kernel.pointers[epilogue.output] != end.dtype:
                return False
            if end.bias is not None and epilogue.width != end.width:
                return False
            if end.flag & CLIPS and not epilogue.clips:
                return False
        return end.bias is None or not absorption.is_written(end.bias[0], makers[0], number)


def _end_of(row: PendingRow) -> _End | None:
    kernel, broadcasts = row.launch.kernel, broadcasts_of(row)
    if broadcasts is None or not isinstance(kernel, ElementwiseKernel):
        return None
    statements = statements_of(kernel.body)
    if len(statements) != 1:
        return None
    text, kinds, whole, along = statements[0].value, broadcasts.inputs, broadcasts.whole, broadcasts.along
    fields = [f"{{{name}}}" for name, _ in kernel.inputs]
    *sources, target = row.operands
    end = partial(
        _End, dtype=broadcasts.dtype, target=target, width=broadcasts.dims[-1], nbytes=broadcasts.nbytes
    )
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
    changed = replace(launch, words=tuple(words), cost=launch.cost + cost)
    return replace(maker, launch=changed, operands=tuple(operands), parts=parts_with(maker, row, cost))
