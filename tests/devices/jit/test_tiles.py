"""`tiled_product` and `far_product` of the loop language: sizes around those of its tiles, all strides, against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit.cache import ObjectCache
from aioexec.devices.jit.library import KernelLibrary, library
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.graph.kernels.loop_language import far_product, tiled_product

pytestmark = pytest.mark.slow

Words = tuple[int, ...]


def product(a, b, c, m, n, outer, inner, a_row, a_outer, a_inner, ldb, adds, ldc) -> int:
    tiled_product(m, n, outer, inner, a, a_row, a_outer, a_inner, b, ldb, adds != 0, c, ldc)
    return 0


def product_along_rows(a, b, c, m, n, outer, inner, a_row, a_outer, a_inner, ldb, adds, ldc) -> int:
    """The same where a stride is known to be 1."""
    tiled_product(m, n, outer, inner, a, a_row, a_outer, 1, b, ldb, adds != 0, c, ldc)
    return 0


def product_along_columns(a, b, c, m, n, outer, inner, a_row, a_outer, a_inner, ldb, adds, ldc) -> int:
    tiled_product(m, n, outer, inner, a, 1, a_outer, a_inner, b, ldb, adds != 0, c, ldc)
    return 0


def product_of_far_matrix(a, b, c, m, n, outer, inner, a_row, a_outer, a_inner, ldb, adds, ldc) -> int:
    far_product(m, n, outer, inner, a, a_row, a_outer, 1, b, ldb, adds != 0, c, ldc)
    return 0


BODIES = {
    "any": product,
    "rows": product_along_rows,
    "columns": product_along_columns,
    "far": product_of_far_matrix,
}


def run(dtype: str, arrays: list[Any], words: Words, body: str = "any") -> None:
    kernel = LoopKernel(BODIES[body], (dtype,) * 3, 10, 0)
    library().request([kernel]).result()
    address = library().address(kernel)
    assert address, library().failed(kernel)
    frame = np.array([array.ctypes.data for array in arrays], np.int64)
    block = np.array([0, 0, 1, 0, 2, 0, *words], np.int64)
    code = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)
    assert code(block.ctypes.data, frame.ctypes.data) == 0


def check(
    dtype: str, m: int, n: int, outer: int, inner: int, strides: Words, ldb: int, adds: bool, ldc: int,
    body: str = "any",
) -> None:  # fmt: skip
    rng = np.random.default_rng(m * 1000 + n)
    size = 1 + sum(stride * (count - 1) for stride, count in zip(strides, (m, outer, inner), strict=True))
    a, b = rng.standard_normal(size).astype(dtype), rng.standard_normal(outer * inner * ldb).astype(dtype)
    c = rng.standard_normal(m * ldc).astype(dtype)
    before = c.reshape(m, ldc).copy()
    left = np.array(
        [
            [a[i * strides[0] + o * strides[1] + p * strides[2]] for o in range(outer) for p in range(inner)]
            for i in range(m)
        ]
    )
    expected = before.astype(np.float64)
    wanted = left.astype(np.float64) @ b.reshape(outer * inner, ldb)[:, :n].astype(np.float64)
    expected[:, :n] = expected[:, :n] * adds + wanted

    run(dtype, [a, b, c], (m, n, outer, inner, *strides, ldb, int(adds), ldc), body)

    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(c.reshape(m, ldc), expected, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_height_and_width_of_a_tile(dtype):
    for m in range(1, 31):
        check(dtype, m, 35, 2, 3, (6, 3, 1), 35, False, 35)
    for n in range(1, 71):
        check(dtype, 5, n, 1, 4, (4, 0, 1), n, True, n)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strides", [(1, 0, 9), (1, 9, 3), (2, 5, 1), (0, 0, 1), (7, 1, 0)])
@pytest.mark.parametrize("adds", [False, True])
def test_the_left_side_may_have_any_strides(dtype, strides, adds):
    check(dtype, 17, 37, 3, 3, strides, 40, adds, 41)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("body", "strides"), [("rows", (9, 40, 1)), ("columns", (1, 40, 7)), ("far", (9, 40, 1))]
)
def test_strides_known_to_be_1(dtype, body, strides):
    for m in range(1, 31):
        check(dtype, m, 19, 2, 5, strides, 19, True, 20, body)
    for inner in range(1, 10):  # around the number of terms that are written out
        check(dtype, 11, 35, 3, inner, strides, 35, False, 35, body)


def test_windows_of_an_image_are_read_where_they_lie():
    image = np.arange(4 * 6.0, dtype=np.float32)  # 4 lines of 6
    filters = np.arange(9.0, dtype=np.float32)  # 3 × 3, one of them
    result = np.empty(4, np.float32)

    run("float32", [image, filters, result], (4, 1, 3, 3, 1, 6, 1, 1, 0, 1))

    view = np.lib.stride_tricks.sliding_window_view(image.reshape(4, 6), (3, 3))[0]
    np.testing.assert_array_equal(result, np.einsum("xij,ij->x", view, filters.reshape(3, 3)))


@pytest.mark.parametrize("counts", [(0, 4), (2, 0)])
def test_without_terms_nothing_is_done(counts):
    result = np.full(6, 7, np.float32)

    run(
        "float32",
        [np.ones(8, np.float32), np.ones(24, np.float32), result],
        (2, 3, *counts, 4, 0, 1, 3, 0, 3),
    )

    assert (result == 7).all()


def test_nan_and_infinity_spread_as_in_any_product():
    a, b = np.array([np.inf, 0.0, np.nan], np.float32), np.array([1.0, np.inf], np.float32)
    result = np.empty((3, 2), np.float32)

    run("float32", [a, b, result], (3, 2, 1, 1, 1, 0, 1, 2, 0, 2))

    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(result, np.outer(a, b))


def test_the_same_in_plain_python():
    a, b, c = np.arange(12.0), np.arange(8.0), np.ones(6)

    tiled_product(3, 2, 2, 2, a, 4, 2, 1, b, 2, True, c, 2)

    np.testing.assert_array_equal(c.reshape(3, 2), 1 + a.reshape(3, 4) @ b.reshape(4, 2))


def product_along_rows_again(a, b, c, m, n, outer, inner, a_row, a_outer, a_inner, ldb, adds, ldc) -> int:
    tiled_product(m, n, outer, inner, a, a_row, a_outer, 1, b, ldb, adds != 0, c, ldc)
    return 0


def test_a_compiler_does_not_take_the_code_for_one_stride_for_that_for_another(tmp_path):
    fresh = KernelLibrary(ObjectCache(tmp_path))
    kernels = [
        LoopKernel(body, ("float64",) * 3, 10, 0)
        for body in (product_along_rows, product_along_columns, product_along_rows_again)
    ]
    for kernel in kernels:
        fresh.request([kernel]).result()
    a, b, c = np.arange(12.0), np.arange(4.0), np.zeros(3)
    frame = np.array([array.ctypes.data for array in (a, b, c)], np.int64)
    block = np.array([0, 0, 1, 0, 2, 0, 3, 1, 1, 4, 4, 0, 1, 1, 1, 1], np.int64)

    address = fresh.address(kernels[-1])
    assert address
    code = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)
    assert code(block.ctypes.data, frame.ctypes.data) == 0

    fresh.shutdown()
    np.testing.assert_array_equal(c, a.reshape(3, 4) @ b)
