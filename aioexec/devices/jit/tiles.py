"""Matrix products in registers: the one inner loop of loop kernels that is not left to the compiler to vectorise.

A tile of the result, some rows of a few vectors, is added up in registers: each step takes a row of vectors of the right
matrix and one number of each row of the left one. The left matrix may be anything that strides describe, so that windows of
an image need not be copied into a matrix first. The right matrix is taken as it lies; a panel of it, as wide as a tile,
should stay in the second-level cache.

Like `loops.py`, which loads it, this file is for the compiler child and imports nothing of aioexec.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WORD = ir.IntType(64)
INDEX = ir.IntType(32)
STRIDED_GROUP = 3
"""Rows whose addresses are made from one register: at 0, 1 and 2 strides from it, which is what an address can express."""


@dataclass(frozen=True)
class Registers:
    """What the processor has: bytes of a vector, and the heights of tiles of two vectors that fit, largest first."""

    vector_bytes: int
    heights: tuple[int, ...]


@functools.cache
def registers() -> Registers:
    """Of the processor we compile for, by its feature string."""
    features = os.environ.get("NUMBA_CPU_FEATURES", "")
    if "+avx512f" in features:
        return Registers(64, (14, 8, 7, 4, 2, 1))  # 32 registers: 28 sums, two vectors of b, one number of a
    if "+avx2" in features:
        return Registers(32, (6, 4, 2, 1))  # 16 registers
    return Registers(16, (6, 4, 2, 1))


@dataclass(frozen=True)
class Shape:
    """A tile: its rows, and its vectors a row; the vectors of a `partial` tile may be cut short."""

    rows: int
    vectors: int
    partial: bool


class Tile:
    """Writes the code of one tile; see `tile_of` for the arguments."""

    def __init__(self, builder: Any, shape: Shape, element: Any, width: Any) -> None:
        self.builder = builder
        self.shape = shape
        self.size = 4 if isinstance(element, ir.FloatType) else 8
        self.lanes = registers().vector_bytes // self.size
        self.vector = ir.VectorType(element, self.lanes)
        self.suffix = f"v{self.lanes}f{self.size * 8}"
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)
        self.mask = self._mask(width) if shape.partial else None

    def _mask(self, width: Any) -> Any:
        places = ir.Constant(ir.VectorType(WORD, self.lanes), list(range(self.lanes)))
        return self.builder.icmp_signed("<", places, self.splat(width))

    def splat(self, scalar: Any) -> Any:
        """A vector of one number."""
        kind = ir.VectorType(scalar.type, self.lanes)
        single = self.builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, INDEX(0))
        order = ir.Constant(ir.VectorType(INDEX, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(single, ir.Constant(kind, ir.Undefined), order)

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        kind = ir.FunctionType(result, [each.type for each in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), arguments)

    def step(self, pointer: Any, count: Any) -> Any:
        return self.builder.gep(pointer, [count])

    def load(self, pointer: Any, number: int) -> Any:
        """Vector `number` from `pointer` on."""
        place = self.builder.bitcast(self.step(pointer, WORD(number * self.lanes)), self.vector.as_pointer())
        if self.mask is None:
            return self.builder.load(place, align=self.size)
        name = f"llvm.masked.load.{self.suffix}.p0"
        return self._call(name, self.vector, place, INDEX(self.size), self.mask, self.zero)

    def store(self, value: Any, pointer: Any, number: int) -> None:
        place = self.builder.bitcast(self.step(pointer, WORD(number * self.lanes)), self.vector.as_pointer())
        if self.mask is None:
            self.builder.store(value, place, align=self.size)
        else:
            name = f"llvm.masked.store.{self.suffix}.p0"
            self._call(name, ir.VoidType(), value, place, INDEX(self.size), self.mask)

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """x * y + z, in one instruction where there is one."""
        return self._call(f"llvm.fmuladd.{self.suffix}", self.vector, x, y, z)

    def add_up(
        self, outer: Any, inner: Any, a: Any, strides: tuple[Any, Any, Any], b: Any, ldb: Any
    ) -> list[Any]:
        """The sums of the tile, row by row: two nested loops over the terms."""
        builder, (a_row, a_outer, a_inner) = self.builder, strides
        start = builder.block
        outside, inside, turn, done = (
            builder.append_basic_block(name) for name in ("outer", "inner", "turn", "done")
        )
        twice = builder.shl(a_row, WORD(1))
        thrice = builder.add(twice, a_row)
        builder.branch(outside)
        builder.position_at_end(outside)
        line = [builder.phi(kind) for kind in (WORD, b.type, a.type)]
        sums = [builder.phi(self.vector) for _ in range(self.shape.rows * self.shape.vectors)]
        groups = [line[2]]
        while len(groups) * STRIDED_GROUP < self.shape.rows:
            groups.append(self.step(groups[-1], thrice))
        builder.branch(inside)
        builder.position_at_end(inside)
        term = [builder.phi(kind) for kind in (WORD, b.type, *(group.type for group in groups))]
        totals = [builder.phi(self.vector) for _ in sums]
        added = self._one_term(term[1], term[2:], (a_row, twice), totals)
        following = [
            builder.add(term[0], WORD(1)),
            self.step(term[1], ldb),
            *(self.step(each, a_inner) for each in term[2:]),
        ]
        builder.cbranch(builder.icmp_signed("<", following[0], inner), inside, turn)
        self._feed(
            [*term, *totals], [WORD(0), line[1], *groups, *sums], outside, [*following, *added], inside
        )
        builder.position_at_end(turn)
        next_line = [builder.add(line[0], WORD(1)), following[1], self.step(line[2], a_outer)]
        builder.cbranch(builder.icmp_signed("<", next_line[0], outer), outside, done)
        self._feed(
            [*line, *sums], [WORD(0), b, a, *(self.zero for _ in sums)], start, [*next_line, *added], turn
        )
        builder.position_at_end(done)
        return added

    def _one_term(self, b: Any, groups: list[Any], offsets: tuple[Any, Any], totals: list[Any]) -> list[Any]:
        """Multiply a row of b by a column of a."""
        right = [self.load(b, number) for number in range(self.shape.vectors)]
        added = []
        for row in range(self.shape.rows):
            group, place = groups[row // STRIDED_GROUP], row % STRIDED_GROUP
            pointer = group if place == 0 else self.step(group, offsets[place - 1])
            left = self.splat(self.builder.load(pointer, align=self.size))
            for number, vector in enumerate(right):
                added.append(self.fma(left, vector, totals[row * self.shape.vectors + number]))
        return added

    @staticmethod
    def _feed(phis: list[Any], first: list[Any], before: Any, later: list[Any], after: Any) -> None:
        for phi, one, other in zip(phis, first, later, strict=True):
            phi.add_incoming(one, before)
            phi.add_incoming(other, after)

    def write(self, sums: list[Any], c: Any, ldc: Any, adds: Any) -> None:
        """Store the sums, or add them to what is there."""
        with self.builder.if_else(adds) as (then, otherwise):
            for branch, is_sum in ((then, True), (otherwise, False)):
                with branch:
                    pointer = c
                    for k, value in enumerate(sums):
                        row, number = divmod(k, self.shape.vectors)
                        pointer = self.step(pointer, ldc) if row and not number else pointer
                        old = self.load(pointer, number) if is_sum else None
                        self.store(value if old is None else self.builder.fadd(old, value), pointer, number)


@dataclass(frozen=True)
class Operands:
    """The arguments of `tiled_product` as LLVM values, a and its three strides together."""

    m: Any
    n: Any
    outer: Any
    inner: Any
    a: Any
    strides: tuple[Any, Any, Any]
    b: Any
    ldb: Any
    adds: Any
    c: Any
    ldc: Any


def emit_panel(builder: Any, operands: Operands, column: Any, width: Any, partial: bool) -> None:
    """Tiles one above the other: as many of each height as there are rows left for, highest first."""
    element = operands.c.type.pointee
    row: Any = WORD(0)
    for height in registers().heights:
        before = builder.block
        test, body, after = (builder.append_basic_block(name) for name in ("test", "body", "after"))
        builder.branch(test)
        builder.position_at_end(test)
        here = builder.phi(WORD)
        following = builder.add(here, WORD(height))
        builder.cbranch(builder.icmp_signed("<=", following, operands.m), body, after)
        builder.position_at_end(body)
        tile = Tile(builder, Shape(height, 1 if partial else 2, partial), element, width)
        left = tile.step(operands.a, builder.mul(here, operands.strides[0]))
        sums = tile.add_up(
            operands.outer,
            operands.inner,
            left,
            operands.strides,
            tile.step(operands.b, column),
            operands.ldb,
        )
        place = builder.add(builder.mul(here, operands.ldc), column)
        tile.write(sums, tile.step(operands.c, place), operands.ldc, operands.adds)
        here.add_incoming(row, before)
        here.add_incoming(following, builder.block)
        builder.branch(test)
        builder.position_at_end(after)
        row = here


def emit_product(builder: Any, operands: Operands, lanes: int) -> None:
    """Panels side by side: two vectors wide while there are columns for that, then one that may be cut short."""
    start, test, full, rest, partial, done = (
        builder.block,
        *(builder.append_basic_block(name) for name in ("columns", "full", "rest", "partial", "done")),
    )
    enough = builder.and_(
        *(builder.icmp_signed(">", count, WORD(0)) for count in (operands.outer, operands.inner))
    )
    builder.cbranch(enough, test, done)
    builder.position_at_end(test)
    column = builder.phi(WORD)
    column.add_incoming(WORD(0), start)
    left = builder.sub(operands.n, column)
    builder.cbranch(builder.icmp_signed(">=", left, WORD(2 * lanes)), full, rest)
    builder.position_at_end(rest)
    builder.cbranch(builder.icmp_signed(">", left, WORD(0)), partial, done)
    for block, width, is_partial in ((full, 2 * lanes, False), (partial, lanes, True)):
        builder.position_at_end(block)
        emit_panel(builder, operands, column, left, is_partial)
        column.add_incoming(builder.add(column, WORD(width)), builder.block)
        builder.branch(test)
    builder.position_at_end(done)
    builder.ret_void()


def product_function(module: Any, element: Any) -> Any:
    """The function that does it all, one in a module: large, so never inlined."""
    size = 4 if isinstance(element, ir.FloatType) else 8
    name = f"aioexec.tiled_product.f{size * 8}"
    if name in module.globals:
        return module.globals[name]
    pointer, flag = element.as_pointer(), ir.IntType(1)
    kinds = [*[WORD] * 4, pointer, *[WORD] * 3, pointer, WORD, flag, pointer, WORD]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    function.linkage = "internal"
    for attribute in (
        "noinline",
        "optsize",
    ):  # as it is written: no copies for constant arguments, nothing unrolled again
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    m, n, outer, inner, a, a_row, a_outer, a_inner, *rest = function.args
    operands = Operands(m, n, outer, inner, a, (a_row, a_outer, a_inner), *rest)
    emit_product(builder, operands, registers().vector_bytes // size)
    return function


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def tiled_product(
    typing_context: Any,
    m: Any,
    n: Any,
    outer: Any,
    inner: Any,
    a: Any,
    a_row: Any,
    a_outer: Any,
    a_inner: Any,
    b: Any,
    ldb: Any,
    adds: Any,
    c: Any,
    ldc: Any,
) -> Any:
    """`tiled_product` of the loop language."""
    if not (isinstance(c, types.CPointer) and a == b == c and c.dtype in (types.float32, types.float64)):
        raise numba.errors.TypingError(
            f"tiled_product: expected three pointers to one float dtype, got {a}, {b}, {c}"
        )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = product_function(builder.module, context.get_value_type(signature.args[4].dtype))
        flag = cgutils.is_true(builder, args[10])
        builder.call(function, [*args[:10], flag, *args[11:]])
        return context.get_dummy_value()

    size = types.int64
    return types.none(size, size, size, size, a, size, size, size, b, size, types.boolean, c, size), generate
