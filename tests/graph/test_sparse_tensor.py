"""SparseTensor: its components, their checks, and conversions to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.sparse_tensor import convert_to_tensor_or_sparse_tensor, is_sparse


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def sparse(values: Any = (1.0, 2.0)) -> ax.SparseTensor:
    return ax.SparseTensor([[0, 1], [1, 2]], list(values), [3, 4])


def test_a_sparse_tensor_is_three_tensors(graph: ax.Graph):
    tensor = sparse()

    assert [part.name for part in (tensor.indices, tensor.values, tensor.dense_shape)] == [
        "SparseTensor/indices:0",
        "SparseTensor/values:0",
        "SparseTensor/dense_shape:0",
    ]
    assert [tensor.indices.dtype, tensor.values.dtype, tensor.dense_shape.dtype] == [
        ax.int64,
        ax.float32,
        ax.int64,
    ]
    assert tensor.dtype is ax.float32
    assert tensor.graph is graph
    assert tensor.op is tensor.values.op
    assert tensor.get_shape().as_list() == tensor.shape.as_list() == [3, 4]
    assert repr(tensor).startswith("SparseTensor(indices=Tensor('SparseTensor/indices:0'")


def test_its_consumers_are_those_of_its_parts():
    tensor = sparse()

    uses = [ax.identity(tensor.values).op, ax.identity(tensor.indices).op]

    assert set(tensor.consumers()) == set(uses)


@pytest.mark.parametrize(
    ("indices", "values", "dense_shape", "message"),
    [
        ([0, 1], [1.0], [3], "must have rank 2"),
        ([[0, 1]], [[1.0]], [3, 4], "must have rank 1"),
        ([[0, 1]], [1.0], [[3, 4]], "must have rank 1"),
        ([[0, 1]], [1.0, 2.0], [3, 4], "not compatible"),
        ([[0, 1]], [1.0], [3], "not compatible"),
    ],
)
def test_parts_that_do_not_fit_each_other_are_refused(
    indices: Any, values: Any, dense_shape: Any, message: str
):
    with pytest.raises(GraphValueError, match=message):
        ax.SparseTensor(indices, values, dense_shape)


def test_indices_are_int64():
    with pytest.raises(GraphTypeError, match="Expected int64"):
        ax.SparseTensor([[0.5, 1]], [1.0], [3, 4])
    with pytest.raises(GraphTypeError, match="requested dtype int64 for a tensor with dtype int32"):
        ax.SparseTensor(ax.constant([[0, 1]]), [1.0], [3, 4])


def test_values_become_sparse_tensors_and_sparse_tensors_stay():
    tensor, value = sparse(), ax.SparseTensorValue([[0]], [1], [1])

    assert is_sparse(tensor)
    assert is_sparse(value)
    assert not is_sparse(tensor.values)
    assert convert_to_tensor_or_sparse_tensor(tensor) is tensor
    assert convert_to_tensor_or_sparse_tensor(tensor, ax.float32) is tensor
    converted = convert_to_tensor_or_sparse_tensor(value)
    assert isinstance(converted, ax.SparseTensor)
    assert converted.dtype is ax.int32
    assert isinstance(convert_to_tensor_or_sparse_tensor([1, 2]), ax.Tensor)
    assert ax.SparseTensor.from_value(tensor).values is tensor.values


def test_what_is_not_sparse_or_of_another_dtype_is_refused():
    with pytest.raises(GraphTypeError, match="neither a SparseTensor nor SparseTensorValue"):
        ax.SparseTensor.from_value(3)
    with pytest.raises(GraphTypeError, match=r"Sparse dtype mismatch. Requested: int32,  Actual: float32"):
        convert_to_tensor_or_sparse_tensor(sparse(), ax.int32)
    with pytest.raises(GraphTypeError):
        ax.convert_to_tensor(sparse())


@pytest.mark.parametrize(
    ("shape", "indices", "known"),
    [(None, (None, None), None), ([2, 3], (None, 2), (2, 3)), ([None, 3], (None, 2), (None, 3))],
)
def test_a_placeholder_has_as_much_of_its_shape_as_was_given(shape: Any, indices: Any, known: Any):
    placeholder = ax.sparse_placeholder(ax.float32, shape, name="given")

    assert placeholder.indices.name == "given/indices:0"
    assert (placeholder.indices.dims, placeholder.values.dims) == (indices, (None,))
    assert placeholder.get_shape().plain == known
    assert placeholder.dense_shape.op.type == ("Placeholder" if shape is None else "Const")


async def test_the_parts_are_fed_and_fetched_one_by_one():
    placeholder = ax.sparse_placeholder(ax.float32)
    async with ax.Session() as session:
        doubled = await session.run(placeholder.values * 2, {placeholder.values: np.ones(3, np.float32)})

    assert doubled.tolist() == [2, 2, 2]
