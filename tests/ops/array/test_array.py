"""Functions that make and rearrange tensors: results, names, static shapes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.indexed_slices import IndexedSlices
from tests.ops.evaluate import evaluate

X = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def test_a_placeholder_that_is_not_fed_says_which_and_what():
    x = ax.placeholder(ax.float32, [None, 2], name="x")

    with pytest.raises(InvalidArgumentError) as caught:
        evaluate(x + 1.0)

    expected = "You must feed a value for placeholder tensor 'x' with dtype float and shape [?,2]"
    assert caught.value.message == expected


def test_a_placeholder_with_default_may_be_left_out_or_fed():
    x = ax.placeholder_with_default(X, [None, 3])

    np.testing.assert_array_equal(evaluate(x), X)
    np.testing.assert_array_equal(evaluate(x * 2.0, {x: X[:1]}), X[:1] * 2)
    assert x.shape.as_list() == [None, 3]


def test_nothing_is_concluded_from_the_default_of_a_placeholder():
    shape = ax.placeholder_with_default([2, 3], [2])

    assert ax.zeros(shape).shape.as_list() == [None, None]


def test_a_default_of_another_shape_is_refused():
    with pytest.raises(GraphValueError, match="default value"):
        ax.placeholder_with_default(X, [None, 2])


def test_shape_size_and_rank_are_constants_where_they_are_known():
    known = ax.constant(X)
    unknown = ax.placeholder(ax.float32, [None, 3])

    assert [f(known).op.type for f in (ax.shape, ax.size, ax.rank)] == ["Const"] * 3
    assert [f(unknown).op.type for f in (ax.shape, ax.size, ax.rank)] == ["Shape", "Size", "Const"]
    assert evaluate(ax.shape(unknown, out_type=ax.int64), {unknown: X}).dtype == np.int64


def test_transpose_reverses_the_dimensions_by_default_also_of_unknown_rank():
    x = ax.placeholder(ax.float32)

    np.testing.assert_array_equal(evaluate(ax.transpose(x), {x: X}), X.T)


def test_reshape_infers_what_it_can():
    x = ax.placeholder(ax.float32, [None, 6])

    assert ax.reshape(x, [-1, 2, 3]).shape.as_list() == [None, 2, 3]
    assert ax.reshape(ax.constant(X), [-1]).shape.as_list() == [6]
    assert ax.reshape(ax.constant(X[:1, :1]), []).shape.as_list() == []


def test_reshape_to_another_number_of_elements_is_refused():
    with pytest.raises(GraphValueError, match="Cannot reshape 6 elements"):
        ax.reshape(ax.constant(X), [4])


def test_reshape_to_another_number_of_elements_is_found_at_run_time_too():
    x = ax.placeholder(ax.float32)

    with pytest.raises(InvalidArgumentError, match="Input has 6 values"):
        evaluate(ax.reshape(x, [4]), {x: X})


def test_zeros_and_ones_are_constants_when_small_and_fills_when_not():
    assert ax.zeros([2, 3]).op.type == "Const"
    assert ax.zeros([2000]).op.type == "Fill"
    assert evaluate(ax.ones([2], ax.bool)).tolist() == [True, True]
    assert evaluate(ax.zeros([1], ax.string)).tolist() == [b""]
    assert evaluate(ax.ones([0, 3], ax.int32)).shape == (0, 3)


def test_range_takes_the_dtype_of_its_arguments():
    assert evaluate(ax.range(3)).tolist() == [0, 1, 2]
    assert ax.range(3).dtype == ax.int32
    assert ax.range(1.0, 2.0, 0.5).dtype == ax.float32
    assert evaluate(ax.range(5, 0, -2)).tolist() == [5, 3, 1]


def test_one_hot_takes_on_and_off_values():
    hot = ax.one_hot([0, 2, -1], 3, on_value=5, off_value=1)

    assert evaluate(hot).tolist() == [[5, 1, 1], [1, 1, 5], [1, 1, 1]]
    assert ax.one_hot([0], 2).dtype == ax.float32


def test_concat_of_one_tensor_is_that_tensor():
    assert ax.concat([ax.constant(X)], 0).op.type == "Identity"


def test_stack_of_different_shapes_is_refused():
    with pytest.raises(GraphValueError, match="not compatible"):
        ax.stack([ax.constant(X), ax.constant(X[:1])])


def test_pad_refuses_an_unknown_mode():
    with pytest.raises(GraphValueError, match="mode"):
        ax.pad(ax.constant(X), [[0, 0], [0, 0]], mode="WRAP")


def test_the_gradient_of_a_gather_is_indexed_slices():
    params = ax.constant(X)
    rows = ax.gather(params, [1, 1, 0])

    (gradient,) = ax.gradients(rows, [params])

    assert isinstance(gradient, IndexedSlices)
    assert evaluate(gradient).tolist() == [[1.0] * 3, [2.0] * 3]


def test_a_tensor_used_as_a_bool_is_an_error():
    with pytest.raises(GraphTypeError, match="Python bool"):
        if ax.constant(True):
            pass


def test_gather_of_an_index_outside_names_the_index():
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = 7 is not in \[0, 2\)"):
        evaluate(ax.gather(ax.constant(X), ax.constant([0, 7])))
