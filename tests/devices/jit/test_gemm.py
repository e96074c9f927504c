"""`gemm` of the loop language: sizes around those of tiles, strips and parts, all layouts, against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit.library import library
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.graph.kernels.loop_language import gemm, large_gemm

pytestmark = pytest.mark.slow


def product(a, b, c, trans_a, trans_b, m, n, k, lda, ldb, ldc, alpha, beta) -> int:
    gemm(trans_a != 0, trans_b != 0, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    return 0


def large_product(a, b, c, trans_a, trans_b, m, n, k, lda, ldb, ldc, alpha, beta) -> int:
    large_gemm(trans_a != 0, trans_b != 0, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    return 0


def run(arrays: list[Any], words: tuple[int, ...], alpha: float, beta: float, body: Any = product) -> None:
    kernel = LoopKernel(body, (arrays[0].dtype.name,) * 3, 8, 2)
    library().request([kernel]).result()
    address = library().address(kernel)
    assert address, library().failed(kernel)
    frame = np.array([array.ctypes.data for array in arrays], np.int64)
    reals = np.array([alpha, beta]).view(np.int64)
    block = np.array([0, 0, 1, 0, 2, 0, *words, *reals], np.int64)
    code = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)
    assert code(block.ctypes.data, frame.ctypes.data) == 0


def matrices(dtype: str, flips: tuple[int, int], m: int, n: int, k: int, spare: int) -> list[Any]:
    """Two factors and what is added to, with `spare` columns more than the product uses."""
    rng = np.random.default_rng(m * 10_000 + n * 100 + k)
    shapes = ((k, m) if flips[0] else (m, k)), ((n, k) if flips[1] else (k, n)), (m, n)
    return [rng.standard_normal((rows, columns + spare)).astype(dtype) for rows, columns in shapes]


def check(
    dtype: str,
    flips: tuple[int, int],
    sizes: tuple[int, int, int],
    alpha: float = 1.0,
    beta: float = 0.0,
    spare: int = 0,
    body: Any = product,
) -> None:
    m, n, k = sizes
    a, b, c = matrices(dtype, flips, m, n, k, spare)
    left, right = a[:, : a.shape[1] - spare].astype(np.float64), b[:, : b.shape[1] - spare].astype(np.float64)
    expected = c.astype(np.float64)
    exact = (left.T if flips[0] else left) @ (right.T if flips[1] else right)
    expected[:, :n] = alpha * exact + (beta * expected[:, :n] if beta else 0)

    run([a, b, c], (*flips, m, n, k, a.shape[1], b.shape[1], c.shape[1]), alpha, beta, body)

    tolerance = (1e-5 if dtype == "float32" else 1e-13) * max(1, k) ** 0.5
    np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flips", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_all_sizes_around_those_of_tiles_and_strips(dtype, flips):
    for m in (1, 2, 7, 8, 9, 14, 15, 20, 32):
        for n in (1, 7, 16, 17, 33, 127, 128, 145):
            check(dtype, flips, (m, n, 9))
    check(dtype, flips, (260, 40, 70))  # rows of more than one block
    check(dtype, flips, (40, 40, 1003), spare=3)  # terms of more than one part
    check(dtype, flips, (70, 300, 500), spare=12)  # rows half a page apart, or a page: a block is copied


@pytest.mark.parametrize("flips", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 0.0), (-2.0, 0.25)])
def test_what_is_scaled_and_added_to(flips, alpha, beta):
    check("float32", flips, (20, 37, 21), alpha, beta, spare=2)
    check("float32", flips, (3, 130, 500), alpha, beta)


@pytest.mark.parametrize("sizes", [(300, 80, 90), (5, 3, 2)])
def test_a_large_product_is_one_like_any_other(sizes):
    check("float32", (0, 1), sizes, 1.5, 0.0, spare=1, body=large_product)


def test_nothing_is_left_of_what_was_there_even_if_it_is_no_number():
    a, b, c = matrices("float32", (0, 0), 20, 30, 40, 0)
    c[:] = np.nan

    run([a, b, c], (0, 0, 20, 30, 40, 40, 30, 30), 1.0, 0.0)

    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flips", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_shares_of_rows_or_columns_have_the_bits_of_the_whole(flips):
    m, n, k = 168, 160, 450
    a, b, c = matrices("float32", flips, m, n, k, 0)
    strides = a.shape[1], b.shape[1], n
    run([a, b, c], (*flips, m, n, k, *strides), 1.0, 0.0)

    by_columns = np.empty_like(c)
    for first, count in ((0, 96), (96, 64)):
        right = b[first:] if flips[1] else b[:, first:]
        run([a, right, by_columns[:, first:]], (*flips, m, count, k, *strides), 1.0, 0.0)
    by_rows = np.empty_like(c)
    for first, count in ((0, 84), (84, 79), (163, 5)):  # for so few rows nothing is copied
        left = a[:, first:] if flips[0] else a[first:]
        run([left, b, by_rows[first:]], (*flips, count, n, k, *strides), 1.0, 0.0)

    assert by_columns.tobytes() == c.tobytes()
    assert by_rows.tobytes() == c.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(1, 64, 130), (9, 33, 300), (14, 96, 128), (42, 160, 129), (50, 70, 200)])
def test_a_right_matrix_whose_rows_are_pages_apart_gives_the_same_bits(dtype, sizes):
    m, n, k = sizes
    a, b, c = matrices(dtype, (0, 0), m, n, k, 0)
    wide = np.random.default_rng(3).standard_normal((k, 1024)).astype(dtype)
    wide[:, 100 : 100 + n] = b
    far = np.empty_like(c)

    run([a, b, c], (0, 0, m, n, k, k, n, n), 1.0, 0.0)
    run([a, wide[:, 100:], far], (0, 0, m, n, k, k, 1024, n), 1.0, 0.0)

    np.testing.assert_allclose(
        c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4 if dtype == "float32" else 1e-12
    )
    assert far.tobytes() == c.tobytes()
