"""safe_embedding_lookup_sparse: invalid ids, empty rows, weights and higher ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError

TABLE = np.arange(1.0, 9.0, dtype=np.float32).reshape(4, 2)
INDICES = [[0, 0], [0, 1], [1, 0], [3, 0], [3, 1], [3, 2]]
IDS = [1, 3, -1, 2, 2, 0]
WEIGHTS = [2.0, 0.5, 1.0, -1.0, 3.0, 1.0]


async def looked_up(ids: Any, weights: Any = None, **arguments: Any) -> Any:
    with ax.Graph().as_default() as graph:
        table = arguments.pop("table", ax.constant(TABLE))
        found = ax.nn.safe_embedding_lookup_sparse(table, ids(), weights and weights(), **arguments)
    async with ax.Session(graph=graph) as session:
        return await session.run(found)


def ids() -> ax.SparseTensor:
    return ax.SparseTensor(INDICES, np.array(IDS, np.int64), [4, 3])


def weights() -> ax.SparseTensor:
    return ax.SparseTensor(INDICES, np.array(WEIGHTS, np.float32), [4, 3])


async def test_rows_without_valid_ids_are_zero():
    found = await looked_up(ids)

    np.testing.assert_allclose(
        found, [(TABLE[1] + TABLE[3]) / 2, [0, 0], [0, 0], (2 * TABLE[2] + TABLE[0]) / 3]
    )


async def test_rows_without_valid_ids_get_the_default():
    found = await looked_up(ids, combiner="sum", default_id=3)

    np.testing.assert_allclose(found, [TABLE[1] + TABLE[3], TABLE[3], TABLE[3], 2 * TABLE[2] + TABLE[0]])


async def test_ids_need_positive_weights_unless_weights_are_summed():
    means = await looked_up(ids, weights)
    sums = await looked_up(ids, weights, combiner="sum")

    first, last = 2 * TABLE[1] + 0.5 * TABLE[3], 3 * TABLE[2] + TABLE[0]
    np.testing.assert_allclose(means, [first / 2.5, [0, 0], [0, 0], last / 4])
    np.testing.assert_allclose(sums, [first, [0, 0], [0, 0], last - TABLE[2]])


async def test_the_last_of_more_dimensions_is_combined():
    def deep() -> ax.SparseTensor:
        return ax.SparseTensor([[0, 0, 0], [0, 1, 0], [0, 1, 1]], np.array([0, 1, 2], np.int64), [2, 2, 2])

    found = await looked_up(deep, combiner="sum")

    np.testing.assert_allclose(found, [[TABLE[0], TABLE[1] + TABLE[2]], [[0, 0], [0, 0]]])


async def test_partitions_are_contiguous():
    found = await looked_up(ids, table=[TABLE[:2], TABLE[2:]], combiner="sum")

    np.testing.assert_allclose(found[3], 2 * TABLE[2] + TABLE[0])


async def test_a_rank_may_be_known_only_at_run_time():
    with ax.Graph().as_default() as graph:
        fed = ax.sparse_placeholder(ax.int64)
        found = ax.nn.safe_embedding_lookup_sparse(ax.constant(TABLE), fed, combiner="sum")
    async with ax.Session(graph=graph) as session:
        value = ax.SparseTensorValue(np.array([[0, 1]]), np.array([2]), np.array([1, 2]))
        np.testing.assert_allclose(await session.run(found, {fed: value}), [TABLE[2]])


def test_a_table_is_required():
    with ax.Graph().as_default(), pytest.raises(GraphValueError, match="Missing embedding_weights"):
        ax.nn.safe_embedding_lookup_sparse(None, ids())
