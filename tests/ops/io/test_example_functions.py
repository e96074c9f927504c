"""`parse_example` and `parse_single_example`: features of Examples under their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, InvalidArgumentError
from tests.ops.io.example_bytes import example

WANTED = {
    "a": ax.FixedLenFeature([2], ax.float32),
    "i": ax.FixedLenFeature([], ax.int64, 7),
    "s": ax.VarLenFeature(ax.string),
    "v": ax.FixedLenSequenceFeature([], ax.int64, allow_missing=True, default_value=-1),
}
ROWS = [example(a=[1.0, 2.0], s=[b"x"], v=[1, 2]), example(a=[3.0, 4.0], i=[5], v=[3])]


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def run(fetches: Any, feeds: Any = None) -> Any:
    async with ax.Session() as session:
        return await session.run(fetches, feeds)


async def test_a_batch_gives_dense_sparse_and_padded_features():
    found = await run(ax.parse_example(ROWS, WANTED))

    assert found["a"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert found["i"].tolist() == [7, 5]
    assert found["s"].values.tolist() == [b"x"]
    assert found["s"].dense_shape.tolist() == [2, 1]
    assert found["v"].tolist() == [[1, 2], [3, -1]]


async def test_a_single_example_has_no_batch_dimension():
    fed = ax.placeholder(ax.string, [])
    found = await run(ax.parse_single_example(fed, WANTED), {fed: ROWS[1]})

    assert found["a"].tolist() == [3.0, 4.0]
    assert found["i"].tolist() == 5
    assert found["s"].indices.shape == (0, 1)
    assert found["v"].tolist() == [3]


async def test_shapes_are_known_as_far_as_the_features_say():
    parsed = ax.parse_example(ax.placeholder(ax.string, [None]), WANTED)

    assert parsed["a"].shape.as_list() == [None, 2]
    assert parsed["v"].shape.as_list() == [None, None]
    assert parsed["s"].indices.shape.as_list() == [None, 2]


async def test_a_missing_feature_is_named_with_its_example():
    parsed = ax.parse_example([example()], {"a": WANTED["a"]}, example_names=["first"])

    with pytest.raises(
        InvalidArgumentError, match=r"Name: first, Feature: a \(data type: float\) is required"
    ):
        await run(parsed)


@pytest.mark.parametrize(
    ("feature", "problem"),
    [
        (ax.FixedLenFeature([2], ax.float64), "float64"),
        (ax.FixedLenFeature([None], ax.float32), "defined shape"),
        (ax.FixedLenFeature(None, ax.float32), "a shape"),
        (ax.VarLenFeature(None), "a dtype"),
        (ax.FixedLenSequenceFeature([], ax.float32), "allow_missing"),
        (np.float32, "VarLenFeature"),
    ],
)
def test_a_feature_that_lacks_something_is_refused(feature, problem):
    with pytest.raises(GraphValueError, match=problem):
        ax.parse_example([b""], {"a": feature})


def test_no_features_and_a_batch_for_one_are_refused():
    with pytest.raises(GraphValueError, match="features"):
        ax.parse_example([b""], {})
    with pytest.raises(GraphValueError, match="rank 0"):
        ax.parse_single_example([b""], WANTED)


async def test_indices_and_values_give_one_sparse_tensor():
    rows = [example(i=[2, 0], v=[5, 6]), example()]
    parsed = ax.parse_example(rows, {"s": ax.SparseFeature("i", "v", ax.int64, 4)})
    found = await run(parsed["s"])

    assert list(parsed) == ["s"]
    assert found.indices.tolist() == [[0, 0], [0, 2]]
    assert found.values.tolist() == [6, 5]
    assert found.dense_shape.tolist() == [2, 4]


def test_one_key_is_not_read_in_two_ways():
    whole = ax.SparseFeature("i", "v", ax.float32, 4)

    with pytest.raises(GraphValueError, match="Conflicting type"):
        ax.parse_example([b""], {"s": whole, "v": ax.VarLenFeature(ax.int64)})
    with pytest.raises(GraphValueError, match="must not intersect"):
        ax.parse_example([b""], {"s": whole, "v": ax.FixedLenFeature([1], ax.float32)})
