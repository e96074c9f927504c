"""Indexing of tensors, and the functions that slice tensors."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from tests.ops.evaluate import evaluate

CUBE = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
NEW = np.newaxis


@pytest.fixture
def graph():
    with ax.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize(
    "key",
    [
        np.s_[1],
        np.s_[-1, 2],
        np.s_[:, 1:],
        np.s_[..., -1],
        np.s_[:, NEW, ::2],
        np.s_[1, 2, 3],
        np.s_[:, ::-1],
        np.s_[0, ..., 1:3],
        np.s_[NEW],
        np.s_[1:1],
        np.s_[:, 5:1:-2, -3:],
        np.s_[...],
    ],
)
def test_brackets_mean_what_they_mean_to_numpy(graph, key):
    part = ax.constant(CUBE)[key]

    np.testing.assert_array_equal(evaluate(part), CUBE[key])
    assert part.shape == CUBE[key].shape


def test_scalar_tensors_are_indices_and_bounds(graph):
    row = ax.placeholder(ax.int32, [])
    stop = ax.placeholder(ax.int64, [])
    cube = ax.constant(CUBE)

    value = evaluate(cube[row, : stop + 1], {row: np.int32(1), stop: np.int64(1)})

    np.testing.assert_array_equal(value, CUBE[1, :2])


def test_a_bool_tensor_in_brackets_selects_elements(graph):
    cube = ax.constant(CUBE)

    np.testing.assert_array_equal(evaluate(cube[cube > 12.5]), CUBE[CUBE > 12.5])


def test_an_unknown_dimension_stays_unknown_and_the_rest_is_inferred(graph):
    x = ax.placeholder(ax.float32, [None, 5])

    assert x[0].shape == (5,)
    assert x[:, 1:3].shape.as_list() == [None, 2]
    assert x[2:].shape.as_list() == [None, 5]


@pytest.mark.parametrize("key", ["name", 1.5, True, (0, "x")])
def test_other_things_in_brackets_are_refused(graph, key):
    with pytest.raises(GraphTypeError, match="indices are integers"):
        ax.constant(CUBE)[key]


def test_an_index_outside_a_known_dimension_is_refused_while_building(graph):
    with pytest.raises(GraphValueError, match="slice index 2 of dimension 0 out of bounds"):
        ax.constant(CUBE)[2]


def test_an_index_outside_is_found_at_run_time_when_the_dimension_is_not_known(graph):
    x = ax.placeholder(ax.float32, [None])
    last = x[3]

    with pytest.raises(InvalidArgumentError, match="slice index 3 of dimension 0 out of bounds"):
        evaluate(last, {x: np.zeros(3, np.float32)})


def test_more_indices_than_dimensions_are_refused(graph):
    with pytest.raises(GraphValueError, match="only 3 dims"):
        ax.constant(CUBE)[0, 0, 0, 0]


def test_the_size_of_an_unknown_dimension_flows_through_shape_arithmetic(graph):
    x = ax.placeholder(ax.float32, [None, 6])

    flat = ax.reshape(x, [ax.shape(x)[0], 2, 3])

    assert flat.shape.as_list() == [None, 2, 3]


def test_slice_takes_sizes_and_minus_one_for_the_rest(graph):
    np.testing.assert_array_equal(
        evaluate(ax.slice(ax.constant(CUBE), [0, 1, 0], [2, -1, 2])), CUBE[:, 1:, :2]
    )


def test_boolean_mask_keeps_the_dimensions_outside_the_mask(graph):
    mask = np.array([True, False, True])

    np.testing.assert_array_equal(evaluate(ax.boolean_mask(ax.constant(CUBE), mask, axis=1)), CUBE[:, mask])


def test_boolean_mask_refuses_a_mask_that_does_not_fit(graph):
    with pytest.raises(GraphValueError, match="does not fit"):
        ax.boolean_mask(ax.constant(CUBE), [True, False, True])


def test_split_by_number_and_by_sizes(graph):
    by_number = ax.split(ax.constant(CUBE), 2, axis=-1)
    by_sizes = ax.split(ax.constant(CUBE), [1, -1], axis=1)

    np.testing.assert_array_equal(evaluate(by_number[1]), CUBE[..., 2:])
    np.testing.assert_array_equal(evaluate(by_sizes[1]), CUBE[:, 1:])


def test_unstack_needs_to_know_how_many_parts_there_are(graph):
    x = ax.placeholder(ax.float32, [None, 2])

    assert len(ax.unstack(x, axis=1)) == 2
    with pytest.raises(GraphValueError, match="cannot infer num"):
        ax.unstack(x)
