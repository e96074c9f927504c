"""Static shapes: the algebra of plain tuples, and TensorFlow 1.x's TensorShape and Dimension."""

from __future__ import annotations

import operator
import pickle

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec import shapes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.shapes import Dimension, TensorShape

known = st.lists(st.integers(0, 4), max_size=4).map(tuple)
partial = st.none() | st.lists(st.none() | st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def forgotten(draw, exact):
    """A less precise version of `exact`."""
    shape = tuple(size if draw(st.booleans()) else None for size in exact)
    return draw(st.sampled_from([shape, shape, shape, None]))


def outcome(function, *args):
    try:
        return function(*args)
    except ValueError:
        return ValueError


@given(partial, partial)
def test_merge_is_commutative_and_fails_exactly_where_incompatible(a, b):
    merged = outcome(shapes.merge, a, b)

    assert merged == outcome(shapes.merge, b, a)
    assert (merged is not ValueError) == shapes.compatible(a, b)


@given(partial, partial, partial)
def test_merge_is_associative(a, b, c):
    left = outcome(lambda: shapes.merge(shapes.merge(a, b), c))

    assert left == outcome(lambda: shapes.merge(a, shapes.merge(b, c)))


@given(known.flatmap(lambda exact: st.tuples(st.just(exact), forgotten(exact), forgotten(exact))))
def test_merging_two_views_of_a_shape_stays_true_to_it(case):
    exact, a, b = case

    assert shapes.compatible(shapes.merge(a, b), exact)
    assert shapes.merge(a, exact) == exact
    assert shapes.compatible(shapes.common(a, b), exact)


@given(partial, partial)
def test_common_covers_both(a, b):
    cover = shapes.common(a, b)

    assert shapes.compatible(cover, a)
    assert shapes.compatible(cover, b)
    assert cover == shapes.common(b, a)
    assert shapes.common(a, a) == a


@given(known, known)
def test_broadcast_of_known_shapes_agrees_with_numpy(a, b):
    assert outcome(shapes.broadcast, a, b) == outcome(np.broadcast_shapes, a, b)


@given(st.data(), known, known)
def test_broadcast_of_partial_shapes_never_contradicts_numpy(data, a, b):
    expected = outcome(np.broadcast_shapes, a, b)
    guess = outcome(shapes.broadcast, data.draw(forgotten(a)), data.draw(forgotten(b)))

    if expected is not ValueError:
        assert guess is not ValueError
        assert shapes.compatible(guess, expected)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((None, 1), (3,), (None, 3)), ((None,), (3,), (3,)), ((None,), (1,), (None,)), ((None,),
        (None,), (None,)),
        ((None,), (0,), (0,)), ((2,), None, None), ((), (2, None), (2, None)),
    ],
)  # fmt: skip
def test_broadcast_tells_what_can_be_known(a, b, expected):
    assert shapes.broadcast(a, b) == expected
    assert shapes.broadcast(b, a) == expected


@given(partial)
def test_elements_are_counted_when_the_shape_is_fully_defined(dims):
    defined = dims is not None and all(size is not None for size in dims)

    assert shapes.is_fully_defined(dims) == defined
    assert shapes.num_elements(dims) == (np.zeros(dims).size if defined else None)


def test_concatenate_and_ranks():
    assert shapes.concatenate((1, None), (2,)) == (1, None, 2)
    assert shapes.concatenate((1,), None) is None
    assert shapes.with_rank(None, 2) == (None, None)
    assert shapes.with_rank((1, 2), 2) == (1, 2)
    assert shapes.with_rank_at_least(None, 2) is None
    assert shapes.with_rank_at_least((1, 2), 2) == shapes.with_rank_at_most((1, 2), 2) == (1, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shapes.merge((2, 3), (2, 4)), "Shapes (2, 3) and (2, 4) are not compatible"),
        (lambda: shapes.broadcast((2,), (None, 3)), "Shapes (2,) and (?, 3) do not broadcast: 2 beside 3"),
        (lambda: shapes.with_rank((2,), 2), "Shape (2,) must have rank 2, as (?, ?)"),
        (lambda: shapes.with_rank_at_least((), 1), "Shape () must have rank at least 1, as (?,)"),
        (lambda: shapes.with_rank_at_most((2, 3), 1), "Shape (2, 3) must have rank at most 1, as (?,)"),
        (lambda: TensorShape([2]).assert_has_rank(2), "Shape (2,) must have rank 2, as (?, ?)"),
        (lambda: TensorShape([2]).assert_same_rank([2, 3]), "Shapes (2,) and (2, 3) must have the same rank"),
        (lambda: TensorShape([2]).assert_is_compatible_with([3]), "Shapes (2,) and (3,) are incompatible"),
        (lambda: TensorShape([None]).assert_is_fully_defined(), "Shape (?,) is not fully defined"),
        (lambda: TensorShape([-1]), "Dimension -1 must be >= 0"),
        (lambda: Dimension(3).merge_with(4), "Dimensions 3 and 4 are not compatible"),
        (lambda: 2 - Dimension(3), "Dimension -1 must be >= 0"),
        (lambda: len(TensorShape(None)), "Expected a shape of known rank to take its length, got <unknown>"),
        (lambda: list(TensorShape(None)), "Expected a shape of known rank to iterate over it, got <unknown>"),
        (lambda: TensorShape(None).as_list(), "Expected a shape of known rank to list it, got <unknown>"),
        (
            lambda: TensorShape(None)[:3:2],
            "Expected a slice without step of <unknown>, got slice(None, 3, 2)",
        ),
    ],
)
def test_errors_show_the_shapes(call, message):
    with pytest.raises(GraphValueError) as info:
        call()

    assert str(info.value) == message


