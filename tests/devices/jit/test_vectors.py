"""Vectors of the loop language, compiled and in plain Python, against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit.library import library
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.graph.kernels.loop_language import (
    fma,
    lanes,
    load_vector,
    offset,
    splat,
    store_vector,
    vector_maximum,
    vector_minimum,
)

pytestmark = pytest.mark.slow

Array = np.ndarray[Any, Any]


def arithmetic(x, y, z, count) -> int:
    for k in range(0, count, lanes(x)):
        a, b = load_vector(offset(x, k)), load_vector(offset(y, k))
        store_vector(offset(z, k), fma(a + b, a - b, a * b) * splat(x, 3))
    return 0


def clipped(x, y, z, count) -> int:
    for k in range(0, count, lanes(x)):
        a = vector_minimum(load_vector(offset(x, k)), load_vector(offset(y, k)))
        store_vector(offset(z, k), vector_maximum(a, splat(z, -0.5)))
    return 0


def mixed(x, y, z, count) -> int:
    store_vector(z, load_vector(x) + splat(y, 1))
    return 0


def kernel(body: Any, *dtypes: str) -> LoopKernel:
    return LoopKernel(body, dtypes, 1, 0)


def run(body: Any, x: Array, y: Array) -> Array:
    """The result of the compiled body, and that of the body in plain Python, which must be close to it."""
    made = kernel(body, *[x.dtype.name] * 3)
    library().request([made]).result()
    address = library().address(made)
    assert address, library().failed(made)
    z, plain = np.zeros_like(x), np.zeros_like(x)
    frame = np.array([array.ctypes.data for array in (x, y, z)], np.int64)
    block = np.array([0, 0, 1, 0, 2, 0, len(x)], np.int64)
    code = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)
    assert code(block.ctypes.data, frame.ctypes.data) == 0
    assert body(x, y, plain, len(x)) == 0
    np.testing.assert_allclose(z, plain, rtol=1e-5, atol=1e-5)
    return z


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arithmetic_is_that_of_each_element(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(64).astype(dtype) for _ in range(2))

    z = run(arithmetic, x, y)

    wide = x.astype(np.float64), y.astype(np.float64)
    expected = ((wide[0] + wide[1]) * (wide[0] - wide[1]) + wide[0] * wide[1]) * 3
    np.testing.assert_allclose(z, expected, rtol=1e-5 if dtype == "float32" else 1e-13, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_keep_a_nan_of_their_first_operand(dtype):
    x = np.linspace(-2, 2, 32, dtype=dtype)
    y = np.ones_like(x)
    x[3], y[20] = np.nan, np.nan

    z = run(clipped, x, y)

    expected = np.clip(x, -0.5, 1)
    expected[20] = x[20]
    np.testing.assert_array_equal(z, expected)


def test_vectors_of_other_dtypes_do_not_compile(caplog):
    integers, unequal = kernel(arithmetic, *["int32"] * 3), kernel(mixed, "float32", "float64", "float32")

    library().request([integers, unequal]).result()

    assert "expected a pointer to a float dtype" in str(library().failed(integers))
    assert library().address(unequal) == 0
