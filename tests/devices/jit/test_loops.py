"""Loop kernels compiled in the child compute the values of their bodies, without calls of the interpreter."""

import ctypes
import re
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit import blas
from aioexec.devices.jit.cache import ObjectCache
from aioexec.devices.jit.library import KernelLibrary
from aioexec.devices.jit.process import SourceError
from aioexec.devices.jit.source import closure, request_for
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.graph.kernels.loop_language import (
    LANGUAGE,
    exp,
    expm1,
    fabs,
    fma,
    gemm,
    inf,
    log,
    log1p,
    offset,
    tanh,
)

SCALE = 3.0
SHIFTS = (1, 10)

pytestmark = pytest.mark.slow


def row_sum(x, y, rows, columns) -> int:
    for i in range(rows):
        total = x[i * columns]
        for j in range(1, columns):
            total += x[i * columns + j]
        y[i] = total
    return 0


def scaled(x):
    return x * SCALE


def scaled_transpose(x, y, rows, columns) -> int:
    for i in range(rows):
        for j in range(columns):
            y[j * rows + i] = scaled(x[i * columns + j])
    return 0


def product(a, b, c, m, n, k, alpha) -> int:
    gemm(False, True, m, n, k, alpha, a, k, b, k, 0.0, c, n)
    return 0


def second_half(x, y, size) -> int:
    half = offset(x, size // 2)
    for i in range(size // 2):
        y[i] = half[i] * 2
    return 0


def softmax(x, y, size) -> int:
    top = -inf
    for i in range(size):
        top = max(top, x[i])
    total = 0.0
    for i in range(size):
        y[i] = exp(x[i] - top)
        total += y[i]
    for i in range(size):
        y[i] = fma(y[i], 1 / total, 0.0)
    return 0


def logistic_like(x, y, size) -> int:
    for i in range(size):
        y[i] = log1p(exp(x[i])) + log(fabs(x[i])) + expm1(x[i]) * tanh(x[i])
    return 0


def first_negative(x, size) -> int:
    for i in range(size):
        if x[i] < 0:
            return 1
    return 0


def gather(indices, table, y, size) -> int:
    for i in range(size):
        y[i] = table[indices[i]]
    return 0


def invert(x, y, size) -> int:
    for i in range(size):
        y[i] = not x[i]
    return 0


def shifted(x, y, size) -> int:
    for i in range(size):
        y[i] = x[i] + SHIFTS[0] + SHIFTS[1]
    return 0


def divided(x, y, z, size) -> int:
    for i in range(size):
        z[i] = x[i] // y[i] + x[i] % y[i]
    return 0


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory):
    """A library whose child lives as long as this module's tests."""
    library = KernelLibrary(ObjectCache(tmp_path_factory.mktemp("objects")), emit=lambda kernel, symbol: "")
    library.request([LoopKernel(first_negative, ("int32",), 1, 0)]).result()
    yield library
    library.shutdown()


@pytest.fixture
def run(compiled: KernelLibrary):
    def run(
        body: FunctionType, arrays: list[np.ndarray], ints: list[int], reals: list[float] | None = None
    ) -> int:
        """Compile a body for these arrays and call it on them."""
        reals = reals or []
        dtypes = tuple(array.dtype.name for array in arrays)
        kernel = LoopKernel(body, dtypes, len(ints), len(reals))
        compiled.request([kernel]).result()
        assert compiled.failed(kernel) is None
        return call(compiled.address(kernel), arrays, ints, reals)

    return run


def call(address: int, arrays: list[np.ndarray], ints: list[int], reals: list[float]) -> int:
    """Lay out frame and block: slot k + 1 holds array k from 8 bytes before its start."""
    frame = np.array([0] + [array.ctypes.data - 8 for array in arrays], np.int64)
    operands = [word for index in range(len(arrays)) for word in (index + 1, 8)]
    bits = [int(np.float64(real).view(np.int64)) for real in reals]
    block = np.array(operands + ints + bits, np.int64)
    entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(address)
    return entry(block.ctypes.data, frame.ctypes.data)


def uniform(shape: Any, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(7).uniform(-4, 4, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_a_row_sum_equals_numpys(run, dtype):
    x, y = uniform((5, 77), dtype), np.empty(5, dtype)

    assert run(row_sum, [x, y], [5, 77]) == 0
    np.testing.assert_allclose(y, x.sum(axis=1), rtol=1e-5, atol=1e-4)


def test_a_body_may_call_functions_and_read_constants_of_its_module(run):
    x, y = uniform((4, 6)), np.empty((6, 4), "float32")

    run(scaled_transpose, [x, y], [4, 6])
    np.testing.assert_array_equal(y, x.T * 3)


@pytest.mark.skipif(not blas.available(), reason="NumPy without the OpenBLAS of its wheels")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gemm_multiplies_row_major_matrices(run, dtype):
    a, b, c = uniform((5, 7), dtype), uniform((3, 7), dtype), np.full((5, 3), np.nan, dtype)

    run(product, [a, b, c], [5, 3, 7], [0.5])
    np.testing.assert_allclose(c, 0.5 * (a @ b.T), rtol=1e-5)


@pytest.mark.skipif(not blas.available(), reason="NumPy without the OpenBLAS of its wheels")
@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 2), (2, 0, 3), (2, 3, 0)])
def test_gemm_of_empty_matrices_writes_zeros_or_nothing(run, m, n, k):
    a, b, c = np.empty((m, k)), np.empty((n, k)), np.full((m, n), 9.0)

    run(product, [a, b, c], [m, n, k], [1.0])
    np.testing.assert_array_equal(c, np.zeros((m, n)))


