"""Programs of products of matrices, and the contraction that convolutions share with them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.cublaslt import library
from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.matrix_product import Flip, Matrix, MatrixProduct, ProductRow
from aioexec.devices.cuda.programs.program import HALVES, Binder, Program, wide
from aioexec.devices.cuda.programs.reducing import SUM, zero
from aioexec.devices.cuda.ptx import contractions
from aioexec.devices.cuda.ptx.contractions import Layout, Tile, Types
from aioexec.devices.cuda.ptx.reductions import Reduction
from aioexec.devices.cuda.rows import SHORT, DeviceRow
from aioexec.devices.jit.llvm.ir import ITEM_SIZES
from aioexec.errors import UnimplementedError
from aioexec.graph.kernels.kernel import Attrs, Operand, Spec
from aioexec.graph.kernels.launches import View, c_strides, collapse

Axis = tuple[int, ...]
"""The size of a dimension, and its stride in bytes in each operand that has it, in the order a, b, c."""

TILE = Tile()
MOST_BATCHES = 65_535
LARGEST_ALIGNMENT = 256
"""Bytes to which buffers are aligned."""
MOST_CALLS = 16
"""Products of the library that a contraction may be divided into."""
FEW_TILES = 128
"""Tiles below which a GPU is not filled: then the terms are divided among several tiles."""
MANY_TERMS = 512
_SHORT_INTEGERS = frozenset({"int8", "int16", "uint8", "uint16"})


@dataclass(frozen=True, slots=True)
class Contraction:
    """c[batch, m, n] = sum over k of a[batch, m, k] b[batch, k, n]; see `ptx.contractions`.

    Attributes:
        a, b, c: where they begin, and their dtypes.
        batch: dimensions with strides in a, b and c; `m` in a and c; `n` in b and c; `k` in a and b.
    """

    a: tuple[Operand, str]
    b: tuple[Operand, str]
    c: tuple[Operand, str]
    batch: tuple[Axis, ...]
    m: tuple[Axis, ...]
    n: tuple[Axis, ...]
    k: tuple[Axis, ...]


def sum_dtype(dtype: str) -> str:
    """The dtype in which sums of products are computed."""
    return "int32" if dtype in _SHORT_INTEGERS else wide(dtype)


def size_of(axes: Sequence[Axis]) -> int:
    return prod(axis[0] for axis in axes)


def contract(program: Program, given: Contraction) -> None:
    """Add a contraction, by the library where that is open.

    Else the terms of a small product with many of them are divided, and the sums added up.
    """
    outputs = size_of(given.batch) * size_of(given.m) * size_of(given.n)
    if not outputs:
        return
    if library() is not None and (rows := library_products(given)):
        program.rows.extend(rows)
        return
    tiles = size_of(given.batch) * -(-size_of(given.m) // TILE.m) * -(-size_of(given.n) // TILE.n)
    parts = 1
    if tiles < FEW_TILES and size_of(given.k) >= MANY_TERMS:
        parts, k = divided(given.k, -(-FEW_TILES // tiles))
    if parts == 1:
        program.rows.append(launch(given))
        return
    kind, size = sum_dtype(given.c[1]), ITEM_SIZES[sum_dtype(given.c[1])]
    shape = tuple(axis[0] for axis in (*given.batch, *given.m, *given.n))
    steps = c_strides(shape, size)
    partial = program.space(kind, (parts, *shape))
    first, second = len(given.batch), len(given.batch) + len(given.m)
    program.rows.append(
        launch(
            Contraction(
                given.a,
                given.b,
                (partial.operand, kind),
                (
                    (parts, *k[0][1:], outputs * size),
                    *((*axis[:3], step) for axis, step in zip(given.batch, steps[:first], strict=True)),
                ),
                tuple((*axis[:2], step) for axis, step in zip(given.m, steps[first:second], strict=True)),
                tuple((*axis[:2], step) for axis, step in zip(given.n, steps[second:], strict=True)),
                k[1:],
            )
        )
    )
    add = Reduction(
        "z = x", SUM, f"y = cast(c, {given.c[1]!r})", (("x", kind),), kind, given.c[1], zero(kind)
    )
    strides = tuple(axis[-1] for axis in (*given.batch, *given.m, *given.n))
    program.reduce(add, [partial], View(*given.c, strides), (parts, *shape), {0})


def divided(axes: tuple[Axis, ...], wanted: int) -> tuple[int, tuple[Axis, ...]]:
    """The terms in parts, about as many as wanted: their number, and the dimensions, those parts first."""
    count, *steps = axes[0]
    if len(axes) > 1 and count > 1:
        return count, axes
    parts = next((each for each in range(min(wanted, count // 64), 1, -1) if count % each == 0), 1)
    inner = count // parts
    return parts, ((parts, *(inner * step for step in steps)), (inner, *steps), *axes[1:])


def simplified(given: Contraction) -> Contraction:
    """The same with the dimensions of batch, m, n and k merged where that is possible; at least one of each."""
    axes = (merged(each) for each in (given.batch, given.m, given.n, given.k))
    return Contraction(given.a, given.b, given.c, *axes)


def library_products(given: Contraction) -> list[ProductRow]:
    """The products of a contraction for the library, one for each element of all dimensions of the batch but the longest.

    Empty if it is no product of matrices with strides that the library takes, for instance because windows overlap.
    """
    given = simplified(given)
    sides = (given.m, given.n, given.k)
    if any(len(axes) > 1 or not size_of(axes) for axes in sides) or not has_type(given):
        return []
    (m,), (n,), (k,) = sides
    along = max(given.batch, key=lambda axis: axis[0])
    others = [axis for axis in given.batch if axis is not along]
    if size_of(others) > MOST_CALLS:
        return []
    rows = []
    for place in np.ndindex(*(axis[0] for axis in others)):
        a, b, c = (
            (shifted(operand, sum(i * axis[1 + x] for i, axis in zip(place, others, strict=True))), dtype)
            for x, (operand, dtype) in enumerate((given.a, given.b, given.c))
        )
        part = Contraction(a, b, c, (along,), (m,), (n,), (k,))
        row = library_product(part)
        if row is None:
            return []
        rows.append(row)
    return rows


def shifted(operand: Operand, start: int) -> Operand:
    return replace(operand, offset=operand.offset + start)


def has_type(given: Contraction) -> bool:
    """Whether the library has products of these dtypes."""
    a, b, c = given.a[1], given.b[1], given.c[1]
    return a == b and (c == a or (c == "float32" and a in HALVES)) and c in ("float64", "float32", *HALVES)


def library_product(given: Contraction) -> ProductRow | None:
    """The product of a contraction of one dimension each of batch, m, n and k; None if strides do not allow it.

    The matrix whose rows are contiguous in the result is the first of the product.
    """
    (batch,), (m,), (n,), (k,) = given.batch, given.m, given.n, given.k
    for is_swapped in (True, False):
        a, b = (given.b, given.a) if is_swapped else (given.a, given.b)
        row, column = (n, m) if is_swapped else (m, n)
        k_of_a, k_of_b = (k[2], k[1]) if is_swapped else (k[1], k[2])
        batch_a, batch_b = (batch[2], batch[1]) if is_swapped else (batch[1], batch[2])
        first = oriented(a, (row[0], row[1]), (k[0], k_of_a), batch_a)
        second = oriented(b, (k[0], k_of_b), (column[0], column[1]), batch_b)
        result = oriented(given.c, (row[0], row[2]), (column[0], column[2]), batch[3])
        if first and second and result and result[1] == "N":
            kernel = launch(given)
            product = _product(*first, *second, result[0], batch[0], kernel.module)
            return ProductRow(product, kernel, is_swapped)
    return None


_product = functools.cache(MatrixProduct)


def oriented(
    place: tuple[Operand, str], rows: tuple[int, int], columns: tuple[int, int], batch_step: int
) -> tuple[Matrix, Flip] | None:
    """A matrix of sizes and strides in bytes as it is in memory, and whether that is its transpose; None if it is neither."""
    operand, dtype = place
    size = ITEM_SIZES[dtype]
    alignment = math.gcd(operand.offset, LARGEST_ALIGNMENT)
    flips: tuple[tuple[Flip, tuple[int, int], tuple[int, int]], ...] = (
        ("N", rows, columns),
        ("T", columns, rows),
    )
    for flip, (count, stride), (lines, step) in flips:
        step = step if lines > 1 else count * size
        if (stride == size or count == 1) and step >= count * size and not (step | batch_step) % size:
            return Matrix(dtype, count, lines, step // size, batch_step // size, alignment), flip
    return None


def launch(given: Contraction) -> DeviceRow:
    """The launch of a contraction as it is."""
    types = Types(given.a[1], given.b[1], given.c[1], sum_dtype(given.c[1]))
    given = simplified(given)
    batch, m, n, k = given.batch, given.m, given.n, given.k
    if max(size_of(axes) for axes in (batch, m, n, k)) >= SHORT:
        raise UnimplementedError("a product is too large for GPUs")
    layout = Layout(
        len(batch),
        len(m),
        len(n),
        len(k),
        a_along_k=k[-1][1] == ITEM_SIZES[types.a] or m[-1][1] != ITEM_SIZES[types.a],
        b_along_k=k[-1][2] == ITEM_SIZES[types.b] and n[-1][1] != ITEM_SIZES[types.b],
    )
    tiles = -(-size_of(m) // TILE.m) * -(-size_of(n) // TILE.n)
    words = (
        *map(size_of, (batch, m, n, k)),
        *(axis[0] for axes in (batch, m, n, k) for axis in axes),
        *(axis[1] for axes in (batch, m, k) for axis in axes),
        *(axis[2] for axis in batch),
        *(axis[2] for axis in k),
        *(axis[1] for axis in n),
        *(axis[3] for axis in batch),
        *(axis[2] for axes in (m, n) for axis in axes),
    )
    return DeviceRow(
        contraction_module(types, layout, TILE),
        (tiles, min(size_of(batch), MOST_BATCHES), 1),
        TILE.threads,
        0,
        (given.a[0], given.b[0], given.c[0]),
        (False, False, True),
        tuple(map(np.int64, words)),
    )


def merged(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """The same with adjacent dimensions merged where that is possible in all operands; at least one dimension."""
    if not axes:
        return ((1, 0, 0, 0),)
    dims, strides = collapse(
        tuple(axis[0] for axis in axes),
        [tuple(each) for each in zip(*(axis[1:] for axis in axes), strict=True)],
    )
    return tuple((dim, *steps) for dim, *steps in zip(dims, *strides, strict=True))


@functools.cache
def contraction_module(types: Types, layout: Layout, tile: Tile) -> GeneratedModule:
    return GeneratedModule(
        f"product of {types.a}", contractions.ENTRY, functools.partial(contractions.emit, types, layout, tile)
    )


# Matrices


def matmul(flip_x: str, flip_y: str) -> Binder:
    """The product of the matrices in the last two dimensions of the inputs, the others broadcast; attributes say which are
    transposed."""

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Program:
        x, y, out = inputs[0], inputs[1], outputs[0]
        if out.dtype.kind == "c":
            return complex_matmul((attrs[flip_x], attrs[flip_y]), flip_x.startswith("adj"), (x, y, out))
        lead = out.shape[:-2]
        a, b = (strides_of(spec, lead, attrs[name]) for spec, name in ((x, flip_x), (y, flip_y)))
        c = c_strides(out.shape, out.dtype.itemsize)
        terms = x.shape[-2] if attrs[flip_x] else x.shape[-1]
        program = Program()
        contract(
            program,
            Contraction(
                (Operand("input", 0), x.dtype.name),
                (Operand("input", 1), y.dtype.name),
                (Operand("output", 0), out.dtype.name),
                tuple(zip(lead, a, b, c, strict=False)),
                ((out.shape[-2], a[-2], c[-2]),),
                ((out.shape[-1], b[-1], c[-1]),),
                ((terms, a[-1], b[-2]),),
            ),
        )
        return program

    return bind


def strides_of(spec: Spec, lead: tuple[int, ...], is_flipped: bool) -> tuple[int, ...]:
    """The strides of a matrix, of the dimensions it is broadcast to, and of its rows and columns when it is transposed."""
    strides = broadcast_steps(c_strides(spec.shape, spec.dtype.itemsize), spec.shape[:-2], lead)
    return (*strides[:-2], strides[-1], strides[-2]) if is_flipped else strides


def complex_matmul(flips: tuple[bool, bool], are_adjoint: bool, specs: tuple[Spec, Spec, Spec]) -> Program:
    """A product of complex matrices as one of real matrices with twice the terms and columns.

    A complex number is two real ones in memory, so [m, k] complex elements are [m, 2 k] real ones, and those of the product are
    [m, 2 n]. Of the second factor each element becomes a matrix of 2 x 2: [re, im], [-im, re].
    """
    x, y, out = specs
    program, size = Program(), out.dtype.itemsize // 2
    dtype = f"float{8 * size}"
    lead, terms = out.shape[:-2], x.shape[-2 if flips[0] else -1]
    (m, n), batches = out.shape[-2:], [spec.shape[:-2] for spec in (x, y)]
    conjugated = [flip and are_adjoint for flip in flips]
    left = Operand("input", 0)
    if flips[0]:
        shape = (*batches[0], m, terms, 2)
        strides = (*strides_of(x, batches[0], is_flipped=True), size)
        target = program.space(dtype, shape)
        program.elementwise("y = x", [("x", View(left, dtype, strides))], [("y", target)], shape)
        left = target.operand
    steps = strides_of(y, batches[1], flips[1])
    table = program.space(dtype, (*batches[1], terms, 2, n, 2))
    shape = (*batches[1], terms, n)
    kept = (*table.strides[:-3], table.strides[-2])
    parts = [View(Operand("input", 1, at * size), dtype, steps) for at in range(2)]
    places = [
        View(Operand(table.operand.kind, table.operand.index, at), dtype, kept)
        for at in (0, size, table.strides[-3], table.strides[-3] + size)
    ]
    imaginary = "-im" if conjugated[1] else "im"
    second = "r = i; s = -re" if conjugated[0] else "r = -i; s = re"
    program.elementwise(
        f"i = {imaginary}; p = re; q = i; {second}",
        [("re", parts[0]), ("im", parts[1])],
        list(zip("pqrs", places, strict=True)),
        shape,
    )
    a = broadcast_steps(c_strides((*batches[0], m, terms, 2), size), batches[0], lead)
    b = broadcast_steps(table.strides, batches[1], lead)
    c = c_strides((*lead, m, n, 2), size)
    contract(
        program,
        Contraction(
            (left, dtype),
            (table.operand, dtype),
            (Operand("output", 0), dtype),
            tuple(zip(lead, a, b, c, strict=False)),
            ((m, a[-3], c[-3]),),
            ((n, b[-2], c[-2]), (2, size, size)),
            ((terms, a[-2], b[-4]), (2, size, b[-3])),
        ),
    )
    return program


def broadcast_steps(strides: tuple[int, ...], own: tuple[int, ...], lead: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an operand whose dimensions `own` come first and are broadcast to `lead`."""
    kept = tuple(0 if dim == 1 else step for dim, step in zip(own, strides, strict=False))
    return ((0,) * (len(lead) - len(own)) + kept) + strides[len(own) :]


BINDERS: dict[str, Binder] = {
    "MatMul": matmul("transpose_a", "transpose_b"),
    **{f"BatchMatMul{version}": matmul("adj_x", "adj_y") for version in ("", "V2", "V3")},
}
