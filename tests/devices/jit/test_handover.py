"""`hand_over` of the loop language: sizes around those of tiles and strips, all layouts, against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit.library import library
from aioexec.graph.kernels.kernel import ElementwiseKernel, Kernel, LoopKernel
from aioexec.ops.linalg.product_launches import MOST_OPERANDS
from aioexec.ops.linalg.product_loops import product_handed_over
from tests.devices.jit.test_gemm import matrices

pytestmark = pytest.mark.slow

RATE = 0.375


def user_of(dtype: str) -> ElementwiseKernel:
    """A scalar, something that moves, what is handed over, and what is written."""
    inputs = (("rate", dtype), ("old", dtype), ("product", dtype))
    return ElementwiseKernel("new = old - rate * product", inputs, (("new", dtype),), "svvv")


PLACE, MOVING = 2, 0b1010


def address_of(kernel: Kernel) -> int:
    library().request([kernel]).result()
    address = library().address(kernel)
    assert address, library().failed(kernel)
    return address


def run(arrays: list[Any], flips: tuple[int, int], sizes: tuple[int, int, int], strides: list[int]) -> None:
    a, b, old, new = arrays
    dtype = a.dtype.name
    kernel = LoopKernel(product_handed_over, (dtype,) * (2 + MOST_OPERANDS), 11, 0)
    rate = np.array([RATE], dtype)
    operands = [a, b, rate, old, a, new]
    frame = np.array([array.ctypes.data for array in operands], np.int64)
    heads = [*range(len(operands)), *([0] * (2 + MOST_OPERANDS - len(operands)))]
    head = [word for slot in heads for word in (slot, 0)]
    block = np.array(
        [*head, *flips, *sizes, *strides, 4, PLACE, MOVING, address_of(user_of(dtype))], np.int64
    )
    code = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address_of(kernel))
    assert code(block.ctypes.data, frame.ctypes.data) == 0


def check(
    dtype: str, flips: tuple[int, int], sizes: tuple[int, int, int], spare: int = 0, in_place: bool = False
) -> None:
    m, n, k = sizes
    a, b, _ = matrices(dtype, flips, m, n, k, spare)
    old = np.random.default_rng(7).standard_normal((m, n)).astype(dtype)
    left, right = a[:, : a.shape[1] - spare].astype(np.float64), b[:, : b.shape[1] - spare].astype(np.float64)
    expected = old - RATE * ((left.T if flips[0] else left) @ (right.T if flips[1] else right))
    found = old if in_place else np.full_like(old, np.nan)

    run([a, b, old, found], flips, sizes, [a.shape[1], b.shape[1]])

    tolerance = (1e-5 if dtype == "float32" else 1e-13) * k**0.5
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flips", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_all_sizes_around_those_of_tiles_and_blocks(dtype, flips):
    for m in (1, 2, 7, 15, 41, 42, 43, 85, 180):
        for n in (1, 7, 16, 17, 33, 130):
            check(dtype, flips, (m, n, 9))
    for k in (1, 16, 127, 128):
        check(dtype, flips, (20, 40, k), spare=3)
    check(dtype, flips, (30, 700, 20))  # columns of more than one strip


@pytest.mark.parametrize("flips", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_what_is_taken_from_may_be_where_the_result_goes(flips):
    check("float32", flips, (100, 45, 64), spare=2, in_place=True)
    check("float64", flips, (100, 45, 64), spare=2, in_place=True)


@pytest.mark.parametrize("flips", [(0, 0), (1, 0)])
def test_shares_of_rows_have_the_bits_of_the_whole(flips):
    sizes = m, n, k = 200, 150, 90
    a, b, old = matrices("float32", flips, m, n, k, 0)
    whole, shared = np.empty_like(old), np.empty_like(old)
    strides = [a.shape[1], b.shape[1]]
    run([a, b, old, whole], flips, sizes, strides)

    for first, count in ((0, 42), (42, 126), (168, 32)):
        left = a[:, first:] if flips[0] else a[first:]
        run([left, b, old[first:], shared[first:]], flips, (count, n, k), strides)

    assert shared.tobytes() == whole.tobytes()
