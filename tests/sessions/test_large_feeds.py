"""Feeds of 2 GiB and more, with offsets and counts beyond 32 bits; each case takes up to 6 GiB for some seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tiers import Tier, constant, feed, graph, op, programs

pytestmark = [
    pytest.mark.sweep,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("tier", ["reference", "worker"], indirect=True),
]

WORDS = 2**29 + 1024
"""Elements of float32 whose bytes do not fit into 31 bits; of these that, and some behind, their offsets neither."""
ITEMS = 2**31 + 4096
"""Elements that cannot be counted with 31 bits."""
PLACES = [0, 1, 2**29 - 1, 2**29, -2, -1]


def ramp(shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers that repeat, but not in step with any power of two."""
    size = int(np.prod(shape))
    return np.resize(np.arange(251, dtype=np.float32), size).reshape(shape)


async def test_elements_and_their_sum(tier: Tier):
    with graph() as g:
        x = feed([None])
        fetches = [op("Mul", x, constant(2.0)), op("Max", x, constant([0], "int32"))]
    array = ramp((WORDS,))
    array[-1] = 1000

    async with tier.session(g) as session:
        doubled, largest = await session.run(fetches, {x: array})
        assert tier.is_native == bool(programs(session))

    assert largest == 1000
    for start in (*range(0, WORDS - 2**20, 2**26), WORDS - 2**20):
        part = slice(start, start + 2**20)
        np.testing.assert_array_equal(doubled[part], array[part] * 2)


async def test_more_elements_than_31_bits_count(tier: Tier):
    with graph() as g:
        x = feed([None], "bool")
        y = op("LogicalNot", x)
    array = np.zeros(ITEMS, np.bool_)
    array[[*PLACES, 2**31 - 1, 2**31]] = True

    async with tier.session(g) as session:
        result = await session.run(y, {x: array})

    assert result.size == ITEMS
    assert ITEMS - np.count_nonzero(result) == len(PLACES) + 2
    assert not result[[*PLACES, 2**31 - 1, 2**31]].any()


async def test_reductions_along_either_dimension(tier: Tier):
    with graph() as g:
        x = feed([None, None])
        fetches = [op("Sum", x, constant([k], "int32")) for k in (0, 1)]
    array = ramp((2**9 + 1, 2**20 + 2))

    async with tier.session(g) as session:
        columns, rows = await session.run(fetches, {x: array})

    np.testing.assert_allclose(columns, sum(row.astype(np.float64) for row in array), rtol=1e-5)
    np.testing.assert_allclose(rows, [row.sum(dtype=np.float64) for row in array], rtol=1e-4)


async def test_rows_picked_from_far_behind(tier: Tier):
    with graph() as g:
        x, indices = feed([None, None]), feed([None], "int64")
        y = op("GatherV2", x, indices, constant(0, "int32"))
    array = ramp((WORDS // 1024, 1024))
    chosen = np.array(PLACES[:2] + [len(array) - 1, len(array) // 2, len(array) - 2])

    async with tier.session(g) as session:
        result = await session.run(y, {x: array, indices: chosen})

    np.testing.assert_array_equal(result, array[chosen])


async def test_a_product_of_very_many_rows(tier: Tier):
    with graph() as g:
        a, b = feed([None, 4]), feed([4, 1])
        product = op("MatMul", a, b)
    rows, weights = ramp((WORDS // 4, 4)), np.array([[1], [2], [3], [4]], np.float32)

    async with tier.session(g) as session:
        result = await session.run(product, {a: rows, b: weights})

    for start in (*range(0, len(rows) - 2**16, 2**24), len(rows) - 2**16):
        part = slice(start, start + 2**16)
        np.testing.assert_array_equal(result[part], rows[part] @ weights)


async def test_a_transpose_and_a_slice_of_it(tier: Tier):
    with graph() as g:
        x = feed([None, None])
        turned = op("Transpose", x, constant([1, 0], "int32"))
        y = op("Slice", turned, constant([0, 5], "int32"), constant([-1, 3], "int32"))
    array = ramp((2**9 + 1, 2**20 + 2))

    async with tier.session(g) as session:
        result = await session.run(y, {x: array})

    np.testing.assert_array_equal(result, array.T[:, 5:8])


async def test_large_indices(tier: Tier):
    """They are the step's own: copied off the loop."""
    with graph() as g:
        x, indices = feed([None]), feed([None], "int16")
        y: Any = op("Max", op("GatherV2", x, indices, constant(0, "int32")), constant([0], "int32"))
    chosen = np.zeros(2**26, np.int16)
    chosen[-1] = 3

    async with tier.session(g) as session:
        assert await session.run(y, {x: [1.0, 2.0, 3.0, 4.0], indices: chosen}) == 4
