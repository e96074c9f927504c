"""Nested structures: flattening, packing, comparison."""

from __future__ import annotations

import collections

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.ops.control_flow.nesting import assert_same_structure, flatten, map_structure, pack_sequence_as

Pair = collections.namedtuple("Pair", "left right")
NESTED = {"b": [1, (2, 3)], "a": Pair(4, {})}


def test_leaves_come_in_order_dicts_by_their_keys():
    assert flatten(NESTED) == [4, 1, 2, 3]
    assert flatten(7) == [7]


def test_a_structure_is_put_together_again():
    packed = pack_sequence_as(NESTED, flatten(NESTED))

    assert packed == NESTED
    assert list(packed) == ["b", "a"]
    assert isinstance(packed["a"], Pair)


def test_mapping_keeps_the_structure():
    assert map_structure(str, (1, [2])) == ("1", ["2"])


def test_slices_are_a_structure_of_their_parts():
    with ax.Graph().as_default():
        slices = ax.IndexedSlices(ax.constant([1.0]), ax.constant([0]))

        parts = flatten([slices])
        (again,) = pack_sequence_as([slices], parts[::-1])

    assert parts == [slices.values, slices.indices]
    assert (again.values, again.indices, again.dense_shape) == (slices.indices, slices.values, None)


def test_there_must_be_as_many_leaves_as_places():
    with pytest.raises(GraphValueError, match="has 2 elements, but flat_sequence has 3"):
        pack_sequence_as([1, 2], [1, 2, 3])


@pytest.mark.parametrize(
    ("other", "error"),
    [
        ({"b": [1, (2, 3)], "a": Pair(4, {})}, None),
        ({"a": Pair("x", {}), "b": [0, (0, 0)]}, None),
        ({"b": [1, [2, 3]], "a": Pair(4, {})}, GraphTypeError),
        ({"b": [1, (2, 3)], "a": (4, {})}, GraphTypeError),
        ({"b": [1, (2,)], "a": Pair(4, {})}, GraphValueError),
        ({"b": [1, 2], "a": Pair(4, {})}, GraphValueError),
        ({"b": [1, (2, 3)], "c": Pair(4, {})}, GraphValueError),
        (5, GraphValueError),
    ],
)
def test_structures_are_the_same_if_they_differ_in_leaves_only(other, error):
    if error is None:
        assert_same_structure(NESTED, other)
        return
    with pytest.raises(error, match="same nested structure"):
        assert_same_structure(NESTED, other)
