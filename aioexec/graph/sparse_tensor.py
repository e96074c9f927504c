"""SparseTensor: a tensor given by its non-zero elements."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from aioexec import dtypes, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import graph_of
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.operators import OPERATORS
from aioexec.graph.static_values import constant_value_as_dims
from aioexec.graph.wiring import EVALUATORS
from aioexec.shapes import TensorShape


class SparseTensorValue(NamedTuple):
    """The value of a SparseTensor, as it is fetched and fed."""

    indices: Any
    values: Any
    dense_shape: Any


class SparseTensor:
    """`values[i]` is the element at `indices[i]` of a tensor of shape `dense_shape`; all others are zero.

    Args:
        indices: int64 of shape [n, rank].
        values: shape [n].
        dense_shape: int64 of shape [rank].

    Raises:
        GraphValueError, GraphTypeError: shapes or dtypes do not fit.
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        with graph_of([indices, values, dense_shape]).as_default() as graph, graph.name_scope("SparseTensor"):
            self._indices = convert_to_tensor(indices, dtypes.int64, name="indices")
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, dtypes.int64, name="dense_shape")
        at = shapes.with_rank(self._indices.dims, 2)
        given = shapes.with_rank(self._values.dims, 1)
        rank = shapes.with_rank(self._dense_shape.dims, 1)
        assert at is not None
        shapes.merge(at[:1], given)
        shapes.merge(at[1:], rank)

    def __mul__(self, dense: Any) -> SparseTensor:
        """The product with a dense tensor or a number, which is broadcast to the shape of this one."""
        return cast("SparseTensor", OPERATORS["sparse_mul"](self, dense))

    def __truediv__(self, dense: Any) -> SparseTensor:
        """The quotient by a dense tensor or a number, which is broadcast to the shape of this one."""
        return cast("SparseTensor", OPERATORS["sparse_truediv"](self, dense))

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """A SparseTensor with the components of a SparseTensorValue or of another SparseTensor.

        Raises:
            GraphTypeError: it is neither.
        """
        if not is_sparse(sparse_tensor_value):
            raise GraphTypeError(f"{sparse_tensor_value!r} is neither a SparseTensor nor SparseTensorValue")
        return cls(*_parts(sparse_tensor_value))

    @property
    def indices(self) -> Tensor:
        return self._indices

    @property
    def values(self) -> Tensor:
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        return self._dense_shape

    @property
    def op(self) -> Operation:
        return self._values.op

    @property
    def graph(self) -> Any:
        return self._values.graph

    @property
    def dtype(self) -> DType:
        return self._values.dtype

    @property
    def shape(self) -> TensorShape:
        """The static dense shape."""
        return self.get_shape()

    def get_shape(self) -> TensorShape:
        return TensorShape(constant_value_as_dims(self._dense_shape))

    def consumers(self) -> list[Operation]:
        """The operations that use one of the three components."""
        return list(dict.fromkeys(op for part in _parts(self) for op in part.consumers()))

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Evaluate to a SparseTensorValue in `session` or the default session; an awaitable."""
        return EVALUATORS["eval"](self, feed_dict, session)

    def __repr__(self) -> str:
        return (
            f"SparseTensor(indices={self._indices}, values={self._values}, dense_shape={self._dense_shape})"
        )


def _parts(sparse: Any) -> tuple[Any, Any, Any]:
    return sparse.indices, sparse.values, sparse.dense_shape


def is_sparse(x: Any) -> bool:
    """Whether x is a SparseTensor or SparseTensorValue."""
    return isinstance(x, SparseTensor | SparseTensorValue)


def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Convert sparse values to a SparseTensor, all others to a Tensor.

    Raises:
        GraphTypeError: a sparse value of another dtype than `dtype`.
    """
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        return convert_to_tensor(value, dtype, name)
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise GraphTypeError(
            f"Sparse dtype mismatch. Requested: {dtypes.as_dtype(dtype).name},  Actual: {value.dtype.name}"
        )
    return value


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A SparseTensor that must be fed in every run that needs it.

    Args:
        shape: of the dense tensor; if it is fully known it need not be fed.
    """
    dtype, dims = dtypes.as_dtype(dtype), shapes.as_dims(shape)
    rank = None if dims is None else len(dims)
    graph = get_default_graph()
    with graph.name_scope(name or "SparsePlaceholder"):

        def part(part_name: str, part_dtype: DType, part_dims: shapes.Dims) -> Tensor:
            attrs = {"dtype": part_dtype, "shape": part_dims}
            return graph.create_op("Placeholder", (), name=part_name, attrs=attrs).outputs[0]

        if dims is None:
            dense_shape = part("shape", dtypes.int64, (None,))
        else:
            content = np.array([-1 if dim is None else dim for dim in dims], np.int64)
            dense_shape = constant(content, dtypes.int64, name="shape")
        return SparseTensor(
            part("indices", dtypes.int64, (None, rank)), part("values", dtype, (None,)), dense_shape
        )