@given(partial)
def test_the_two_faces_convert_without_loss(dims):
    shape = TensorShape(dims)

    assert shape.plain == dims
    assert shape == TensorShape(shape) == TensorShape(shape.dims) == pickle.loads(pickle.dumps(shape))
    assert hash(shape) == hash(TensorShape(dims))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None), (3, (3,)), ([], ()), ([2, None], (2, None)), (Dimension(3), (3,)),
        (np.array([2, 3]), (2, 3)),
        ((Dimension(2), np.int64(4), None), (2, 4, None)), (range(3), (0, 1, 2)),
    ],
)  # fmt: skip
def test_a_tensor_shape_is_made_of_what_means_a_shape(value, expected):
    assert shapes.as_shape(value).plain == expected


@pytest.mark.parametrize("value", ["ab", "", b"x", 2.5, [2.0], [[2]], ["3"], object()])
def test_a_tensor_shape_is_not_made_of_anything_else(value):
    with pytest.raises(GraphTypeError, match="Expected an integer"):
        TensorShape(value)


def test_a_tensor_shape_reads_as_in_tensorflow():
    shape, unknown = TensorShape([None, 2]), TensorShape(None)

    assert (repr(shape), str(shape)) == ("TensorShape([Dimension(None), Dimension(2)])", "(?, 2)")
    assert (repr(unknown), str(unknown)) == ("TensorShape(None)", "<unknown>")
    assert (shape.as_list(), shape.rank, shape.ndims, len(shape), bool(shape)) == ([None, 2], 2, 2, 2, True)
    assert (unknown.rank, unknown.dims, bool(unknown), bool(TensorShape([]))) == (None, None, False, True)
    assert [dimension.value for dimension in shape] == [None, 2]
    assert TensorShape([2, 3]).num_elements() == 6


def test_indexing_gives_dimensions_and_slicing_gives_shapes():
    shape, unknown = TensorShape([2, 3, None]), TensorShape(None)

    assert isinstance(shape[0], Dimension)
    assert (shape[1].value, shape[-1].value, unknown[5].value) == (3, None, None)
    assert [shape[1:].plain, shape[::2].plain] == [(3, None), (2, None)]
    assert [unknown[2:5].plain, unknown[:2].plain, unknown[5:2].plain] == [(None,) * 3, (None,) * 2, ()]
    assert [unknown[1:].plain, unknown[-2:].plain, unknown[:-1].plain] == [None, None, None]
    with pytest.raises(IndexError):
        shape[3]


def test_shapes_compare_by_what_they_say():
    assert TensorShape([2, None]) == [2, None]
    assert TensorShape([2]) == (2,)
    assert hash(TensorShape([2])) == hash((2,))
    assert TensorShape(None) == TensorShape(None)
    assert TensorShape([2]) != TensorShape(None)
    assert TensorShape([2]) != "a"
    assert TensorShape([2]) != [-1]


def test_shapes_combine():
    shape = TensorShape([2, None])

    assert shape.merge_with([None, 3]) == [2, 3]
    assert shape.concatenate(4) == shape + TensorShape(4) == operator.add(shape, [4]) == [2, None, 4]
    assert operator.add([4], shape) == [4, 2, None]
    assert shape.concatenate(None).rank is None
    assert shape.most_specific_compatible_shape([2, 3]) == [2, None]
    assert shape.with_rank(2) == shape.with_rank_at_least(1) == shape.with_rank_at_most(2) == shape
    assert shape.is_compatible_with([2, 9])
    assert not shape.is_fully_defined()
    assert [shapes.scalar(), shapes.vector(3), shapes.matrix(2, None)] == [[], [3], [2, None]]
    assert shapes.unknown_shape(2) == [None, None]
    assert shapes.unknown_shape() == TensorShape(None)


@pytest.mark.parametrize(
    "operation", [operator.add, operator.mul, operator.floordiv, operator.mod, operator.sub]
)
def test_dimensions_compute_like_integers(operation):
    for left, right in [(Dimension(7), 2), (7, Dimension(2)), (Dimension(7), Dimension(2))]:
        assert operation(left, right).value == operation(7, 2)
    assert operation(Dimension(7), None).value is None
    assert operation(Dimension(None), 7).value is None
    with pytest.raises(TypeError, match="unsupported operand"):
        operation(Dimension(7), object())


@pytest.mark.parametrize(
    "comparison", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
)
def test_dimensions_compare_like_integers_unless_unknown(comparison):
    assert comparison(Dimension(3), 4) is comparison(3, 4)
    assert comparison(4, Dimension(3)) is comparison(4, 3)
    assert comparison(Dimension(None), 3) is None
    assert comparison(Dimension(3), Dimension(None)) is None


def test_dimensions_are_what_they_hold():
    assert (repr(Dimension(None)), str(Dimension(3)), int(Dimension(3))) == ("Dimension(None)", "3", 3)
    assert Dimension(3) != "a"
    assert ["a", "b"][Dimension(1)] == "b"
    assert Dimension(None).merge_with(4).value == Dimension(4).merge_with(None).value == 4
    assert Dimension(3).is_compatible_with(None)
    assert not Dimension(3).is_compatible_with(4)
    assert [
        shapes.dimension_value(Dimension(3)),
        shapes.dimension_value(3),
        shapes.dimension_value(None),
    ] == [3, 3, None]
    assert shapes.as_dimension(3).value == 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(Dimension(3))
    with pytest.raises(GraphTypeError, match="known dimension"):
        int(Dimension(None))


@pytest.mark.parametrize("divide", [lambda: Dimension(4) / 2, lambda: 4 / Dimension(2)])
def test_dimensions_are_divided_by_floor_division_only(divide):
    with pytest.raises(TypeError, match="Expected //"):
        divide()
