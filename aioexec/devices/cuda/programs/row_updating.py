"""Programs of the sparse updates of optimizers: the formula of the dense update, for the rows that are listed."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod

import numpy as np

from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.programs.binding import bind
from aioexec.devices.cuda.programs.program import Binder, Program
from aioexec.devices.cuda.ptx import row_updates
from aioexec.devices.cuda.ptx.row_updates import LISTED, SCALAR, TABLE, RowUpdate
from aioexec.devices.cuda.ptx.threads import THREADS, blocks_for
from aioexec.devices.cuda.rows import DeviceRow
from aioexec.graph import registry
from aioexec.graph.kernels.kernel import Attrs, ElementwiseKernel, Launches, Operand, Spec

RULES = """
    Adadelta Adagrad AdagradDA AdagradV2 CenteredRMSProp Ftrl FtrlV2 KerasMomentum Momentum ProximalGradientDescent RMSProp
"""


def sparse(op_type: str) -> Binder:
    """The update of rows of this op, by the formula of its dense counterpart, whose inputs lack the indices."""

    def bind_rows(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
        row = registry.lookup(op_type)
        at = [arg.name for arg in row.definition.inputs].index("indices")
        indices, grad, table = inputs[at], inputs[at - 1], inputs[0]
        dense = registry.lookup(op_type.replace("SparseApply", "Apply"))
        fits = len(indices.shape) == 1 and grad.shape == indices.shape + table.shape[1:]
        if not table.shape or not fits or grad.dtype != table.dtype:
            return None
        if any(inputs[k].shape != table.shape for k in row.writes):
            return None
        specs = [
            Spec(each.dtype, (1,)) if k in (*row.writes, at - 1) else each
            for k, each in enumerate(inputs)
            if k != at
        ]
        found = bind(dense, attrs, specs, [])
        if not isinstance(found, Launches):
            return None
        formula = found.rows[-1]  # those before check the scalars
        assert isinstance(formula.kernel, ElementwiseKernel)
        program = Program()
        if not grad.size:
            return program
        operands = [moved(each, at) for each in formula.operands]
        kinds = "".join(
            TABLE if each.index in row.writes else LISTED if each.index == at - 1 else SCALAR
            for each in operands[: len(formula.kernel.inputs)]
        )
        add_update(program, formula.kernel, kinds, [*operands, Operand("input", at)], (indices, table))
        return program

    return bind_rows


def moved(operand: Operand, at: int) -> Operand:
    """The operand of the dense op as one of the op with indices at this place."""
    after = operand.kind != "state" and operand.index >= at
    return Operand(operand.kind, operand.index + after, operand.offset)


def add_update(
    program: Program,
    kernel: ElementwiseKernel,
    kinds: str,
    operands: Sequence[Operand],
    given: tuple[Spec, Spec],
) -> None:
    """Add the launches that link equal rows, and update them.

    Args:
        operands: of the formula, and the indices.
        given: the indices and the table.
    """
    indices, table = given
    count, columns = indices.size, prod(table.shape[1:])
    links = [program.space("int32", (count,)).operand for _ in range(2)]
    linked = (operands[-1], *links)
    is_written = (False,) * len(kernel.inputs) + (True,) * len(kernel.outputs)
    update = RowUpdate(kernel.body, kernel.inputs, kernel.outputs, kinds, indices.dtype.name)
    link = link_module(indices.dtype.name)
    for module, units, places, written, words in (
        (link, count, linked, (False, True, True), (count,)),
        (
            update_module(update),
            count * columns,
            (*operands, *links),
            (*is_written, False, False, False),
            (count, columns, table.shape[0]),
        ),
    ):
        grid = (blocks_for(units), 1, 1)
        program.rows.append(DeviceRow(module, grid, THREADS, 0, places, written, tuple(map(np.int64, words))))


@functools.cache
def link_module(index_dtype: str) -> GeneratedModule:
    return GeneratedModule("equal rows", row_updates.LINK, functools.partial(row_updates.link, index_dtype))


@functools.cache
def update_module(given: RowUpdate) -> GeneratedModule:
    return GeneratedModule(given.body, row_updates.UPDATE, functools.partial(row_updates.emit, given))


BINDERS: dict[str, Binder] = {
    f"{kind}SparseApply{rule}": sparse(f"{kind}SparseApply{rule}")
    for rule in RULES.split()
    for kind in (("Resource",) if rule == "KerasMomentum" else ("", "Resource"))
}
