"""The result of a product goes where the row after it would put it, if nothing else uses it.

A row that adds it to a value in place becomes part of the product, which then adds to its output instead of replacing it
(`Epilogue.adds`): so do the gradients of weights, which the iterations of a loop sum. A row that copies some of its columns
becomes the output of a product of these columns alone (`Epilogue.pitch`): so does the gradient in one part of a concatenation,
if the other parts need none.

The product runs earlier than the row did. So no row in between may touch the output. A product with more terms than its kernel
sums at once adds each partial sum to the output, so the last bits of a sum may differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.epilogue import Epilogue
from aioexec.graph.kernels.kernel import ElementwiseKernel, Launch
from aioexec.graph.kernels.launches import ITEMSIZE, c_strides
from aioexec.planning.fusion.absorption import Absorption, broadcasts_of, has_epilogues, parts_with
from aioexec.planning.fusion.bodies import statements_of
from aioexec.planning.layout.pending import PendingOperand, PendingRow

if TYPE_CHECKING:
    from aioexec.planning.layout.layout import Layout


@dataclass(frozen=True, slots=True)
class _Columns:
    """A row that copies columns of a matrix of `rows` rows: `count` of them from column `begin` on.

    Attributes:
        value: the matrix, which has `width` columns.
    """

    value: PendingOperand
    target: PendingOperand
    dtype: str
    rows: int
    width: int
    begin: int
    count: int

    def nbytes(self, columns: int) -> int:
        return self.rows * columns * ITEMSIZE[self.dtype]


def place_results(layout: Layout) -> None:
    """Place the results of products, in a finished layout, in place."""
    if has_epilogues(layout):
        _Placing(layout).apply()


class _Placing:
    """One pass over a layout."""

    def __init__(self, layout: Layout) -> None:
        self.absorption = Absorption(layout)

    def apply(self) -> None:
        self.absorption.visit(self._absorb)

    def _absorb(self, number: int, row: PendingRow) -> None:
        if not self._absorb_sum(number, row):
            self._absorb_columns(number, row)

    def _absorb_sum(self, number: int, row: PendingRow) -> bool:
        """Let a product add to a value, as a row does in place."""
        absorption = self.absorption
        for value in _added_in_place(row):
            makers = absorption.makers.get(id(value[0]), [])
            target = row.operands[-1]
            if not makers or not absorption.is_between(value, value[0].nbytes, [*makers, number]):
                continue
            if not all(_may_add(launch, epilogue) for launch, _, epilogue in absorption.ends_of(makers)):
                continue
            if self._is_touched(target, makers[0], number):
                continue
            changed = [_adding(absorption.row(maker), row, target) for maker in makers]
            absorption.let_makers_absorb(number, makers, changed, value[0], target[0])
            return True
        return False

    def _absorb_columns(self, number: int, row: PendingRow) -> None:
        """Let a product compute only the columns that a row copies."""
        absorption, columns = self.absorption, _columns_of(row)
        makers = [] if columns is None else absorption.makers.get(id(columns.value[0]), [])
        if columns is None or len(makers) != 1:
            return
        whole, part = columns.nbytes(columns.width), columns.nbytes(columns.count)
        (maker,) = map(absorption.row, makers)
        if not absorption.is_between((columns.value[0], 0), whole, [*makers, number]):
            return
        target = columns.target
        is_free = absorption.is_free(target, part, number) or (
            target[0].carried and not self._is_touched(target, makers[0], number)
        )
        if is_free and _has_columns(maker.launch, columns):
            changed = _with_columns(maker, row, columns)
            absorption.let_makers_absorb(number, makers, [changed], columns.value[0], columns.target[0])

    def _is_touched(self, target: PendingOperand, first: int, last: int) -> bool:
        """Whether one of the rows from `first` to before `last` touches a buffer."""
        return any(first <= each < last for each in self.absorption.touching[id(target[0])])


def _added_in_place(row: PendingRow) -> list[PendingOperand]:
    """The values that a row may add to its other operand, which its output replaces."""
    broadcasts = broadcasts_of(row)
    if broadcasts is None or broadcasts.inputs != [broadcasts.whole] * 2 or not _computes(row, "{} + {}"):
        return []
    first, second, target = row.operands
    return [value for value, other in ((first, second), (second, first)) if other == target != value]


def _columns_of(row: PendingRow) -> _Columns | None:
    """The columns that a row copies."""
    kernel = row.launch.kernel
    if not isinstance(kernel, ElementwiseKernel) or not _computes(row, "{}"):
        return None
    rank, *words = row.launch.words
    if rank != 2 or kernel.inputs[0][1] != kernel.outputs[0][1]:
        return None
    dims, source, output = words[:2], words[2:4], words[4:6]
    dtype = kernel.outputs[0][1]
    size = ITEMSIZE[dtype]
    rows, count = dims
    if tuple(output) != c_strides(tuple(dims), size) or source[1] != size or source[0] % size:
        return None
    value, target = row.operands
    return _Columns(value, target, dtype, rows, source[0] // size, value[1] // size, count)


def _computes(row: PendingRow, form: str) -> bool:
    """Whether a row is one statement of this form, with the inputs for the braces, in order."""
    kernel = row.launch.kernel
    if not isinstance(kernel, ElementwiseKernel):
        return False
    statements = statements_of(kernel.body)
    fields = [f"{{{name}}}" for name, _ in kernel.inputs]
    return (
        len(statements) == 1
        and form.count("{}") == len(fields)
        and statements[0].value == form.format(*fields)
    )


def _may_add(launch: Launch, epilogue: Epilogue) -> bool:
    return epilogue.adds is not None and not launch.words[epilogue.adds] and not launch.words[epilogue.word]


def _adding(maker: PendingRow, row: PendingRow, target: PendingOperand) -> PendingRow:
    """A row with a product, or a part of one, that adds to the target as `row` does."""
    launch, epilogue = maker.launch, maker.launch.epilogue
    assert epilogue is not None
    assert epilogue.adds is not None
    words, operands = list(launch.words), list(maker.operands)
    words[epilogue.adds] = 1
    operands[epilogue.output] = target[0], target[1] + operands[epilogue.output][1]
    changed = replace(launch, words=tuple(words), handover=None)
    return replace(maker, launch=changed, operands=tuple(operands), parts=parts_with(maker, row, 1))


def _has_columns(launch: Launch, columns: _Columns) -> bool:
    """Whether a launch can compute some columns of its output alone: its units are columns."""
    epilogue, units = launch.epilogue, launch.units
    if epilogue is None or epilogue.pitch is None or units is None or launch.words[epilogue.word]:
        return False
    is_whole = launch.words[units.word] == launch.words[epilogue.pitch] == columns.width
    return is_whole and units.strides[epilogue.output] == ITEMSIZE[columns.dtype]


def _with_columns(maker: PendingRow, row: PendingRow, columns: _Columns) -> PendingRow:
    """A row with a product that computes some columns, into the target of another row."""
    launch = maker.launch
    epilogue, units = launch.epilogue, launch.units
    assert epilogue is not None
    assert epilogue.pitch is not None
    assert units is not None
    words = list(units.words_of(launch.words, columns.begin, columns.count))
    words[epilogue.pitch] = columns.count
    operands = [
        (buffer, offset + columns.begin * stride)
        for (buffer, offset), stride in zip(maker.operands, units.strides, strict=True)
    ]
    operands[epilogue.output] = columns.target
    changed = replace(
        launch,
        words=tuple(words),
        cost=launch.cost * columns.count // columns.width,
        epilogue=replace(epilogue, width=columns.count),
        handover=None,
    )
    return replace(maker, launch=changed, operands=tuple(operands), parts=parts_with(maker, row, 1))
