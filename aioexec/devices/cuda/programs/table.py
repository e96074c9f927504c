"""The launches with which a GPU computes a node: by a binder of our own, or from the rows of the op's native form."""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.devices.cuda.programs import (
    attention,
    convolving,
    einsum,
    gathering,
    masking,
    normalizing,
    pooling,
    products,
    reducing,
    row_updating,
    scanning,
)
from aioexec.devices.cuda.programs.binding import bind, copy_row
from aioexec.devices.cuda.programs.program import Binder, Program
from aioexec.devices.cuda.rows import device_row
from aioexec.graph.kernels.kernel import Alias, Attrs, Operand, Spec
from aioexec.graph.registry import Row

BINDERS: dict[str, Binder] = {
    **reducing.BINDERS,
    **normalizing.BINDERS,
    **products.BINDERS,
    **convolving.BINDERS,
    **gathering.BINDERS,
    **pooling.BINDERS,
    **attention.BINDERS,
    **masking.BINDERS,
    **scanning.BINDERS,
    **einsum.BINDERS,
    **row_updating.BINDERS,
}
"""Of the ops whose native form is a loop."""


def program_of(row: Row, attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program | None:
    """The launches for these shapes; None if GPUs have none for them.

    Raises:
        UnimplementedError: the native form is a loop.
    """
    if row.name in BINDERS:
        return BINDERS[row.name](attrs, inputs, outputs)
    found = bind(row, attrs, inputs, outputs)
    if found is None:
        return None
    program = Program()
    if isinstance(found, Alias):
        pairs = zip(found.inputs, found.offsets, outputs, strict=True)
        copies = [
            copy_row(Operand("input", k, offset), Operand("output", j), spec.nbytes)
            for j, (k, offset, spec) in enumerate(pairs)
            if spec.nbytes
        ]
        program.rows.extend(map(device_row, copies))
    else:
        program.rows.extend(map(device_row, found.rows))
        program.scratch.extend(found.scratch)
    return program
