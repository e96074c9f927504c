"""Tensor slices: their text, their keys, and intersections."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import TensorSliceProto
from aioexec.formats.tensor_slice import (
    TensorSlice,
    covers,
    index,
    intersection,
    parse_shape_and_slice,
    volume,
    within,
)

SHAPE = (4, 3)
EXTENTS = st.one_of(st.just((0, -1)), st.tuples(st.integers(0, 1 << 62), st.integers(1, 1 << 61)))
BOXES = st.tuples(
    *(
        st.tuples(st.integers(0, size), st.integers(0, size)).map(lambda pair: tuple(sorted(pair)))
        for size in SHAPE
    )
)


@pytest.mark.parametrize(
    ("name", "extents", "key"),
    [
        ("p", ((0, -1), (0, 2)), "007000010102807f8082"),
        ("bigp", ((100000, 100000), (0, 1)), "006269677000010102e186a0e186a08081"),
        ("midp", ((0, 1), (100, 100)), "006d6964700001010280 81c064c064"),
        ("s", (), "0073000100"),
        ("x", ((63, 64), (8191, 8192)), "0078000101 02 bf c040 dfff e02000"),
    ],
)
def test_keys_are_those_of_tensorflow(name, extents, key):
    assert TensorSlice(extents).key(name) == bytes.fromhex(key)


def test_zeros_and_ones_in_a_name_are_escaped():
    assert TensorSlice(()).key("a\0b") == b"\0a\0\xffb\0\x01\0"
    assert TensorSlice(()).key(b"\xff".decode(errors="surrogateescape")) == b"\0\xff\0\0\x01\0"


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=2, max_size=2))
def test_keys_sort_as_the_places_do(starts):
    low, high = sorted(starts)

    assert (TensorSlice(((low, 1),)).key("p") < TensorSlice(((high, 1),)).key("p")) == (low < high)


@given(st.lists(EXTENTS, min_size=1, max_size=4).map(tuple))
def test_text_and_proto_say_the_same_as_the_part(extents):
    part, proto = TensorSlice(extents), TensorSliceProto()
    part.to_proto(proto)

    assert TensorSlice.parse(str(part)) == part
    assert TensorSlice.from_proto(proto) == part


def test_a_shape_and_a_part_of_it():
    place = parse_shape_and_slice("5 4 0,3:-")

    assert (place.shape, place.sizes, place.box) == ((5, 4), (3, 4), ((0, 3), (0, 4)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4", "Need least two elements in shape_and_slice specification: 4"),
        ("4 x", "Expected a pair of numbers or '-' but got 'x': string = x"),
        ("4 1", "Expected a pair of numbers or '-' but got '1'"),
        ("4 -1,2", "Expected a pair of numbers"),
        ("4 1,0", "Expected non-negative start and positive length but got start = 1, length = 0"),
        (f"4 1,{(1 << 63) - 1}", "Expected non-negative start and positive length"),
        ("a -", "Non numerical dimension in shape_and_slice: a -"),
        ("-4 -", "Non numerical dimension in shape_and_slice"),
        (f"{1 << 63} -", "Non numerical dimension in shape_and_slice"),
        ("4 4 0,2:3,2", "Extent in dimension 1 out of bounds: shape = [4,4], slice = 0,2:3,2"),
        ("4 0,2:0,2", "Mismatching ranks: shape = [4], slice = 0,2:0,2"),
        ("4 ", "Mismatching ranks"),
    ],
)
def test_what_is_no_part_is_told_in_tensorflows_words(text, message):
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        parse_shape_and_slice(text)


def marked(box) -> np.ndarray:
    cells = np.zeros(SHAPE, bool)
    cells[index(box)] = True
    return cells


@given(BOXES, BOXES)
def test_what_two_boxes_have_in_common_is_in_both(a, b):
    both = intersection(a, b)

    assert volume(a) == marked(a).sum()
    np.testing.assert_array_equal(
        marked(a) & marked(b), np.zeros(SHAPE, bool) if both is None else marked(both)
    )
    if both is not None:
        assert marked(a)[index(a)][index(within(both, a))].size == volume(both)


@given(st.lists(BOXES, max_size=6), BOXES)
def test_boxes_cover_another_if_each_element_of_it_is_in_one(boxes, wanted):
    together = np.any([marked(box) for box in boxes], axis=0) if boxes else np.zeros(SHAPE, bool)

    assert covers(boxes, wanted) == bool((together | ~marked(wanted)).all())


def test_the_parts_of_a_grid_cover_it_and_none_can_be_missing():
    grid = [((a, a + 2), (b, b + 1)) for a, b in itertools.product(range(0, SHAPE[0], 2), range(SHAPE[1]))]
    whole = tuple((0, size) for size in SHAPE)

    assert covers(grid, whole)
    assert not any(covers([box for box in grid if box != left_out], whole) for left_out in grid)
