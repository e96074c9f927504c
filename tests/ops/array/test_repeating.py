"""`repeat` and `batch_gather`."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.ops.evaluate import evaluate

X = np.array([[1, 2, 3], [4, 5, 6]], np.int32)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize(
    ("repeats", "axis"),
    [(2, None), (2, 0), (0, 1), (3, -1), ([2, 1], 0), ([0, 2, 1], 1), ([1, 2, 3, 0, 1, 1], None)],
)
def test_elements_are_repeated(repeats, axis):
    np.testing.assert_array_equal(evaluate(ax.repeat(X, repeats, axis)), np.repeat(X, repeats, axis))


def test_rows_of_a_batch_are_gathered():
    np.testing.assert_array_equal(evaluate(ax.batch_gather(X, [[2, 0], [1, 1]])), [[3, 1], [5, 5]])


def test_bad_arguments_are_errors():
    with pytest.raises(GraphValueError, match="out of range"):
        ax.repeat(X, 2, axis=2)
    with pytest.raises(GraphValueError, match="scalar or vector"):
        ax.repeat(X, [[1]])
    with pytest.raises(GraphValueError, match="unknown shape"):
        ax.batch_gather(X, ax.placeholder(ax.int32))
    with pytest.raises(GraphValueError, match="must have a dimension"):
        ax.batch_gather(X, 1)
