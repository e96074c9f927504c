"""SparseTensors from dense tensors and back, in other shapes, serialised."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from tests.ops.evaluate import evaluate

X = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def dense(sparse):
    return evaluate(ax.sparse.to_dense(sparse))


def test_a_dense_tensor_comes_back():
    np.testing.assert_array_equal(dense(ax.sparse.from_dense(X)), X)
    np.testing.assert_array_equal(dense(ax.sparse.eye(2, 3)), np.eye(2, 3, dtype=np.float32))


def test_rows_are_serialised_and_read():
    rows = ax.serialize_many_sparse(ax.sparse.from_dense(X))

    np.testing.assert_array_equal(dense(ax.deserialize_many_sparse(rows, ax.float32, rank=1)), X)
    assert evaluate(ax.serialize_sparse(ax.sparse.from_dense(X))).shape == (3,)


def test_dimensions_are_added_and_resized():
    sparse = ax.sparse.from_dense(X)

    np.testing.assert_array_equal(dense(ax.sparse.expand_dims(sparse, 0)), X[None])
    np.testing.assert_array_equal(dense(ax.sparse.reset_shape(sparse)), X[:2])
    np.testing.assert_array_equal(dense(ax.sparse.reset_shape(sparse, [3, 3])), np.pad(X, ((0, 0), (0, 1))))
    with pytest.raises(InvalidArgumentError, match="new_shape must be at least"):
        evaluate(ax.sparse.reset_shape(sparse, ax.placeholder_with_default([1, 1], [2])).dense_shape)


def test_a_shape_must_have_a_rank_to_be_expanded():
    unknown = ax.placeholder_with_default(np.zeros((0, 2), np.int64), [None, None])
    sizes = ax.placeholder_with_default(np.zeros(2, np.int64), [None])

    with pytest.raises(GraphValueError, match="rank of the SparseTensor must be known"):
        ax.sparse.expand_dims(ax.SparseTensor(unknown, ax.constant(np.zeros(0)), sizes))


def test_ids_become_an_indicator():
    ids = ax.SparseTensor([[0, 0], [1, 0], [1, 1]], np.array([1, 0, 3], np.int64), [2, 2])

    expected = [[False, True, False, False], [True, False, False, True]]
    np.testing.assert_array_equal(evaluate(ax.sparse.to_indicator(ids, 4)), expected)


def test_slices_are_masked():
    slices = ax.IndexedSlices(ax.constant(X), ax.constant([4, 7, 9]), ax.constant([10, 2]))

    rest = ax.sparse.mask(slices, [7])

    np.testing.assert_array_equal(evaluate(rest.values), X[[0, 2]])
    np.testing.assert_array_equal(evaluate(rest.indices), [4, 9])


@pytest.mark.parametrize(
    ("function", "expected"), [("reduce_sum_sparse", [2.0, 3.0]), ("reduce_max_sparse", [2.0, 3.0])]
)
def test_a_reduction_may_stay_sparse(function, expected):
    reduced = getattr(ax.sparse, function)(ax.sparse.from_dense(X), 1)

    np.testing.assert_array_equal(evaluate(reduced.values), expected)
    assert evaluate(getattr(ax.sparse, function)(ax.sparse.from_dense(X)).values).tolist() in ([5.0], [3.0])


@pytest.mark.parametrize("function", [ax.sparse.reset_shape, ax.sparse.expand_dims, ax.serialize_sparse])
def test_what_is_not_sparse_is_an_error(function):
    with pytest.raises(GraphTypeError, match="must be a SparseTensor"):
        function(X)


def test_a_dimension_that_is_unknown_stays_unknown_in_a_sum():
    cells = ax.sparse_placeholder(ax.float32, [None, 4])

    assert ax.sparse_reduce_sum(cells, 1).shape.as_list() == [None]
    assert ax.sparse_reduce_sum(cells, 0).shape.as_list() == [4]
