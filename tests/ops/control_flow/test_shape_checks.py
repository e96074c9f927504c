"""`debugging.assert_shapes`: sizes by numbers and symbols, checked statically or in the step."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, InvalidArgumentError
from tests.ops.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def unknown(*shape):
    return ax.placeholder_with_default(np.zeros(shape, np.float32), [None] * len(shape))


def run(check):
    with ax.control_dependencies([check]):
        return evaluate(ax.identity(1.0))


def test_static_shapes_are_checked_at_once():
    check = ax.debugging.assert_shapes(
        [(ax.zeros([2, 3]), ("N", "D")), (ax.zeros([4, 2, 3]), ("*", "N", "D")), (1.0, ())]
    )

    assert check.type == "NoOp"
    with pytest.raises(
        GraphValueError, match=r"note.  Tensor zeros_2:0 dimension 1 must have size 2 .*received size 3"
    ):
        ax.debugging.assert_shapes([(ax.zeros([2, 3]), ("N", "N"))], message="note")
    with pytest.raises(GraphValueError, match="must have rank 3, received rank 2"):
        ax.debugging.assert_shapes([(ax.zeros([2, 3]), ("N", "D", 1))])
    with pytest.raises(GraphValueError, match="must have rank 1"):
        ax.debugging.assert_shapes([(ax.zeros([2, 3]), ("N",))])


def test_other_shapes_are_checked_in_the_step():
    assert run(ax.debugging.assert_shapes([(unknown(2, 3), ("N", "D")), (unknown(3, 2), ("D", "N"))])) == 1.0
    with pytest.raises(InvalidArgumentError, match="must have size"):
        run(ax.debugging.assert_shapes([(unknown(2, 3), ("N", "D")), (unknown(2, 3), ("D", "N"))]))
    with pytest.raises(InvalidArgumentError, match="my data"):
        run(ax.debugging.assert_shapes([(unknown(2, 3), (None, 2))], data=["my data"]))


def test_sparse_tensors_have_shapes_too():
    sizes = ax.placeholder_with_default(np.array([3, 4], np.int64), [2])
    sparse = ax.SparseTensor([[0, 0]], [1.0], sizes)

    assert run(ax.debugging.assert_shapes([(sparse, (3, "M")), (unknown(4), ("M",))])) == 1.0
    with pytest.raises(InvalidArgumentError, match="must have size 5"):
        run(ax.debugging.assert_shapes([(sparse, (3, 5))]))
    with pytest.raises(GraphValueError, match="must have rank 3"):
        ax.debugging.assert_shapes([(sparse, (3, 4, 1))])
