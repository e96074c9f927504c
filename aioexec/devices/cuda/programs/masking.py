"""Programs of ops that select elements by their position: bands of matrices, and sequences in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aioexec.devices.cuda.programs.gathering import Access, access
from aioexec.devices.cuda.programs.program import OUTPUT, Binder, Program, full
from aioexec.devices.cuda.ptx.indexed import GATHER
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View, c_strides


def bind_band(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program:
    """The elements of matrices near the main diagonal, 0 elsewhere; a negative number of diagonals means all."""
    x, program = inputs[0], Program()
    shape, dtype, index = (prod(x.shape[:-2]), *x.shape[-2:]), x.dtype.name, inputs[1].dtype.name
    program.elementwise(
        "d = at1 - at2; l = cast(lower, 'int64'); u = cast(upper, 'int64');"
        " y = where(((l < 0) | (d <= l)) & ((u < 0) | (-d <= u)), x, like(x, 0))",
        [
            ("x", full(Operand("input", 0), dtype, shape)),
            ("lower", View(Operand("input", 1), index, (0, 0, 0))),
            ("upper", View(Operand("input", 2), index, (0, 0, 0))),
        ],
        [("y", full(OUTPUT, dtype, shape))],
        shape,
    )
    return program


def bind_reverse_sequence(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program:
    """Each sequence with its first elements in reverse order: first the position of the source of each place."""
    x, lengths = inputs
    along, across = attrs["seq_dim"], attrs["batch_dim"]
    dtype, program = x.dtype.name, Program()
    count, sequences = x.shape[along], x.shape[across]
    places = program.space("int64", (sequences, count))
    program.elementwise(
        "n = cast(length, 'int64'); y = where(at1 < n, n - 1 - at1, at1)",
        [("length", View(Operand("input", 1), lengths.dtype.name, (lengths.dtype.itemsize, 0)))],
        [("y", places)],
        (sequences, count),
    )
    strides = c_strides(x.shape, x.dtype.itemsize)
    chosen = {across: places.strides[0], along: places.strides[1]}
    axes = range(len(x.shape))
    access(
        program,
        GATHER,
        Access(
            x.shape,
            full(OUTPUT, dtype, x.shape),
            View(places.operand, "int64", tuple(chosen.get(axis, 0) for axis in axes)),
            View(Operand("input", 0), dtype, tuple(0 if axis == along else strides[axis] for axis in axes)),
            ((count, strides[along]),),
        ),
    )
    return program


BINDERS: dict[str, Binder] = {
    "MatrixBandPart": bind_band,
    "ReverseSequence": bind_reverse_sequence,
}
