"""Lookup tables: immutable, mutable, and dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec import dtypes
from aioexec.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
)
from aioexec.resources.dense_table import DenseHashTable
from aioexec.resources.tables import HashTable, MutableHashTable, MutableHashTableOfTensors


def texts(*values: str) -> Any:
    return np.array([value.encode() for value in values], object)


def integers(*values: int) -> Any:
    return np.array(values, np.int64)


def filled() -> HashTable:
    made = HashTable("t", dtypes.string, dtypes.int64)
    made.initialize(texts("a", "b"), integers(1, 2))
    return made


# Filled once


def test_keys_that_are_not_there_have_the_default():
    found = filled().find(texts("b", "x").reshape(2, 1), np.int64(-1))

    assert found.dtype == np.int64
    assert found.tolist() == [[2], [-1]]


def test_a_table_is_looked_up_only_when_it_is_filled():
    made = HashTable("t", dtypes.string, dtypes.int64)

    assert made.size == 0
    with pytest.raises(FailedPreconditionError, match="Table not initialized"):
        made.find(texts("a"), np.int64(0))
    with pytest.raises(AbortedError, match="is not initialized"):
        made.export()


def test_a_table_is_filled_once_and_again_only_with_as_much():
    made = filled()

    made.initialize(texts("c", "d"), integers(3, 4))
    with pytest.raises(FailedPreconditionError, match="already initialized with different data"):
        made.initialize(texts("c"), integers(3))

    assert made.export()[0].tolist() == [b"a", b"b"]
    for change in (made.insert, lambda keys, values: made.remove(keys)):
        with pytest.raises(UnimplementedError, match="not supported by InitializableLookupTable"):
            change(texts("c"), integers(1))


def test_a_key_has_one_value():
    made = HashTable("t", dtypes.string, dtypes.int64)

    with pytest.raises(FailedPreconditionError, match="Key a has 1 and trying to add value 2"):
        made.initialize(texts("a", "a"), integers(1, 2))
    assert not made.is_initialized
    made.initialize(texts("a", "a"), integers(1, 1))
    assert made.size == 1


@pytest.mark.parametrize(
    ("keys", "values", "message"),
    [
        (texts("a", "b"), integers(1), "same size 2 vs 1"),
        (texts("a").reshape(1, 1), integers(1).reshape(1, 1), "must be a vector"),
        (texts(), integers(), "cannot be empty"),
    ],
)
def test_what_a_table_is_filled_with_must_fit(keys: Any, values: Any, message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        HashTable("t", dtypes.string, dtypes.int64).initialize(keys, values)


# Changed


def test_a_mutable_table_takes_forgets_and_replaces():
    made = MutableHashTable("t", dtypes.int64, dtypes.string)
    made.insert(integers(1, 2, 1), texts("x", "y", "z"))
    assert made.find(integers(1, 2, 3), texts("?").reshape(())).tolist() == [b"z", b"y", b"?"]

    made.remove(integers(1, 9))
    assert made.size == 1
    made.replace(integers(5), texts("five"))

    keys, values = made.export()
    assert (keys.tolist(), values.tolist()) == ([5], [b"five"])
    assert (keys.dtype, values.dtype) == (np.int64, object)


def test_a_default_may_be_one_for_all_or_one_for_each():
    made = MutableHashTable("t", dtypes.int64, dtypes.float32)

    assert made.find(integers(1, 2), np.float32([3, 4])).tolist() == [3, 4]
    with pytest.raises(
        InvalidArgumentError, match=r"Expected shape \[\] or \[2\] for default value, got \[3\]"
    ):
        made.find(integers(1, 2), np.float32([3, 4, 5]))


def test_values_may_be_vectors():
    made = MutableHashTableOfTensors("t", dtypes.int64, dtypes.float32, (2,))
    values = np.float32([[1, 2], [3, 4]])
    made.insert(integers(1, 2), values)
    values[:] = 9

    assert made.find(integers(2, 7), np.float32([0, -1])).tolist() == [[3, 4], [0, -1]]
    assert made.export()[1].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(InvalidArgumentError, match=r"Expected shape \[1,2\] for value, got \[1,3\]"):
        made.insert(integers(1), np.ones((1, 3), np.float32))


@pytest.mark.parametrize("dims", [(), (2, 2)])
def test_a_table_of_tensors_has_vectors(dims: Any):
    with pytest.raises(InvalidArgumentError, match="Default value must be a vector"):
        MutableHashTableOfTensors("t", dtypes.int64, dtypes.float32, dims)


def test_shapes_of_values_are_known():
    with pytest.raises(InvalidArgumentError, match="not fully defined"):
        MutableHashTable("t", dtypes.int64, dtypes.float32, (None,))


# The dense layout


def dense(buckets: int = 4, **options: Any) -> DenseHashTable:
    given = {"empty_key": np.int64(0), "deleted_key": np.int64(-1), **options}
    given = {
        name: np.asarray(each) if name.endswith("key") and each is not None else each
        for name, each in given.items()
    }
    return DenseHashTable("t", dtypes.int64, dtypes.int64, buckets=buckets, **given)


def test_a_dense_table_shows_its_buckets():
    made = dense(8)
    made.insert(integers(5, 6, 13), integers(50, 60, 130))
    made.remove(integers(6))

    keys, values = made.export()

    assert keys.shape == values.shape == (8, 1)
    assert keys.reshape(-1).tolist() == [13, 0, 0, 0, 0, 5, -1, 0]
    assert values.reshape(-1).tolist() == [130, 0, 0, 0, 0, 50, 60, 0]
    assert made.find(integers(5, 13, 6), np.int64(-7)).tolist() == [50, 130, -7]


@pytest.mark.parametrize("verb", ["find", "insert", "remove"])
@pytest.mark.parametrize(("key", "message"), [(0, "empty_key"), (-1, "deleted_key")])
def test_two_keys_are_set_apart(verb: str, key: int, message: str):
    made = dense()
    arguments = {"find": [np.int64(1)], "insert": [integers(1)], "remove": []}[verb]

    with pytest.raises(InvalidArgumentError, match=f"Using the {message} as a table key is not allowed"):
        getattr(made, verb)(integers(key), *arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deleted_key": 0}, "cannot be equal"),
        ({"deleted_key": [1, 2]}, r"must have same shape, got shapes: \[\] and \[2\]"),
        ({"empty_key": [[0]], "deleted_key": [[1]]}, "must be a scalar or a vector"),
        ({"buckets": 3}, "at least 4 and a power of 2, got: 3"),
        ({"max_load_factor": 1.0}, "must be between 0 and 1, got: 1"),
        ({"value_dims": (2, 2)}, "must be a scalar or a vector"),
    ],
)
def test_a_dense_table_is_made_as_it_must_be(options: dict[str, Any], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        dense(**options)


def test_without_a_deleted_key_nothing_is_removed():
    with pytest.raises(InvalidArgumentError, match="has no deleted_key"):
        dense(deleted_key=None).remove(integers(1))


def test_keys_may_be_vectors():
    made = dense(empty_key=[0, 0], deleted_key=[-1, -1])
    keys = np.array([[1, 2], [3, 4]])
    made.insert(keys, integers(5, 6))

    assert made.find(np.array([[3, 4], [4, 3]]), np.int64(0)).tolist() == [6, 0]
    for bad in (np.array([1, 2]), np.array([[1, 2, 3]])):
        with pytest.raises(InvalidArgumentError, match="key shape"):
            made.find(bad, np.int64(0))


def test_what_is_exported_can_be_imported():
    made, other = dense(), dense()
    made.insert(integers(*range(1, 30)), integers(*range(101, 130)))
    keys, values = made.export()

    other.replace(keys, values.reshape(-1))

    other.check_invariants()
    assert other.find(integers(1, 29, 30), np.int64(0)).tolist() == [101, 129, 0]


def test_absurdly_many_buckets_are_not_exported():
    made = dense(1 << 40)
    made.insert(integers(1), integers(1))

    with pytest.raises(ResourceExhaustedError, match="buckets to export"):
        made.export()


def test_a_dense_table_takes_back_what_it_exported():
    made, other = dense(8), dense(8)
    made.insert(integers(3, 4), integers(30, 40))

    other.replace(*made.export())

    assert other.size == 2
    assert other.find(integers(4, 3, 5), np.array(0)).tolist() == [40, 30, 0]


@given(st.lists(st.tuples(st.sampled_from(["insert", "remove", "replace"]), st.integers(1, 40)), max_size=60))
def test_a_dense_table_is_a_dict(events: list[tuple[str, int]]):
    made, expected = dense(), dict[int, int]()

    for k, (verb, key) in enumerate(events):
        if verb == "insert":
            made.insert(integers(key, key + 8), integers(k, k))
            expected |= {key: k, key + 8: k}
        elif verb == "remove":
            made.remove(integers(key))
            expected.pop(key, None)
        else:
            made.replace(integers(key), integers(k))
            expected = {key: k}
        made.check_invariants()

    assert made.size == len(expected)
    keys, values = made.export()
    shown = zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True)
    assert {key: value for key, value in shown if key > 0} == expected


def test_the_keys_of_a_dense_table_stay_where_they_are_while_there_is_room(monkeypatch: pytest.MonkeyPatch):
    table = dense(buckets=8)
    monkeypatch.delattr(DenseHashTable, "_in_bucket_order")

    table.insert(np.array([1, 2]), np.array([10, 20]))
    table.insert(np.array([3]), np.array([30]))

    table.check_invariants()
    assert table.size == 3
