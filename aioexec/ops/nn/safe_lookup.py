"""safe_embedding_lookup_sparse: embeddings of examples that may have invalid ids, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.nn.embedding import embedding_lookup_sparse
from aioexec.ops.sparse.functions import sparse_fill_empty_rows, sparse_reshape, sparse_retain


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
) -> Tensor:
    """Look up the rows of each example and combine them; examples without a valid id get that of `default_id`, else zeros.

    Args:
        embedding_weights: a table [ids, size], a list of its partitions, or a partitioned variable.
        sparse_ids: ids [..., n] of int64 or int32; negative ones are left out.
        sparse_weights: weights with the same indices; unless the combiner is "sum", ids of weights that are not positive are
            left out.
        combiner: "mean", "sum" or "sqrtn"; see `embedding_lookup_sparse`.

    Returns:
        A tensor [..., size].

    Raises:
        GraphValueError: there is no table, or the combiner is unknown.
    """
    tables = _tables(embedding_weights)
    with op_scope(name, "embedding_lookup", *tables, sparse_ids.values) as scope:
        own_shape = sparse_ids.dense_shape
        rank = None if own_shape.dims is None else own_shape.dims[0]
        last: Any = apply_op("Sub", apply_op("Size", own_shape), 1) if rank is None else rank - 1
        outer = apply_op("Slice", own_shape, [0], apply_op("ExpandDims", last, 0) if rank is None else [last])
        shape = apply_op("Pack", [apply_op("Prod", outer, [0]), apply_op("GatherV2", own_shape, last, 0)])
        ids = sparse_reshape(sparse_ids, shape)
        weights = sparse_weights
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values, ids.dense_shape)
        ids, weights = _valid(ids, weights, combiner)
        ids, is_empty = sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        found = embedding_lookup_sparse(
            tables,
            ids,
            weights,
            partition_strategy,
            name=scope if default_id is not None else None,
            combiner=combiner,
            max_norm=max_norm,
        )
        if default_id is None:
            empty = apply_op("Reshape", is_empty, np.array([-1, 1], np.int32))
            found = apply_op("SelectV2", empty, apply_op("ZerosLike", found), found, name=scope)
        return _shaped(found, outer, rank)


def _tables(given: Any) -> Sequence[Any]:
    tables = list(given._get_variable_list()) if hasattr(given, "_get_variable_list") else given
    tables = tables if isinstance(tables, list | tuple) else [tables]
    if not tables or any(table is None for table in tables):
        raise GraphValueError(f"Missing embedding_weights {given!r}.")
    return tables


def _valid(
    ids: SparseTensor, weights: SparseTensor | None, combiner: str
) -> tuple[SparseTensor, SparseTensor | None]:
    """The ids that are not negative and, unless the weights are summed up, have a positive weight."""
    is_valid = apply_op("GreaterEqual", ids.values, convert_to_tensor(0, ids.values.dtype))
    if weights is None:
        return sparse_retain(ids, is_valid), None
    if combiner != "sum":
        zero = convert_to_tensor(0, weights.values.dtype)
        is_valid = apply_op("LogicalAnd", is_valid, apply_op("Greater", weights.values, zero))
    return sparse_retain(ids, is_valid), sparse_retain(weights, is_valid)


def _shaped(found: Tensor, outer: Tensor, rank: int | None) -> Tensor:
    """The rows [product of outer, size] as [*outer, size]."""
    size = apply_op("Slice", apply_op("Shape", found), [1], [-1])
    shape = apply_op("ConcatV2", [apply_op("Cast", outer, DstT=dtypes.int32), size], 0)
    result = apply_op("Reshape", found, shape)
    if rank is not None and found.dims is not None:
        result.set_shape([*[None] * (rank - 1), *found.dims[1:]])
    return result
