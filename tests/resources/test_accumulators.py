"""Conditional accumulators: sums and means, stale gradients, slices, and cancelled callers."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError
from aioexec.resources.accumulators import Dense, DenseAccumulator, Sparse, SparseAccumulator
from aioexec.resources.waiting import Attempt


def dense(dims: Any = (2,)) -> DenseAccumulator:
    return DenseAccumulator("a", dtypes.float32, dims)


def gradient(*values: float) -> Dense:
    return Dense(np.float32(values), 1)


def slices(indices: list[int], values: Any, dtype: Any = np.float32, width: int = 1) -> Sparse:
    at = np.array(indices, np.int64)
    return Sparse(at, np.array(values, dtype).reshape(-1, width), np.ones(len(at), np.int64), 1)


def waits(outcome: Any) -> Attempt:
    assert isinstance(outcome, Attempt)
    assert not outcome.is_done
    return outcome


def test_gradients_are_taken_once_there_are_enough_and_the_next_step_begins():
    made = dense()
    waiting = waits(made.take(2))
    made.apply(0, gradient(1, 2))
    made.apply(3, gradient(3, 4))

    assert waiting.outcome().mean().tolist() == [2, 3]
    assert waiting.outcome().sum().tolist() == [4, 6]
    assert (made.count, made.step) == (0, 1)
    made.apply(0, gradient(1, 1))
    assert made.count == 0
    made.set_global_step(0)
    made.apply(0, gradient(1, 1))
    assert made.count == 1


def test_who_takes_first_is_served_first():
    made = dense()
    first, second = waits(made.take(2)), waits(made.take(1))

    for k in range(3):
        made.apply(9, gradient(k, k))
        made.check_invariants()

    assert first.outcome().count == 2
    assert second.outcome().sum().tolist() == [2, 2]


def test_a_sum_that_was_made_elsewhere_is_refused_if_another_gradient_came_between():
    made = dense()
    made.apply(0, gradient(1, 1))
    base = made.gradients
    total = base.plus(gradient(2, 2))
    made.apply(0, gradient(5, 5))

    assert not made.offer(base, total)
    assert made.offer(made.gradients, made.gradients.plus(gradient(2, 2)))
    assert made.take(3).sum().tolist() == [8, 8]


def test_what_came_to_nothing_is_added_to_what_has_come_since():
    made = dense()
    taking = waits(made.take(1))
    made.apply(0, gradient(1, 1))
    made.apply(1, gradient(2, 2))

    made.undo(taking)

    assert (made.count, made.step) == (2, 0)
    assert made.take(2).mean().tolist() == [1.5, 1.5]


def test_who_leaves_takes_nothing():
    made = dense()
    gone, staying = waits(made.take(1)), waits(made.take(1))
    made.withdraw(gone)

    made.apply(0, gradient(1, 1))

    assert staying.is_done


@pytest.mark.parametrize("required", [0, -1])
def test_some_gradients_must_be_required(required: int):
    with pytest.raises(InvalidArgumentError, match=f"num_required must be positive, but was {required}"):
        dense().take(required)


def test_a_gradient_must_be_of_the_shape_declared_and_of_that_of_the_others():
    with pytest.raises(InvalidArgumentError, match=r"Shape mismatch: expected \[2\], got \[3\]"):
        dense().check(np.float32([1, 2, 3]))
    with pytest.raises(InvalidArgumentError, match=r"expected \[\?,2\], got \[2\]"):
        dense((None, 2)).check(np.float32([1, 2]))
    free = dense(None)
    free.check(np.float32([1]))
    free.apply(0, gradient(1))
    with pytest.raises(InvalidArgumentError, match=r"expected \[1\], got \[2\]"):
        free.check(np.float32([1, 2]))


def test_the_mean_of_integers_and_small_floats_is_of_their_dtype():
    assert Dense(np.int32([7]), 2).mean().tolist() == [3]
    assert Dense(np.float16([7]), 2).mean().dtype == np.float16


# Slices


@pytest.mark.parametrize(
    ("first", "second", "indices", "values"),
    [
        ([0, 2], [1, 2], [0, 1, 2], [1, 3, 3]),
        ([3, 1], [1, 3], [1, 3, 1], [3, 2.5, 2]),
        ([3, 1], [3, 1], [3, 1], [2, 3]),
        ([1, 1], [1], [1, 1], [2, 2]),
        ([], [2], [2], [3]),
    ],
)
def test_slices_are_averaged_each_by_how_often_it_came(
    first: list[int], second: list[int], indices: list[int], values: list[float]
):
    given_ = slices(first, np.arange(1, 1 + len(first))), slices(second, np.arange(3, 3 + len(second)))

    total = given_[0].plus(given_[1])

    assert total.count == 2
    assert total.indices.tolist() == indices
    assert total.mean().reshape(-1).tolist() == values


@given(st.lists(st.lists(st.integers(0, 9), unique=True), min_size=1, max_size=5))
def test_slices_in_order_add_up_as_in_a_dict(lists: list[list[int]]):
    expected: dict[int, list[int]] = defaultdict(list)
    total: Any = None
    for k, indices in enumerate(sorted(each) for each in lists):
        for index in indices:
            expected[index].append(index + k)
        one = slices(indices, [[index + k] for index in indices], np.float64)
        total = one if total is None else total.plus(one)

    assert total.count == len(lists)
    assert total.indices.tolist() == sorted(expected)
    np.testing.assert_allclose(
        total.mean().reshape(-1), [np.mean(expected[index]) for index in sorted(expected)]
    )
    assert total.sum().reshape(-1).tolist() == [sum(expected[index]) for index in sorted(expected)]


def sparse() -> SparseAccumulator:
    return SparseAccumulator("s", dtypes.float32, (4, 2))


@pytest.mark.parametrize(
    ("indices", "values", "shape", "message"),
    [
        ([[0]], [[1, 1]], None, r"Input indices should be vector but received shape: \[1,1\]"),
        ([0], 1, None, "Values cannot be 0-dimensional"),
        ([0, 1], [[1, 1]], None, "Expected 2 non-empty input values, got 1"),
        ([0], [[1, 1]], [4], "expected shape rank at least 2, got 1"),
        ([0], [[1, 1]], [5, 2], "expected shape dim 0 to be 4, got 5"),
        ([0], [1], None, "expected values rank 2, got 1"),
        ([0], [[1, 1, 1]], None, "expected values dim 1 to be 2, got 3"),
        ([0, 4], [[1, 1], [1, 1]], None, "index of slice 1 exceeded limits of shape; index is 4 exceeded 4"),
    ],
)
def test_slices_must_fit(indices: Any, values: Any, shape: Any, message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        sparse().check(
            np.array(indices, np.int64),
            np.float32(values),
            None if shape is None else np.array(shape, np.int64),
        )


def test_slices_must_be_as_large_as_those_before():
    free = SparseAccumulator("s", dtypes.float32, None)
    free.apply(0, slices([0], [1, 2], width=2))

    with pytest.raises(InvalidArgumentError, match="expected values dim 1 to be 2, got 3"):
        free.check(np.array([0]), np.ones((1, 3), np.float32), None)
    assert free.rows == -1
    assert sparse().rows == 4
