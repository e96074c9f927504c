"""Padded batches, and the rows of sparse tensors."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.data.arguments import int64_tensor, padded_shape, padding_tensor, shape_tensor, static_rows
from aioexec.data.iterator import DatasetNode
from aioexec.data.structure import Component, flat_dtypes, flat_shapes, flatten, flatten_up_to, pack
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.shapes import TensorShape


def padded_batch(
    dataset: DatasetNode, batch_size: Any, padded_shapes: Any, padding_values: Any, drop_remainder: Any
) -> tuple[Tensor, Any]:
    """Return the node of `Dataset.padded_batch` and the spec of its elements; raises as that does."""
    components = flatten(dataset.element_spec)
    if any(type(component) is not Component for component in components):
        raise GraphTypeError("Batching of padded sparse tensors is not currently supported")
    size = int64_tensor(batch_size, "batch_size")
    shapes = [shape_tensor(shape) for shape in flatten_up_to(dataset.element_spec, padded_shapes)]
    values = (
        [None] * len(shapes)
        if padding_values is None
        else flatten_up_to(dataset.element_spec, padding_values)
    )
    fillers = [padding_tensor(*pair) for pair in zip(values, components, strict=True)]
    drops = convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder")
    rows = static_rows(size, drops)
    padded = [
        component.with_shape(padded_shape(component.shape, shape)).batched(rows)
        for component, shape in zip(components, shapes, strict=True)
    ]
    spec = pack(dataset.element_spec, padded)
    variant = apply_op(
        "PaddedBatchDatasetV2",
        dataset._variant_tensor,
        size,
        shapes,
        fillers,
        drops,
        output_shapes=flat_shapes(spec),
        Toutput_types=flat_dtypes(spec),
        N=len(shapes),
    )
    return variant, spec


def sparse_slices(sparse_tensor: Any) -> tuple[Tensor, Any]:
    """Return the node of `Dataset.from_sparse_tensor_slices` and the spec of its elements.

    Raises:
        GraphTypeError: the argument is no SparseTensor.
    """
    if not isinstance(sparse_tensor, SparseTensor):
        raise GraphTypeError(f"`sparse_tensor` must be a `tf.SparseTensor` object, got {sparse_tensor!r}")
    parts = sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape
    (rank,) = sparse_tensor.dense_shape.shape.as_list()
    rank = None if rank is None else rank - 1
    shapes = [None, rank], [None], [rank]
    types = dtypes.int64, sparse_tensor.dtype, dtypes.int64
    spec = tuple(Component(*pair) for pair in zip(types, map(TensorShape, shapes), strict=True))
    return apply_op("SparseTensorSliceDataset", *parts), spec
