"""Programs refuse what the reference tier refuses: shapes that do not fit, and uninitialised variables."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from tests.tiers import constant, feed, graph, op, resource, session_on

JIT = pytest.mark.parametrize("jit", ["off", "eager"])
REFUSED = [
    ("dy", lambda x: op("StridedSliceGrad", *ints([3], [0], [2], [1]), x), [1.0]),
    ("dy", lambda x: op("StridedSliceGrad", *ints([3], [0], [2], [1]), x), [1.0, 2.0, 3.0]),
    ("updates", lambda x: op("ScatterNd", *ints([[0]]), x, *ints([3])), [1.0, 2.0]),
    ("updates", lambda x: op("ScatterNd", *ints([[0], [1], [2]]), x, *ints([3])), [1.0]),
    ("coordinates", lambda x: op("ScatterNd", *ints([[0, 0]]), x, *ints([3])), [1.0]),
]


def ints(*values):
    return [constant(value, "int32") for value in values]


@JIT
@pytest.mark.parametrize(("message", "build", "value"), REFUSED)
async def test_a_shape_that_does_not_fit_is_refused(jit, message, build, value):
    with graph() as made:
        x = feed((None,))
        y = build(x)
        async with session_on(made, jit) as session:
            with pytest.raises(InvalidArgumentError, match=message):
                await session.run(y, {x: np.array(value, np.float32)})


@JIT
@pytest.mark.parametrize("op_type", ["Fill", "StridedSliceGrad"])
async def test_dimensions_that_are_no_vector_are_refused(jit, op_type):
    with graph() as made:
        dims = feed(dtype="int32")
        if op_type == "Fill":
            y = op(op_type, dims, constant(1.5))
        else:
            y = op(op_type, dims, *ints([0], [2], [1]), constant([1.0, 2.0]))
        async with session_on(made, jit) as session:
            with pytest.raises(InvalidArgumentError, match="Dimensions must be a vector"):
                await session.run(y, {dims: np.array([[3]], np.int32)})


@JIT
@pytest.mark.parametrize("use", ["VariableShape", "ResourceGather"])
async def test_of_a_variable_that_is_not_there_nothing_is_known(jit, use):
    with graph() as made:
        y = used(resource((2,), name="v"), use)
        async with session_on(made, jit) as session:
            with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
                await session.run(y)


@JIT
@pytest.mark.parametrize("use", ["VariableShape", "ResourceGather"])
@pytest.mark.parametrize("taken", [False, True])
async def test_a_variable_need_not_be_there_for_a_branch_that_is_not_taken(jit, use, taken):
    with graph() as made:
        handle, choice = resource((2,), name="v"), feed((), "bool")
        y = ax.cond(choice, lambda: ax.cast(used(handle, use), ax.float32), lambda: constant([7.0]))
        async with session_on(made, jit) as session:
            if taken:
                with pytest.raises(FailedPreconditionError, match="uninitialized value v"):
                    await session.run(y, {choice: True})
            else:
                assert (await session.run(y, {choice: False})).tolist() == [7.0]


def used(handle, use):
    """Its shape, or none of its rows: nothing that would look at what the variable holds."""
    if use == "VariableShape":
        return op(use, handle)
    return op(use, handle, constant([], "int32"), dtype=ax.float32)
