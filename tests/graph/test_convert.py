"""Constants: values in the requested shape."""

from __future__ import annotations

import numpy as np
import pytest

from aioexec.dtypes import bool_, float32, int32
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


def test_one_number_repeated_takes_the_memory_of_one():
    with Graph().as_default() as graph:
        made = constant(True, bool_, shape=[1 << 40, 4])

    assert made.dims == (1 << 40, 4)
    assert not any(made.op.attrs["value"].strides)
    (exported,) = graph.as_graph_def().node
    assert exported.ByteSize() < 200


@pytest.mark.parametrize("shape", [None, [1 << 20]])
def test_a_repeated_number_does_not_follow_the_array_it_came_from(shape):
    source = np.array([1.5], np.float32)
    with Graph().as_default():
        made = constant(np.broadcast_to(source, 1 << 20) if shape is None else source, float32, shape=shape)

    source[0] = 2.5

    assert made.op.attrs["value"][-1] == 1.5