def test_offset_moves_a_pointer_by_elements(run):
    x, y = uniform(10), np.empty(5, "float32")

    run(second_half, [x, y], [10])
    np.testing.assert_array_equal(y, 2 * x[5:])


def test_names_of_the_language_mean_what_they_say(run):
    x, y = uniform(33), np.empty(33, "float32")
    expected = np.exp(x - x.max()) / np.exp(x - x.max()).sum()

    run(softmax, [x, y], [33])
    np.testing.assert_allclose(y, expected, rtol=1e-5)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 1e-5), ("float64", 1e-13)])
def test_elementary_functions_are_as_exact_as_numpys(run, dtype, rtol):
    x, y = uniform(1000, dtype), np.empty(1000, dtype)
    expected = np.log1p(np.exp(x)) + np.log(np.abs(x)) + np.expm1(x) * np.tanh(x)

    run(logistic_like, [x, y], [1000])
    np.testing.assert_allclose(y, expected, rtol=rtol, atol=rtol)


def test_a_body_means_the_same_in_plain_python():
    x, y, a, b, c = (
        uniform(33, "float64"),
        np.empty(33),
        uniform((5, 7)),
        uniform((3, 7)),
        np.empty((5, 3), "f"),
    )

    softmax(x, y, 33)
    product(a.ravel(), b.ravel(), c.ravel(), 5, 3, 7, 1.0)
    np.testing.assert_allclose(y, np.exp(x) / np.exp(x).sum())
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)


@pytest.mark.parametrize(("values", "status"), [([1, 2, 3], 0), ([1, -2, 3], 1)])
def test_the_status_is_what_the_body_returns(run, values, status):
    assert run(first_negative, [np.array(values, "int32")], [3]) == status


def test_unsigned_bytes_index_as_unsigned(run):
    indices, table, y = np.array([200, 3], "uint8"), np.arange(256, dtype="int64"), np.empty(2, "int64")

    run(gather, [indices, table, y], [2])
    assert y.tolist() == [200, 3]


def test_a_bool_is_a_byte_holding_0_or_1(run):
    x, y = np.array([True, False, True]), np.array([True, True, True])

    run(invert, [x, y], [3])
    assert y.tolist() == [False, True, False]


def test_a_constant_may_be_a_tuple(run):
    x, y = np.arange(3, dtype="int64"), np.empty(3, "int64")

    run(shifted, [x, y], [3])
    assert y.tolist() == [11, 12, 13]


def test_integer_division_rounds_down_and_needs_no_interpreter(run):
    x, y, z = np.array([7, -7], "int64"), np.array([2, 2], "int64"), np.empty(2, "int64")

    run(divided, [x, y, z], [2])
    assert z.tolist() == [3 + 1, -4 + 1]


def raising(x, size) -> int:
    if x[0] > 0:
        raise ValueError("no")
    return 0


def wrong_type(x, size) -> int:
    return x[0].missing


def no_status(x, size):
    x[0] = 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (raising, "no kernel may call"),
        (wrong_type, "missing"),
        (no_status, "none"),
    ],
)
def test_a_body_that_cannot_be_compiled_fails_with_the_reason(compiled, body, reason):
    kernel = LoopKernel(body, ("float32",), 1, 0)

    compiled.request([kernel]).result()
    assert compiled.address(kernel) == 0
    assert reason in compiled.failed(kernel)


def test_an_unknown_dtype_fails_and_names_it(compiled):
    kernel = LoopKernel(first_negative, ("datetime64",), 1, 0)

    compiled.request([kernel]).result()
    assert "datetime64" in compiled.failed(kernel)


def uses_undefined(x, size) -> int:
    return undefined_name  # type: ignore[name-defined]  # noqa: F821


def uses_object(x, size) -> int:
    return len(pytest.mark)  # type: ignore[arg-type]


def test_a_global_that_is_no_constant_is_refused_by_name():
    with pytest.raises(SourceError, match=r"'pytest'.*got module"):
        closure(uses_object)
    with pytest.raises(SourceError, match="'undefined_name', which is not defined"):
        closure(uses_undefined)


def test_a_closure_is_refused():
    bound = 3

    def body(x, size) -> int:
        return bound

    with pytest.raises(SourceError, match="got bound"):
        closure(body)


def test_constants_and_called_functions_are_part_of_what_is_compiled(monkeypatch):
    kernel = LoopKernel(scaled_transpose, ("float32", "float32"), 2, 0)
    before = request_for(kernel)

    monkeypatch.setitem(globals(), "SCALE", 4.0)
    closure.cache_clear()
    after = request_for(kernel)
    closure.cache_clear()
    assert "return x * SCALE" in before
    assert before != after
    assert after == before.replace("3.0", "4.0")


def test_the_child_supplies_every_name_of_the_language():
    files = [Path(blas.__file__).with_name(name) for name in ("loops.py", "vectors.py")]
    text = "".join(file.read_text(encoding="utf-8") for file in files)

    assert [name for name in sorted(LANGUAGE) if re.search(rf"\b{name}\b", text) is None] == []
