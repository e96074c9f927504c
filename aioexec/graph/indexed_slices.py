"""IndexedSlices: a sparse tensor given by some of its rows, the usual form of the gradient of a gather."""

from __future__ import annotations

from typing import Any, NamedTuple

from aioexec.dtypes import DType
from aioexec.graph.node import Operation, Tensor
from aioexec.shapes import TensorShape


class IndexedSlices:
    """`values[i]` is a summand of row `indices[i]` of a tensor of shape `dense_shape`; repeated rows are added."""

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self.values = values
        self.indices = indices
        self.dense_shape = dense_shape

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    @property
    def name(self) -> str:
        return self.values.name

    @property
    def op(self) -> Operation:
        return self.values.op

    @property
    def graph(self) -> Any:
        return self.values.graph

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    @property
    def device(self) -> str:
        return self.values.device

    @property
    def shape(self) -> TensorShape:
        from_values = self.values.dims
        return TensorShape(None if from_values is None else (None, *from_values[1:]))

    def __repr__(self) -> str:
        return f"IndexedSlices(values={self.values!r}, indices={self.indices!r}, dense_shape={self.dense_shape!r})"


class IndexedSlicesValue(NamedTuple):
    """The fetched value of IndexedSlices."""

    values: Any
    indices: Any
    dense_shape: Any
