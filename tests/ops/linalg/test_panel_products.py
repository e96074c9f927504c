"""Products and convolutions with constants, which programs hold in panels, against NumPy and products with fed matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.jit.panels import vector_bytes
from aioexec.graph.kernels.epilogue import ADDS_BIAS, RECTIFIES
from aioexec.ops.linalg import panel_loops
from tests.ops.convolution.launched import in_panels
from tests.tiers import constant, graph, op, op_of_each_row, programs, share_all

Array = np.ndarray[Any, Any]

needs_panels = pytest.mark.skipif(not vector_bytes(), reason="products are left to BLAS")


@pytest.mark.parametrize("ends", [0, ADDS_BIAS, RECTIFIES, ADDS_BIAS + RECTIFIES])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 8, 3), (5, 37, 130), (6, 33, 128), (340, 9, 260), (2, 40, 500)]
)
def test_the_loop_runs_as_plain_python(m, n, k, ends):
    random = np.random.default_rng(3)
    a, b, bias = (random.standard_normal(shape) for shape in ((m, k + 2), (k, n), (n,)))
    c = np.full((m, n + 1), 7.0)

    others = [bias] * 6  # which are not read without a call
    words = (m, n, k, k + 2, n + 1, ends, 0)
    body: Any = panel_loops.multiply_panels
    body(a.reshape(-1), in_panels(b), c.reshape(-1), bias, *others, *words)

    expected = a[:, :k] @ b + (bias if ends & ADDS_BIAS else 0)
    np.testing.assert_allclose(
        c[:, :n], np.maximum(expected, 0) if ends & RECTIFIES else expected, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_array_equal(c[:, n], 7.0)


CASES = {
    "a row": ((1, 300), (300, 70), "MatMul", {}),
    "few rows": ((5, 300), (300, 70), "MatMul", {}),
    "many rows": ((400, 130), (130, 40), "MatMul", {}),
    "parts": ((50, 1000), (1000, 100), "MatMul", {}),
    "transposed": ((9, 300), (70, 300), "MatMul", {"transpose_b": True}),
    "a batch": ((3, 4, 5, 130), (130, 40), "BatchMatMulV2", {}),
    "an adjoint": ((2, 9, 130), (1, 40, 130), "BatchMatMulV2", {"adj_y": True}),
}


def session_with(workers: int, made: Any) -> ax.Session:
    config = ax.ConfigProto(intra_op_parallelism_threads=workers, use_per_session_threads=True)
    config.aioexec.jit = "eager"
    return ax.Session(graph=made, config=config)


@needs_panels
@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
async def test_a_product_with_a_constant_has_the_same_bits_for_any_number_of_workers(
    monkeypatch, case, dtype
):
    share_all(monkeypatch)
    left, right, kind, attrs = CASES[case]
    random = np.random.default_rng(5)
    x, w = (random.standard_normal(shape).astype(dtype) for shape in (left, right))
    x[0, ..., 4], n = np.nan, right[-2] if attrs else right[-1]
    bias = random.standard_normal(n).astype(dtype)
    found = []
    for workers in (1, 3):
        with graph() as made:
            fed = ax.placeholder(dtype, left)
            product = op(kind, fed, constant(w, dtype), **attrs)
            y = op("Relu", op("AddV2", product, constant(bias, dtype)))
        async with session_with(workers, made) as session:
            found.append(await session.run(y, {fed: x}))
            (program,) = programs(session)
            (packed,) = program.variant.packed
            assert packed.content.shape == right
            assert program.variant.constants.nbytes < w.nbytes  # the bias alone
            assert {*op_of_each_row(program)} == {kind}  # the bias and the rectifier are its epilogue

    product = np.matmul(x, np.swapaxes(w, -1, -2) if attrs else w)
    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(
        found[0], np.maximum(product + bias, 0), rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-4
    )


@needs_panels
@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 9, 60, 400])
async def test_a_constant_and_a_fed_matrix_yield_the_same_bits(m):
    random = np.random.default_rng(6)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((m, 900), (900, 128)))
    with graph() as made:
        fed, other = ax.placeholder("float32", x.shape), ax.placeholder("float32", w.shape)
        products = op("MatMul", fed, constant(w)), op("MatMul", fed, other)
    async with session_with(1, made) as session:
        one, two = await session.run(products, {fed: x, other: w})

    np.testing.assert_array_equal(one, two)


@needs_panels
@pytest.mark.slow
@pytest.mark.parametrize(
    ("equation", "left", "right", "is_packed"),
    [
        ("abc,cd->abd", (3, 5, 130), (130, 40), True),
        ("abc,cde->abde", (3, 5, 130), (130, 4, 10), True),
        ("abc,dc->abd", (3, 5, 130), (40, 130), True),
        ("abc,cd->adb", (3, 5, 130), (130, 40), True),  # the result is turned
        ("acb,cd->abd", (3, 130, 5), (130, 40), True),  # the left matrix is turned
        ("abc,acd->abd", (3, 5, 130), (3, 130, 40), False),  # a batch of matrices
        ("abc,dce->abde", (3, 5, 130), (4, 130, 10), False),  # the constant is turned
    ],
)
async def test_einsum_takes_a_constant_in_panels_if_it_is_a_matrix_as_it_is(equation, left, right, is_packed):
    random = np.random.default_rng(8)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in (left, right))
    with graph() as made:
        fed = ax.placeholder("float32", left)
        y = ax.einsum(equation, fed, constant(w))
    async with session_with(1, made) as session:
        found = await session.run(y, {fed: x})
        (program,) = programs(session)
        assert bool(program.variant.packed) == is_packed

    np.testing.assert_allclose(found, np.einsum(equation, x, w), rtol=1e-4, atol=1e-4)


@needs_panels
@pytest.mark.slow
async def test_small_matrices_integers_and_transposed_left_ones_are_not_packed():
    with graph() as made:
        x, whole = ax.placeholder("float32", (20, 4)), ax.placeholder("int32", (4, 90))
        wide = ax.placeholder("float32", (90, 20))
        products = (
            op("MatMul", x, constant(np.ones((4, 9)))),
            op("MatMul", whole, constant(np.ones((90, 90)), "int32")),
            op("MatMul", wide, constant(np.ones((90, 90))), transpose_a=True),
        )
    async with session_with(1, made) as session:
        feeds = {x: np.ones((20, 4)), whole: np.ones((4, 90), np.int32), wide: np.ones((90, 20))}
        found = await session.run(products, feeds)
        (program,) = programs(session)
        assert not program.variant.packed

    assert [value.flat[0] for value in found] == [4, 90, 90]
