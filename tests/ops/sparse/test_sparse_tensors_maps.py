"""Maps of sparse tensors: each is taken once, from the map with its name, and checked for its type."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.graph.apply import apply_op
from aioexec.ops.sparse.tensors_maps import (
    add_many_sparse_to_tensors_map,
    add_sparse_to_tensors_map,
    take_many_sparse_from_tensors_map,
)
from aioexec.resources.sparse_tensors_map import SparseTensorsMap


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def sparse() -> ax.SparseTensor:
    return ax.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 2])


async def test_sparse_tensors_come_back_joined_and_as_large_as_the_largest():
    first = add_sparse_to_tensors_map(sparse(), shared_name="kept")
    other = ax.SparseTensor([[4, 4]], [3.0], [5, 6])
    second = add_sparse_to_tensors_map(other, shared_name="kept")
    taken = take_many_sparse_from_tensors_map(first.op, [1, 0], rank=3)
    assert taken.indices.shape.as_list() == [None, 3]
    async with ax.Session() as session:
        assert await session.run(first) == 0
        assert await session.run(second) == 1

        value = await session.run(taken)

    assert value.indices.tolist() == [[0, 4, 4], [1, 0, 1], [1, 2, 0]]
    assert value.values.tolist() == [3.0, 1.0, 2.0]
    assert value.dense_shape.tolist() == [2, 5, 6]


async def test_the_first_dimension_goes_over_tensors_that_are_put_by_one_by_one():
    added = add_many_sparse_to_tensors_map(sparse())
    handles = ax.placeholder(ax.int64, [None])
    taken = take_many_sparse_from_tensors_map(added.op, handles)
    async with ax.Session() as session:
        numbers = await session.run(added)

        last_and_middle = await session.run(taken, {handles: numbers[[2, 1]]})

    assert sorted(numbers.tolist()) == [0, 1, 2]
    assert last_and_middle.indices.tolist() == [[0, 0]]
    assert last_and_middle.values.tolist() == [2.0]
    assert last_and_middle.dense_shape.tolist() == [2, 2]


async def test_what_was_taken_out_is_there_no_more():
    added = add_sparse_to_tensors_map(sparse(), shared_name="kept")
    taken = take_many_sparse_from_tensors_map(added.op, [0])
    async with ax.Session() as session:
        await session.run(added)
        await session.run(taken)

        with pytest.raises(InvalidArgumentError, match="Unable to find SparseTensor: 0 in map: kept"):
            await session.run(taken)


async def test_what_is_put_by_does_not_change_with_what_was_fed():
    values = np.array([1.0, 2.0], np.float32)
    fed = ax.placeholder(ax.float32, [2])
    added = add_sparse_to_tensors_map(ax.SparseTensor([[0], [1]], fed, [2]))
    taken = take_many_sparse_from_tensors_map(added.op, [0])
    async with ax.Session() as session:
        await session.run(added, {fed: values})
        values[:] = 7

        assert (await session.run(taken)).values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("indices", "values", "shape", "error"),
    [
        ([[0, 0]], [1.0, 2.0], [1, 1], InvalidArgumentError),
        ([[0]], [1.0], [1, 1], InvalidArgumentError),
        ([[0, 0], [0, 0]][::-1], [1.0, 2.0], [1], InvalidArgumentError),
        ([[1, 0], [0, 0]], [1.0, 2.0], [2, 2], InvalidArgumentError),
        ([[5, 0]], [1.0], [2, 2], InvalidArgumentError),
        (np.zeros((0, 2), np.int64), [], [1 << 40, 1], ResourceExhaustedError),
    ],
    ids=["too many values", "rank", "shape", "order", "outside", "absurd"],
)
async def test_parts_that_do_not_fit_are_refused(indices, values, shape, error):
    parts = [ax.placeholder(dtype) for dtype in (ax.int64, ax.float32, ax.int64)]
    added = apply_op("AddManySparseToTensorsMap", *parts)
    async with ax.Session() as session:
        with pytest.raises(error):
            await session.run(added, dict(zip(parts, (indices, values, shape), strict=True)))


def test_numbers_never_come_again():
    held = SparseTensorsMap[str]("m")

    assert [held.add("a"), held.add("b")] == [0, 1]
    assert held.take(0) == "a"
    assert held.add("c") == 2
    assert len(held) == 2
