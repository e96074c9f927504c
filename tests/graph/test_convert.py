"""Constants: a value in the shape that is asked for."""

from __future__ import annotations

import pytest

from aioexec.dtypes import int32
from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph


@pytest.mark.parametrize(
    ("value", "shape", "expected"),
    [
        (7, [2, 2], [[7, 7], [7, 7]]),
        ([1, 2], [4], [1, 2, 2, 2]),
        ([1, 2, 3, 4], [2, 2], [[1, 2], [3, 4]]),
        (7, [0], []),
        ([1, 2], [2, 0], [[], []]),
    ],
)
def test_a_value_fills_its_shape(value, shape, expected):
    with Graph().as_default():
        made = constant(value, int32, shape=shape)

    assert made.dims == tuple(shape)
    assert made.op.attrs["value"].tolist() == expected


def test_more_elements_than_a_shape_has_are_refused():
    with Graph().as_default(), pytest.raises(GraphValueError, match="2 values do not fit"):
        constant([1, 2], shape=[1])
