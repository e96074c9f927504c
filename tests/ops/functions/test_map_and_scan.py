"""Loops over rows: map_fn, scan, foldl, foldr; agreement with TensorFlow is tested in interop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from tests.tiers import Tier, tier as tier

X = np.array([1.0, 2.0, 3.0, 4.0], np.float32)


@pytest.fixture(autouse=True)
def graph() -> Iterator[Graph]:
    with Graph().as_default() as made:
        yield made


@pytest.fixture
def x() -> Tensor:
    return ax.placeholder(ax.float32, [None])


async def test_each_row_is_mapped(tier: Tier, graph: Graph, x: Tensor):
    fetches = {
        "one": ax.map_fn(lambda each: each * 2.0, x),
        "pair": ax.map_fn(lambda pair: (pair[0] + pair[1], pair[0]), (x, x * x)),
        "typed": ax.map_fn(lambda each: {"whole": ax.cast(each, ax.int32)}, x, dtype={"whole": ax.int32}),
    }
    async with tier.session(graph) as session:
        for rows in (X, X[:1], X[:0], X):
            found = await session.run(fetches, {x: rows})

            np.testing.assert_array_equal(found["one"], rows * 2)
            np.testing.assert_array_equal(found["pair"], (rows + rows * rows, rows))
            np.testing.assert_array_equal(found["typed"]["whole"], rows.astype(np.int32))


async def test_scans_and_folds_accumulate_from_either_end(tier: Tier, graph: Graph, x: Tensor):
    def minus(total: Any, each: Any) -> Any:
        return total - each

    fetches = {
        "scan": ax.scan(minus, x),
        "from": ax.scan(minus, x, initializer=10.0),
        "back": ax.scan(minus, x, initializer=10.0, reverse=True),
        "left": [ax.foldl(minus, x), ax.foldl(minus, x, initializer=10.0)],
        "right": [ax.foldr(minus, x), ax.foldr(minus, x, initializer=10.0)],
        "pair": ax.foldl(
            lambda state, each: {"n": state["n"] + 1, "sum": state["sum"] + each}, x, {"n": 0, "sum": 0.0}
        ),
    }
    async with tier.session(graph) as session:
        found = await session.run(fetches, {x: X})

    np.testing.assert_array_equal(found["scan"], [1, -1, -4, -8])
    np.testing.assert_array_equal(found["from"], [9, 7, 4, 0])
    np.testing.assert_array_equal(found["back"], [0, 1, 3, 6])
    assert found["left"] == [-8.0, 0.0]
    assert found["right"] == [-2.0, 0.0]
    assert found["pair"] == {"n": 4, "sum": 10.0}


def test_shapes_are_known_as_far_as_those_of_the_elements():
    known, rows = ax.placeholder(ax.float32, [3, 2]), ax.placeholder(ax.float32, [None, 2])

    assert ax.map_fn(ax.reduce_sum, known).shape.as_list() == [3]
    assert ax.map_fn(lambda row: row, rows).shape.as_list() == [None, 2]
    assert ax.map_fn(lambda row: row[0], (rows, known), dtype=ax.float32).shape.as_list() == [3, 2]
    assert ax.scan(lambda total, row: total + row, known).shape.as_list() == [3, 2]
    assert ax.map_fn(lambda row: row, known, infer_shape=False).shape.ndims is None


def test_arguments_that_are_refused(x: Tensor):
    functions: list[Any] = [ax.map_fn, ax.scan, ax.foldl, ax.foldr]
    for function in functions:
        with pytest.raises(GraphTypeError, match="fn must be callable"):
            function(3, x)
        with pytest.raises(GraphValueError, match="must be 1\\+ dimensional"):
            function(lambda *each: each[-1], ax.constant(1.0))
        with pytest.raises(GraphValueError, match="Dimensions 3 and 2 are not compatible"):
            function(lambda *each: each[-1], (ax.zeros([3]), ax.zeros([2])))
    with pytest.raises(GraphTypeError, match="SparseTensors"):
        ax.map_fn(lambda row: row, ax.SparseTensor([[0]], [1.0], [2]))
    with pytest.raises(GraphValueError, match="don't have the same nested structure"):
        ax.map_fn(lambda row: (row, row), x)
    with pytest.raises(GraphValueError, match="don't have the same nested structure"):
        ax.scan(lambda state, row: state[0], x, initializer=(0.0, 1.0))


async def test_nothing_to_begin_with_is_an_error(tier: Tier, graph: Graph, x: Tensor):
    total = ax.foldl(lambda total, each: total + each, x)
    async with tier.session(graph) as session:
        with pytest.raises(InvalidArgumentError, match="Tried to read from"):
            await session.run(total, {x: X[:0]})
