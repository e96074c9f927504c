"""`ax.raw_ops`, and functions of arrays as nodes under their later names."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError
from tests.ops.evaluate import evaluate


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def test_an_op_takes_its_inputs_and_attributes_as_keywords():
    total = ax.raw_ops.Sum(input=[[1.0, 2.0]], axis=[1], keep_dims=True, name="total")
    parts = ax.raw_ops.Split(axis=0, value=[1, 2], num_split=2)

    assert (total.op.name, total.op.type) == ("total", "Sum")
    np.testing.assert_array_equal(evaluate(total), [[3.0]])
    assert [evaluate(part).tolist() for part in parts] == [[1], [2]]
    assert ax.raw_ops.NoOp().type == "NoOp"


def test_every_registered_op_has_a_function():
    assert {"AddV2", "Conv2D", "VarHandleOp"} <= set(dir(ax.raw_ops))
    assert not any(name.startswith("_") for name in dir(ax.raw_ops))
    assert "Inputs: x, y" in str(ax.raw_ops.AddV2.__doc__)


def test_an_unknown_op_and_a_missing_input_are_errors():
    with pytest.raises(AttributeError, match="no such op"):
        ax.raw_ops.NoSuchOp
    with pytest.raises(GraphTypeError, match=r"missing inputs \['y'\]"):
        ax.raw_ops.AddV2(x=1)


async def test_functions_of_arrays_are_nodes():
    double = ax.numpy_function(lambda x: 2 * x, [ax.constant(3.0)], ax.float32)
    both = ax.py_function(lambda x: [x, -x], [ax.constant(1.0)], [ax.float32, ax.float32])

    async with ax.Session() as session:
        assert await session.run([double, both]) == [6.0, [1.0, -1.0]]
    with pytest.raises(GraphTypeError, match="'Tout' is required"):
        ax.numpy_function(abs, [1.0])
