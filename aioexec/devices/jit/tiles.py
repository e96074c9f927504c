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
from collections.abc import Callable
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
BUSY_ROWS = 4
"""Rows of two vectors with which the processor need not wait for one product before it can add the next."""
LINE = 64
"""Bytes of a line of the caches, and of a vector with which tiles ask for rows of any right matrix."""
TERMS_AHEAD = 5
"""Terms before a row of the right matrix is needed. Of rows a half or a whole page apart, as is usual, the first-level cache
holds 8 or 16: what is asked for earlier is gone when it is needed, and each tile waits for the second level again."""
UNROLLED_TERMS = 4
"""How many are written out one after the other: moving on costs less, but with eight the processor decodes them each time."""
TALL = 6
"""With more rows the compiler, which sees how far their addresses are apart, would add up each one from the one before."""


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
    return Registers(32 if "+avx2" in features else 16, (6, 5, 4, 3, 2, 1))  # 16 registers


@dataclass(frozen=True)
class Shape:
    """A tile: its rows, and its vectors a row; the vectors of a `partial` tile may be cut short."""

    rows: int
    vectors: int
    partial: bool


class Tile:
    """Writes the code of one tile; `width`: the columns of a partial one."""

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

    def _unrelated(self, pointer: Any) -> Any:
        """The same pointer, of which the compiler knows nothing."""
        kind = ir.FunctionType(pointer.type, [pointer.type])
        return self.builder.asm(kind, "", "=r,0", [pointer], False)

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
        self,
        outer: Any,
        inner: Any,
        a: Any,
        strides: tuple[Any, Any, Any],
        b: Any,
        ldb: Any,
        ahead: Any | None,
    ) -> list[Any]:
        """The sums of the tile, row by row: two nested loops over the terms, the inner one some terms at a time.

        With each row of b a line is asked for that lies so many elements `ahead` of it, if that is given.
        """
        a_row, a_outer, a_inner = strides
        apart = isinstance(a_row, ir.Constant) or self.shape.rows <= STRIDED_GROUP
        size = self.shape.rows if apart else STRIDED_GROUP  # rows whose addresses are made from one register
        multiples = [WORD(0), a_row]
        while len(multiples) < size:
            multiples.append(self.builder.add(multiples[-1], a_row))
        far = self.builder.add(multiples[size - 1], a_row)

        def one_term(state: list[Any]) -> list[Any]:
            left, b, *rest = state
            groups, totals = rest[: -len(sums)], rest[-len(sums) :]
            self._ask_for(b, ldb, ahead)
            added = self._one_term(b, groups, multiples[:size], totals)
            moved = [self.step(each, a_inner) for each in groups]
            return [self.builder.sub(left, WORD(1)), self.step(b, ldb), *moved, *added]

        def some_terms(count: int, state: list[Any]) -> list[Any]:
            for _ in range(count):
                state = one_term(state)
            left, b, *rest = state
            groups, totals = rest[: -len(sums)], rest[-len(sums) :]
            if not apart and self.shape.rows > TALL:
                groups = [self._unrelated(each) for each in groups]
            return [left, b, *groups, *totals]

        def line(state: list[Any]) -> list[Any]:
            left, b, a, *totals = state
            groups = [a]
            while len(groups) * size < self.shape.rows:
                groups.append(self.step(groups[-1], far))
            inside = [inner, b, *groups, *totals]
            inside = self._while(UNROLLED_TERMS, inside, functools.partial(some_terms, UNROLLED_TERMS))
            inside = self._while(1, inside, functools.partial(some_terms, 1))
            rest = inside[-len(sums) :]
            return [self.builder.sub(left, WORD(1)), inside[1], self.step(a, a_outer), *rest]

        sums = [self.zero] * (self.shape.rows * self.shape.vectors)
        return self._while(1, [outer, b, a, *sums], line)[3:]

    def _while(self, least: int, state: list[Any], body: Callable[[list[Any]], list[Any]]) -> list[Any]:
        """Repeat the body, which changes the state, while the first value of that is not less than `least`."""
        builder, before = self.builder, self.builder.block
        inside, after = builder.append_basic_block("inside"), builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed(">=", state[0], WORD(least)), inside, after)
        builder.position_at_end(inside)
        now = [builder.phi(each.type) for each in state]
        later = body(now)
        end = builder.block
        builder.cbranch(builder.icmp_signed(">=", later[0], WORD(least)), inside, after)
        builder.position_at_end(after)
        result = [builder.phi(each.type) for each in state]
        for phis in (now, result):
            for phi, one, other in zip(phis, state, later, strict=True):
                phi.add_incoming(one, before)
                phi.add_incoming(other, end)
        return result

    def _ask_for(self, b: Any, ldb: Any, ahead: Any | None) -> None:
        """Have a row of b brought to the first-level cache, since rows far apart are not read ahead, and a line `ahead`."""
        if self.mask is not None or (ahead is None and registers().vector_bytes < LINE):
            return
        row = self.step(b, self.builder.mul(ldb, WORD(TERMS_AHEAD)))
        for number in range(0, self.shape.vectors, LINE // registers().vector_bytes):
            self._prefetch(self.step(row, WORD(number * self.lanes)), 1)
        if ahead is not None:
            self._prefetch(self.step(b, ahead), 2)

    def _prefetch(self, place: Any, level: int) -> None:
        """Have the line at a place brought to the cache of this level, to be read."""
        place = self.builder.bitcast(place, ir.IntType(8).as_pointer())
        reading, locality, data = INDEX(0), INDEX(4 - level), INDEX(1)
        self._call("llvm.prefetch.p0", ir.VoidType(), place, reading, locality, data)

    def _one_term(self, b: Any, groups: list[Any], multiples: list[Any], totals: list[Any]) -> list[Any]:
        """Multiply a row of b by a column of a."""
        right = [self.load(b, number) for number in range(self.shape.vectors)]
        added = []
        for row in range(self.shape.rows):
            group, place = divmod(row, len(multiples))
            pointer = self.step(groups[group], multiples[place]) if place else groups[group]
            left = self.splat(self.builder.load(pointer, align=self.size))
            for number, vector in enumerate(right):
                added.append(self.fma(left, vector, totals[row * self.shape.vectors + number]))
        return added

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


def limits(builder: Any, m: Any) -> list[Any]:
    """For tiles of each height, the highest first: the row up to which they are used, if they fit.

    As many of each as there are rows left for; but the last two share their rows evenly where the last one would be low.
    """
    tallest, *lower = registers().heights
    rest = builder.urem(m, WORD(tallest))
    is_low = builder.icmp_unsigned("<", builder.sub(rest, WORD(1)), WORD(BUSY_ROWS - 1))
    is_low = builder.and_(is_low, builder.icmp_signed(">", m, WORD(tallest)))
    rest = builder.select(is_low, builder.add(rest, WORD(tallest)), rest)
    highest = builder.select(is_low, builder.lshr(builder.add(rest, WORD(1)), WORD(1)), WORD(tallest))
    fits = [builder.icmp_signed("<=", WORD(height), highest) for height in lower]
    return [builder.sub(m, rest), *(builder.select(each, m, WORD(0)) for each in fits)]


def next_panel(builder: Any, operands: Operands, column: Any, wide: int) -> Any:
    """How many elements from a panel to the one that follows: to the right of it, or the first one of the rows below."""
    terms = builder.mul(operands.outer, operands.inner)
    below = builder.sub(builder.mul(terms, operands.ldb), column)
    is_last = builder.icmp_signed(">=", builder.add(column, WORD(wide)), operands.n)
    return builder.select(is_last, below, WORD(wide))


def emit_panel(
    builder: Any, operands: Operands, column: Any, width: Any, partial: bool, is_far: bool
) -> None:
    """Tiles one above the other; if the right matrix is far, they ask for what the next panel needs."""
    element = operands.c.type.pointee
    row: Any = WORD(0)
    lanes = registers().vector_bytes // (4 if isinstance(element, ir.FloatType) else 8)
    following_panel = next_panel(builder, operands, column, 2 * lanes) if is_far else None
    for height, limit in zip(registers().heights, limits(builder, operands.m), strict=True):
        before = builder.block
        test, body, after = (builder.append_basic_block(name) for name in ("test", "body", "after"))
        builder.branch(test)
        builder.position_at_end(test)
        here = builder.phi(WORD)
        following = builder.add(here, WORD(height))
        builder.cbranch(builder.icmp_signed("<=", following, limit), body, after)
        builder.position_at_end(body)
        tile = Tile(builder, Shape(height, 1 if partial else 2, partial), element, width)
        left = tile.step(operands.a, builder.mul(here, operands.strides[0]))
        ahead = following_panel
        if ahead is not None:  # the first tile asks for one half of its lines, the others for the other
            is_first = builder.icmp_signed("==", here, WORD(0))
            ahead = builder.select(is_first, ahead, builder.add(ahead, WORD(lanes)))
        sums = tile.add_up(
            operands.outer,
            operands.inner,
            left,
            operands.strides,
            tile.step(operands.b, column),
            operands.ldb,
            ahead,
        )
        place = builder.add(builder.mul(here, operands.ldc), column)
        tile.write(sums, tile.step(operands.c, place), operands.ldc, operands.adds)
        here.add_incoming(row, before)
        here.add_incoming(following, builder.block)
        builder.branch(test)
        builder.position_at_end(after)
        row = here


def emit_product(builder: Any, operands: Operands, lanes: int, is_far: bool) -> None:
    """Panels side by side: two vectors wide while there are columns for that, then one that may be cut short."""
    start, test, full, rest, partial, done = (
        builder.block,
        *(builder.append_basic_block(name) for name in ("columns", "full", "rest", "partial", "done")),
    )
    enough = builder.and_(
        builder.icmp_signed(">", operands.m, WORD(0)),
        builder.and_(
            *(builder.icmp_signed(">", count, WORD(0)) for count in (operands.outer, operands.inner))
        ),
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
        emit_panel(builder, operands, column, left, is_partial, is_far)
        column.add_incoming(builder.add(column, WORD(width)), builder.block)
        builder.branch(test)
    builder.position_at_end(done)
    builder.ret_void()


@functools.cache
def product_library(codegen: Any, size: int, units: tuple[bool, ...], is_far: bool) -> tuple[Any, str, Any]:
    """Code of the function that does it all, its name and type, for those strides of a that are always 1; written once.

    It is large, so never inlined.
    """
    kind = "far" if is_far else "tiled"
    name = f"aioexec.{kind}_product.f{size * 8}.{''.join('s1'[unit] for unit in units)}"
    library = codegen.create_library(name)
    module = library.create_ir_module(name)
    element = ir.FloatType() if size == 4 else ir.DoubleType()
    pointer, flag = element.as_pointer(), ir.IntType(1)
    kinds = [*[WORD] * 4, pointer, *[WORD] * 3, pointer, WORD, flag, pointer, WORD]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
    for attribute in (
        "noinline",
        "optsize",
    ):  # as it is written: no copies for constant arguments, nothing unrolled again
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    m, n, outer, inner, a, *strides = function.args[:8]
    strides = [WORD(1) if unit else stride for unit, stride in zip(units, strides, strict=True)]
    operands = Operands(m, n, outer, inner, a, tuple(strides), *function.args[8:])
    emit_product(builder, operands, registers().vector_bytes // size, is_far)
    library.add_ir_module(module)
    return library, name, function.ftype


def _product(is_far: bool) -> Any:
    @intrinsic(prefer_literal=True)
    def product(
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
        """There is code of its own for strides that are written as 1."""
        if not (isinstance(c, types.CPointer) and a == b == c and c.dtype in (types.float32, types.float64)):
            raise numba.errors.TypingError(
                f"tiled_product: expected three pointers to one float dtype, got {a}, {b}, {c}"
            )
        size = types.int64
        strides = (a_row, a_outer, a_inner)
        units = tuple(getattr(stride, "literal_value", 0) == 1 for stride in strides)
        kinds = [stride if unit else size for stride, unit in zip(strides, units, strict=True)]

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            library, name, kind = product_library(
                context.codegen(), signature.args[4].dtype.bitwidth // 8, units, is_far
            )
            context.active_code_library.add_linking_library(library)
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            flag = cgutils.is_true(builder, args[10])
            builder.call(function, [*args[:10], flag, *args[11:]])
            return context.get_dummy_value()

        # numba finds the code again by the types, so those that are written as 1 must be seen in them
        return types.none(size, size, size, size, a, *kinds, b, size, types.boolean, c, size), generate

    return product


tiled_product = _product(is_far=False)
"""`tiled_product` of the loop language."""
far_product = _product(is_far=True)
"""The same for a right matrix of which much is in the last cache or in memory, and is read from there while tiles are made."""
