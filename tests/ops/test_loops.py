"""Loop bodies run as the plain Python they are written in, with no compiler in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.graph.kernels.epilogue import ADDS_BIAS, CLIPS, RECTIFIES
from aioexec.ops.linalg import product_loops as linalg_loops
from aioexec.ops.nn import loops as nn_loops, softmax_loops
from aioexec.ops.reduction import arg_reduction_loops, cumulative, loops as reduction_loops

SHAPES = [(2, 5, 1), (1, 4, 3), (3, 1, 2), (1, 530, 1), (1, 90, 7), (2, 3, 260)]


def values(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).uniform(0.5, 1.5, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions(shape: tuple[int, int, int]):
    x = values(shape)
    lanes, y = np.empty(reduction_loops.TILE), np.empty((shape[0], shape[2]))

    def run(body: Any, *arguments: float) -> Any:
        assert body(x.reshape(-1), y.reshape(-1), lanes, *shape, *arguments) == 0
        return y.copy()

    np.testing.assert_allclose(run(reduction_loops.total_real, 4.0), x.sum(1) / 4)
    np.testing.assert_allclose(run(reduction_loops.product), x.prod(1))
    np.testing.assert_array_equal(run(reduction_loops.maximum), x.max(1))
    np.testing.assert_array_equal(run(reduction_loops.minimum), x.min(1))


@pytest.mark.parametrize("shape", SHAPES)
def test_means_of_integers_are_truncated(shape: tuple[int, int, int]):
    x = (values(shape) * 20 - 20).astype(np.int64)
    lanes, y = np.empty(reduction_loops.TILE, np.int64), np.empty((shape[0], shape[2]), np.int64)

    reduction_loops.total_whole(x.reshape(-1), y.reshape(-1), lanes, *shape, 7)

    np.testing.assert_array_equal(y, np.trunc(x.sum(1) / 7).astype(np.int64))


@pytest.mark.parametrize("shape", SHAPES)
def test_indices_of_extrema(shape: tuple[int, int, int]):
    x = np.round(values(shape) * 8)
    tile = arg_reduction_loops.TILE
    best, places, y = np.empty(tile), np.empty(tile, np.int64), np.empty((shape[0], shape[2]), np.int64)

    arg_reduction_loops.arg_maximum(x.reshape(-1), y.reshape(-1), best, places, *shape)
    np.testing.assert_array_equal(y, x.argmax(1))

    arg_reduction_loops.arg_minimum(x.reshape(-1), y.reshape(-1), best, places, *shape)
    np.testing.assert_array_equal(y, x.argmin(1))


@pytest.mark.parametrize("sizes", [(1, 3, 5), (4, 1, 6), (3, 2, 4), (5, 6, 7)])
@pytest.mark.parametrize("flips", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("ends", [0, ADDS_BIAS, RECTIFIES, ADDS_BIAS + RECTIFIES, RECTIFIES + CLIPS, 7])
@pytest.mark.parametrize(
    ("body", "how"),
    [
        (linalg_loops.matmul_real, linalg_loops.IN_TILES),
        (linalg_loops.matmul_real, linalg_loops.LARGE),
        (linalg_loops.matmul_real, linalg_loops.ROWS),
        (linalg_loops.matmul_real, linalg_loops.COLUMN),
        (linalg_loops.matmul_whole, linalg_loops.IN_TILES),
    ],
)
def test_matrix_products(
    sizes: tuple[int, int, int], flips: tuple[int, int], ends: int, body: Any, how: int
) -> None:
    m, n, k = sizes
    if (how == linalg_loops.ROWS and flips[0] and m > 1) or (how == linalg_loops.COLUMN and n > 1):
        return  # no product is made so
    a, b, c, bias = values((2, m, k)), values((k, n)), np.empty((2, m, n)), values((n,))
    left = np.ascontiguousarray(a.swapaxes(1, 2)) if flips[0] else a
    right = np.ascontiguousarray(b.T) if flips[1] else b

    strides = (m if flips[0] else k), (k if flips[1] else n), n
    can_add = body is linalg_loops.matmul_real and how in (linalg_loops.IN_TILES, linalg_loops.LARGE)
    for adds in (0, 1) if can_add else (0,):
        c[...] = before = values((2, m, n))
        words = (how, *flips, m, n, k, 1, 0, 0, 2, m * k, 0, *strides, adds, ends, 0)
        body(left.reshape(-1), right.reshape(-1), c.reshape(-1), *[bias] * 7, *words)
        _check_product(c, a @ b + adds * before + (bias if ends & ADDS_BIAS else 0), ends)


def _check_product(c: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], ends: int) -> None:
    low, high = 0 if ends & RECTIFIES else -np.inf, 6 if ends & CLIPS else np.inf
    np.testing.assert_allclose(c, np.clip(expected, low, high))


@pytest.mark.parametrize("n", [1, 6, 300])
def test_softmax_and_its_losses(n: int):
    rows = 3
    x, p = values((rows, n)) * 4, values((rows, n))
    shifted, e, loss, unit = np.empty((rows, n)), np.empty((rows, n)), np.empty(rows), np.empty(1)
    wanted = np.exp(x) / np.exp(x).sum(1, keepdims=True)

    softmax_loops.shift_rows(x.reshape(-1), shifted.reshape(-1), rows, n)
    np.testing.assert_allclose(shifted, x - x.max(1, keepdims=True))

    powers = np.exp(shifted)
    e[...] = powers
    softmax_loops.normalise_rows(e.reshape(-1), unit, rows, n)
    np.testing.assert_allclose(e, wanted)

    logs = shifted.copy()
    softmax_loops.subtract_logs(powers.reshape(-1), logs.reshape(-1), unit, rows, n)
    np.testing.assert_allclose(logs, np.log(wanted), atol=1e-12)

    e[...] = powers
    softmax_loops.cross_entropy(shifted.reshape(-1), p.reshape(-1), loss, e.reshape(-1), unit, rows, n)
    np.testing.assert_allclose(loss, -(p * np.log(wanted)).sum(1), atol=1e-12)
    np.testing.assert_allclose(e, wanted - p)

    labels = np.array([0, n - 1, n // 2])
    e[...] = powers
    softmax_loops.sparse_cross_entropy(shifted.reshape(-1), labels, loss, e.reshape(-1), unit, rows, n)
    np.testing.assert_allclose(loss, -np.log(wanted[np.arange(rows), labels]), atol=1e-12)
    np.testing.assert_allclose(e, wanted - np.eye(n)[labels], atol=1e-12)
    labels[1] = n
    e[...] = powers
    status = softmax_loops.sparse_cross_entropy(
        shifted.reshape(-1), labels, loss, e.reshape(-1), unit, rows, n
    )
    assert status == 1


def test_squares_and_running_sums():
    x, y = values((600,)), np.empty(600)

    nn_loops.half_square_sum(x, y, 600)
    np.testing.assert_allclose(y[0], (x * x).sum() / 2)

    cumulative.scan_sum(x, y, 2, 100, 3, 0, 0)
    np.testing.assert_allclose(y.reshape(2, 100, 3), x.reshape(2, 100, 3).cumsum(1))

    cumulative.scan_product(x, y, 2, 100, 3, 0, 1)
    np.testing.assert_allclose(y.reshape(2, 100, 3), x.reshape(2, 100, 3)[:, ::-1].cumprod(1)[:, ::-1])
