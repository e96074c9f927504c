"""Calls of elementwise kernels with parts of a product as an operand, while they are in the nearest caches.

`hand_over` never writes the product to memory: some rows of it at a time are made in memory on the stack, which is the kernel's
operand then. All other operands are scalars, or as large as the product. `call_elementwise` replaces a part that is in memory.

Like `loops.py`, which loads it, this file is for the compiler child and imports nothing of aioexec.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

ROWS = 42
"""Rows made at once: whole tiles, be they 6 or 14 high, and with a strip of the right matrix in the second-level cache."""
MOST_OPERANDS = 16
"""More than any caller has."""
ALONG_ROWS = 0xAAA
"""The bits of an epilogue's word, from bit 12 on, that are set for an operand that is a vector along rows."""


def make_hand_over(tiles: ModuleType, products: ModuleType, offset: Any, options: dict[str, Any]) -> Any:
    """The function `hand_over` of the loop language; `products` is the module with the parts of `gemm`."""
    compiled = numba.njit(**options)
    fill_strip, lanes_of = products.make_fill_strip(tiles, offset, compiled), products.make_lanes_of(tiles)
    copy_rows = products.make_copy_rows(tiles, offset, compiled)
    product = products.make_panel_product(tiles, compiled)
    vector_bytes = tiles.registers().vector_bytes
    line, deepest = products.line_bytes(tiles), products.depth_of(tiles)
    sums_at = products.strip_bytes(tiles)
    block_at = sums_at + ROWS * line
    memory_of = products.make_memory(
        lambda size: block_at + ROWS * (deepest * size + vector_bytes), vector_bytes
    )
    words_of_frame, words_of_block = make_words(MOST_OPERANDS), make_words(4 * MOST_OPERANDS + 3)
    words_of_begins = make_words(MOST_OPERANDS)
    is_copied = products.is_high(tiles)

    @compiled
    def hand_over(
        trans_a: Any, trans_b: Any, m: Any, n: Any, k: Any, a: Any, lda: Any, b: Any, ldb: Any, kernel: Any, operands: Any,
        used: Any, place: Any, moving: Any,
    ) -> None:  # fmt: skip
        strip = memory_of(a)
        lanes = lanes_of(a)
        size = vector_bytes // lanes
        wide, columns = 2 * lanes, line // size
        sums, packed = offset(strip, sums_at // size), offset(strip, block_at // size)
        pitch, packed_pitch = k * wide + products.PADDING // size, deepest + lanes
        a_row, a_inner = (1, lda) if trans_a else (lda, 1)
        frame, begins, block = words_of_frame(), words_of_begins(), words_of_block()
        note_addresses(operands, begins)
        dims = 2 * used + 1
        block[dims - 1] = 2
        for q in range(used):
            pace = columns if q == place else n * (moving >> q & 1)
            strides = dims + 2 + 2 * q
            block[2 * q], block[2 * q + 1] = q, 0
            block[strides], block[strides + 1] = pace * size, min(pace, 1) * size
        for stripe in range((n + columns - 1) // columns):
            j = stripe * columns
            count = min(columns, n - j)
            fill_strip(trans_b, offset(b, j * ldb if trans_b else j), ldb, 1, strip, pitch, k, count)
            for number in range((m + ROWS - 1) // ROWS):
                row = number * ROWS
                rows = min(ROWS, m - row)
                left, left_row, left_inner = offset(a, row * a_row), a_row, a_inner
                if is_copied:
                    copy_rows(left, a_row, a_inner, packed, packed_pitch, rows, k)
                    left, left_row, left_inner = packed, packed_pitch, 1
                for panel in range((count + wide - 1) // wide):
                    right, result = offset(strip, panel * pitch), offset(sums, panel * wide)
                    product(rows, wide, k, left, left_row, left_inner, right, wide, False, result, columns)
                block[dims], block[dims + 1] = rows, count
                for q in range(used):
                    frame[q] = begins[q] + (row * n + j) * size * (moving >> q & 1)
                frame[place] = address_of(sums)
                call_kernel(kernel, block, frame)

    return hand_over


def make_call_elementwise(tiles: ModuleType, products: ModuleType, options: dict[str, Any]) -> Any:
    """The function `call_elementwise` of the loop language; `products` is the module with the parts of `gemm`."""
    lanes_of = products.make_lanes_of(tiles)
    vector_bytes = tiles.registers().vector_bytes
    words_of_frame, words_of_block = make_words(MOST_OPERANDS), make_words(4 * MOST_OPERANDS + 3)
    words_of_begins = make_words(MOST_OPERANDS)

    @numba.njit(**options)
    def call_elementwise(
        kernel: Any, y: Any, at: Any, others: Any, m: Any, n: Any, ldc: Any, ends: Any
    ) -> None:
        size = vector_bytes // lanes_of(y)
        frame, begins, block = words_of_frame(), words_of_begins(), words_of_block()
        note_addresses(others, begins)
        used, place, kinds = ends >> 4 & 15, ends >> 8 & 15, ends >> 12
        if ldc == n and kinds & ALONG_ROWS == 0:
            m, n, ldc = 1, m * n, m * n
        dims = 2 * used + 3
        block[dims - 1], block[dims], block[dims + 1] = 2, m, n
        other = 0
        for q in range(used + 1):
            kind, address = 1, address_of(y) + at * size
            if q != place and q < used:
                kind = kinds >> 2 * other & 3
                address = begins[other] + at * size * (kind == 1)
                other += 1
            frame[q] = address
            block[2 * q], block[2 * q + 1] = q, 0
            strides = dims + 2 + 2 * q
            block[strides], block[strides + 1] = ldc * size * (kind == 1), size * (kind != 0)
        call_kernel(kernel, block, frame)

    return call_elementwise


def make_words(count: int) -> Any:
    @intrinsic
    def words(typing_context: Any) -> Any:
        """So many words on the stack."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            with builder.goto_entry_block():  # not numba's own alloca, which would clear it
                return builder.bitcast(
                    builder.alloca(ir.ArrayType(ir.IntType(64), count)), ir.IntType(64).as_pointer()
                )

        return types.CPointer(types.int64)(), generate

    return words


@intrinsic
def note_addresses(typing_context: Any, pointers: Any, words: Any) -> Any:
    """Write where each of a tuple of pointers points to."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointers, words = args
        for k in range(len(signature.args[0])):
            place = builder.gep(words, [ir.IntType(64)(k)])
            builder.store(builder.ptrtoint(builder.extract_value(pointers, k), ir.IntType(64)), place)
        return context.get_dummy_value()

    return types.none(pointers, words), generate


@intrinsic
def address_of(typing_context: Any, pointer: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(args[0], ir.IntType(64))

    return types.int64(pointer), generate


@intrinsic
def call_kernel(typing_context: Any, kernel: Any, block: Any, frame: Any) -> Any:
    """Call the kernel that is at an address. What it returns is dropped: of floats nothing fails."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kernel, block, frame = args
        kind = ir.FunctionType(kernel.type, [block.type, frame.type])
        builder.call(builder.inttoptr(kernel, kind.as_pointer()), [block, frame])
        return context.get_dummy_value()

    return types.none(types.int64, block, frame), generate
