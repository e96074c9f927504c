"""Called epilogues: the kernel that computes a convolution or product calls what follows it, for each part of the result.

That is any elementwise row of floating-point numbers with one output, single or fused (see `fusion.elementwise`, which comes
before): a residual is added and rectified, or an activation such as swish or GELU applied, while the result is in the cache.
Beside the result the row may read scalars, vectors along its rows, and values of its size. It runs at the place of the
launches, earlier than it did. So no row in between may write what it reads, or touch its output; and the result has no other
use.

The elementwise kernel is the same, so the bits are too. If two convolutions are added, the later one takes over the addition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.epilogue import ALONG_ROWS, CALLS, MOST_OTHERS, SCALAR, WHOLE
from aioexec.graph.kernels.kernel import ElementwiseKernel, Launch, Operand
from aioexec.planning.fusion.absorption import REST, Absorption, broadcasts_of, has_epilogues, parts_with
from aioexec.planning.fusion.lifetimes import kept
from aioexec.planning.layout.pending import PendingOperand, PendingRow, touched

if TYPE_CHECKING:
    from aioexec.planning.layout.layout import Layout


@dataclass(frozen=True, slots=True)
class _Row:
    """An elementwise row that may be called.

    Attributes:
        kinds: for each input how it broadcasts, as in `Epilogue`.
        width: the elements of a row of the output, if an input is a vector along rows.
    """

    row: PendingRow
    dtype: str
    nbytes: int
    kinds: tuple[int, ...]
    width: int | None

    @property
    def target(self) -> PendingOperand:
        return self.row.operands[-1]


def callable_rows(layout: Layout) -> Callable[[PendingRow], bool]:
    """Whether the kernel that computes an operand of an elementwise row is likely to call the row, if the row is not fused."""
    makers: set[int] = set()  # the id()s of buffers whose makers support calls
    readers: Counter[int] = Counter()  # of each buffer, without its makers
    for row in layout.pending:
        if not isinstance(row, PendingRow):
            readers.update(2 * [id(buffer) for buffer in touched(row)])
            continue
        epilogue = row.launch.epilogue
        made = None if epilogue is None else row.operands[epilogue.output][0]
        if epilogue is not None and epilogue.others is not None:
            makers.add(id(made))
        readers.update({id(buffer) for buffer, _ in row.reads if buffer is not made})
    readers.update(2 * [id(buffer) for buffer in kept(layout)])

    def is_callable(row: PendingRow) -> bool:
        called = _callable(row) if makers else None
        if called is None:
            return False
        target = called.target[0]
        if target.slot is not None or target.carried or target.nbytes != called.nbytes:
            return False
        wholes = (row.operands[place][0] for place, kind in enumerate(called.kinds) if kind == WHOLE)
        return any(id(buffer) in makers and readers[id(buffer)] == 1 for buffer in wholes)

    return is_callable


def call_epilogues(layout: Layout) -> None:
    """Let kernels call the elementwise rows that follow them, in a finished layout, in place."""
    if not has_epilogues(layout):
        return
    absorption = Absorption(layout)

    def absorb(number: int, row: PendingRow) -> None:
        called = _callable(row)
        if called is None or not absorption.is_free(called.target, called.nbytes, number):
            return
        found = [
            (absorption.makers.get(id(row.operands[place][0]), []), place)
            for place, kind in enumerate(called.kinds)
            if kind == WHOLE
        ]
        for makers, place in sorted(found, reverse=True):
            if makers and _fits(absorption, number, called, place, makers):
                taken = [absorption.row(maker) for maker in makers]
                total = sum(maker.launch.cost for maker in taken)
                changed = [_with_call(each, called, place, total) for each in taken]
                old, new = row.operands[place][0], called.target[0]
                absorption.let_makers_absorb(number, makers, changed, old, new)
                return

    absorption.visit(absorb)


def _callable(row: PendingRow) -> _Row | None:
    broadcasts = broadcasts_of(row)
    if broadcasts is None or broadcasts.dtype not in ("float32", "float64"):
        return None
    scalar = (0,) * len(broadcasts.dims)
    known = {scalar: SCALAR, broadcasts.along: ALONG_ROWS, broadcasts.whole: WHOLE}
    kinds = tuple(known.get(each, -1) for each in broadcasts.inputs)
    if -1 in kinds or len(kinds) > MOST_OTHERS + 1:
        return None
    width = broadcasts.dims[-1] if ALONG_ROWS in kinds else None
    return _Row(row, broadcasts.dtype, broadcasts.nbytes, kinds, width)


def _fits(absorption: Absorption, number: int, called: _Row, place: int, makers: list[int]) -> bool:
    """Whether the rows that computed the operand at `place` may call a row."""
    operands = called.row.operands
    value = operands[place]
    if operands.count(value) != 1 or not absorption.is_between(value, called.nbytes, [*makers, number]):
        return False
    for launch, kernel, epilogue in absorption.ends_of(makers):
        if epilogue.others is None or launch.words[epilogue.word] >= CALLS:
            return False
        if kernel.pointers[epilogue.output] != called.dtype or called.width not in (None, epilogue.width):
            return False
    others = (buffer for buffer, _ in called.row.reads if buffer is not value[0])
    return not any(absorption.is_written(buffer, makers[0], number) for buffer in others)


def _with_call(maker: PendingRow, called: _Row, place: int, total: int) -> PendingRow:
    """A row that calls another one with its result as the operand at `place`."""
    launch, epilogue = maker.launch, maker.launch.epilogue
    assert epilogue is not None
    assert epilogue.others is not None
    kernel = called.row.launch.kernel
    assert isinstance(kernel, ElementwiseKernel)
    output = launch.operands[epilogue.output].offset, epilogue.output
    bias = launch.operands[epilogue.bias].offset, epilogue.bias
    operands, declared = list(maker.operands), list(launch.operands)
    strides = None if launch.units is None else list(launch.units.strides)
    operands[epilogue.output] = called.target[0], operands[epilogue.output][1]
    word = CALLS | len(called.kinds) << 4 | place << 8
    others = [k for k in range(len(called.kinds)) if k != place]
    for k, source in enumerate(others):
        kind, at = called.kinds[source], epilogue.others + k
        offset, like = output if kind == WHOLE else bias if kind == ALONG_ROWS else (0, None)
        buffer, begin = called.row.operands[source]
        operands[at], declared[at] = (buffer, begin + offset), Operand("input", 0)
        if strides is not None:
            strides[at] = 0 if like is None else strides[like]
        word |= kind << 12 + 2 * k
    words = list(launch.words[:-1])
    words[epilogue.word] |= word
    cost = called.row.launch.cost * launch.cost // (total * REST) + 1
    changed: Launch = replace(
        launch,
        operands=tuple(declared),
        words=tuple(words),
        cost=launch.cost + cost,
        units=None
        if launch.units is None or strides is None
        else replace(launch.units, strides=tuple(strides)),
        calls=kernel,
    )
    parts = parts_with(maker, called.row, cost)
    return replace(maker, launch=changed, operands=tuple(operands), parts=parts)
