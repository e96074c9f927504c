"""`sequence_mask`."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.ops.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def test_a_mask_is_true_before_the_end_of_each_sequence():
    np.testing.assert_array_equal(
        evaluate(ax.sequence_mask([1, 3, 0])), [[True, False, False], [True, True, True], [False] * 3]
    )
    np.testing.assert_array_equal(evaluate(ax.sequence_mask([[2]], 3, ax.float32)), [[[1.0, 1.0, 0.0]]])
    assert evaluate(ax.sequence_mask(ax.placeholder_with_default([0, 2], None))).shape == (2, 2)


def test_the_length_of_a_mask_is_a_scalar():
    with pytest.raises(GraphValueError, match="must be scalar"):
        ax.sequence_mask([1], [2])


def test_values_are_sorted_into_parts_of_a_range():
    parts = ax.histogram_fixed_width_bins([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], nbins=5)

    np.testing.assert_array_equal(evaluate(parts), [0, 0, 1, 2, 4, 4])


def test_what_the_graph_determines_is_known():
    size = ax.placeholder(ax.int32, [])

    np.testing.assert_array_equal(ax.get_static_value(ax.constant([1, 2])), [1, 2])
    assert ax.get_static_value(size) is None
    assert ax.get_static_value(ax.stack([size, 3]), partial=True).tolist() == [None, 3]
    assert ax.get_static_value("text") is None
    assert [ax.is_tensor(each) for each in (size, ax.Variable(1.0), 3)] == [True, True, False]
