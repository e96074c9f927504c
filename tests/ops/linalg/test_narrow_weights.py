"""Products with constants that programs keep in 16 or 8 bits, against NumPy with the rounded constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.jit.panels import pack, vector_bytes
from aioexec.dtypes import bfloat16
from aioexec.errors import GraphValueError
from aioexec.graph.kernels.epilogue import ADDS_BIAS, RECTIFIES
from aioexec.graph.kernels.panels import Panels
from aioexec.ops.linalg import panel_loops
from tests.tiers import executors

Array = np.ndarray[Any, Any]
STORAGES = ["bfloat16", "float16", "int8"]

needs_panels = pytest.mark.skipif(not vector_bytes(), reason="products are left to BLAS")


def rounded(weights: Array, storage: str) -> Array:
    """The matrix that the stored one stands for."""
    if storage == "int8":
        scales = np.abs(weights).max(axis=0) / np.float32(127)
        scales[scales == 0] = 1
        return np.rint(weights / scales) * scales
    narrow = np.float16 if storage == "float16" else bfloat16.numpy
    return weights.astype(narrow).astype(np.float32)


async def product(x: Array, weights: Array, storage: str, runs: int = 3, **attrs: Any) -> Array:
    """The product of a native program, which takes the weights packed."""
    with ax.Graph().as_default() as graph:
        fed = ax.placeholder(ax.float32, x.shape)
        y = ax.nn.relu(ax.matmul(fed, ax.constant(weights), **attrs) + 0.25)
    config = ax.ConfigProto()
    config.aioexec.jit, config.aioexec.weights = "eager", storage
    async with ax.Session(graph=graph, config=config) as session:
        for _ in range(runs):
            found = await session.run(y, {fed: x})
        assert "packed constants 0 bytes" not in await session.explain(y, {fed: x})
        assert executors(session)
    return np.asarray(found)


@needs_panels
@pytest.mark.slow
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(1, 700, 1000), (2, 90, 129), (3, 450, 64), (40, 128, 200)])
async def test_products_are_those_with_rounded_weights(m, k, n, transposed, storage):
    random = np.random.default_rng(5)
    x, weights = (random.standard_normal(shape, np.float32) for shape in ((m, k), (k, n)))
    weights[:, 3] = 0

    given = np.ascontiguousarray(weights.T) if transposed else weights
    found = await product(x, given, storage, transpose_b=transposed)

    expected = np.maximum(x.astype(np.float64) @ rounded(weights, storage) + 0.25, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5 * np.sqrt(k))
    assert (
        np.abs(found - np.maximum(x @ weights + 0.25, 0)).max() > 1e-4
    )  # they are not the weights themselves


@needs_panels
@pytest.mark.parametrize(
    ("storage", "weight", "expected"),
    [
        ("bfloat16", np.inf, np.inf),
        ("float16", np.nan, np.nan),
        ("int8", np.inf, np.nan),
        ("int8", np.nan, np.nan),
    ],
)
async def test_a_weight_that_is_not_finite_changes_its_column_alone(storage, weight, expected):
    weights = np.ones((300, 40), np.float32)
    weights[7, 5] = weight
    found = await product(np.ones((1, 300), np.float32), weights, storage, runs=2)
    np.testing.assert_array_equal(found[0, 5], expected)
    np.testing.assert_allclose(np.delete(found[0], 5), 300.25)


@needs_panels
def test_int8_weights_whose_scale_is_subnormal_keep_their_sign():
    unit = np.finfo(np.float32).smallest_subnormal
    matrix = (
        np.array([[190, 30], [-190, -30]], np.float32) * unit
    )  # a 127th is 1.496 units, and less than half a one
    packed = pack(matrix, Panels(rows=2, columns=2, storage="int8"))
    wide = len(packed) // 2
    assert packed.view(np.int8).reshape(2, wide)[:, :2].tolist() == [[127, 127], [-127, -127]]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("m", "n", "k"), [(1, 8, 3), (1, 37, 130), (2, 40, 300), (5, 33, 128)])
def test_the_loop_runs_as_plain_python(m, n, k, storage):
    random = np.random.default_rng(3)
    wide = 8  # the columns of a panel in plain Python
    a, b, bias = (random.standard_normal(shape, np.float32) for shape in ((m, k), (k, n), (n,)))
    panels = np.zeros((-(-n // wide), k, wide), np.float32)
    for j in range(n):
        panels[j // wide, :, j % wide] = b[:, j]
    scales = np.full(n, 1, np.float32)
    stored: Array
    if storage == "int8":
        scales = np.abs(b).max(axis=0) / np.float32(127)
        by_panel = np.ones(len(panels) * wide, np.float32)
        by_panel[:n] = scales
        stored = np.rint(panels / by_panel.reshape(-1, 1, wide)).astype(np.int8)
    elif storage == "float16":
        stored = panels.astype(np.float16).view(np.int16)
    else:
        stored = panels.astype(bfloat16.numpy).view(np.uint16)
    c, piece = np.full((m, n + 1), 7, np.float32), np.zeros(400 * wide, np.float32)

    body: Any = panel_loops.multiply_narrow_panels
    words = (m, n, k, k, n + 1, int(storage == "int8"), ADDS_BIAS + RECTIFIES, 0)
    body(a.reshape(-1), stored.reshape(-1), c.reshape(-1), scales, bias, *[bias] * 6, piece, *words)

    expected = np.maximum(a @ rounded(b, storage) + bias, 0)
    np.testing.assert_allclose(c[:, :n], expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(c[:, n], 7)


async def test_an_unknown_storage_is_refused():
    config = ax.ConfigProto()
    config.aioexec.weights = "int4"
    with pytest.raises(GraphValueError, match=r"weights: expected one of .*int8.*got 'int4'"):
        ax.Session(graph=ax.Graph(), config=config)
