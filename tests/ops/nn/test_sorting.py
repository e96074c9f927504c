"""`sort` and `argsort`."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.ops.evaluate import evaluate

X = np.array([[3.0, 1.0, 2.0], [0.0, 0.0, -1.0]], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_values_are_sorted_along_a_dimension(axis):
    np.testing.assert_array_equal(evaluate(ax.sort(X, axis)), np.sort(X, axis))
    np.testing.assert_array_equal(evaluate(ax.sort(X, axis, "DESCENDING")), -np.sort(-X, axis))
    np.testing.assert_array_equal(evaluate(ax.argsort(X, axis)), np.argsort(X, axis, kind="stable"))


@pytest.mark.parametrize(
    "values", [np.array([0, 255, 3], np.uint8), np.array([-(2**31), 2**31 - 1, 0], np.int32)]
)
def test_the_extremes_of_integers_are_sorted(values):
    np.testing.assert_array_equal(evaluate(ax.sort(values)), np.sort(values))


def test_an_unknown_rank_sorts_along_the_last_dimension():
    unknown = ax.placeholder_with_default(X, None)

    np.testing.assert_array_equal(evaluate(ax.sort(unknown)), np.sort(X))
    with pytest.raises(GraphValueError, match=r"rank of .* must be known"):
        ax.sort(unknown, axis=0)


def test_bad_arguments_are_errors():
    with pytest.raises(GraphValueError, match="direction"):
        ax.argsort(X, direction="UP")
    with pytest.raises(GraphValueError, match="out of range for rank 2"):
        ax.sort(X, axis=2)
