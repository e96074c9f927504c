"""SparseTensors from and to other forms: dense tensors, serialised ones, other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor, is_sparse
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.gathering import gather, gather_nd
from aioexec.ops.array.set_difference import setdiff1d
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.sparse import protos  # noqa: F401  (registers ops)
from aioexec.ops.sparse.functions import sparse_reorder, sparse_reshape, sparse_tensor_to_dense


def _sparse(value: Any) -> SparseTensor:
    if not is_sparse(value):
        raise GraphTypeError(f"Input must be a SparseTensor, got {value!r}")
    return SparseTensor.from_value(value)


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """Return the elements of a dense tensor that are not zero (strings: not empty) as a SparseTensor."""
    with op_scope(name, "dense_to_sparse"):
        dense = convert_to_tensor(tensor)
        zero = b"" if dense.dtype.base_dtype == dt.string else np.zeros((), dense.dtype.base_dtype.numpy)
        indices = apply_op(
            "Where", apply_op("NotEqual", dense, convert_to_tensor(zero, dense.dtype.base_dtype))
        )
        return SparseTensor(indices, gather_nd(dense, indices), apply_op("Shape", dense, out_type=dt.int64))


def sparse_eye(
    num_rows: Any, num_columns: Any = None, dtype: Any = dt.float32, name: str | None = None
) -> SparseTensor:
    """Return a sparse matrix with ones on the diagonal, square by default."""
    with op_scope(name, "eye"):
        rows = convert_to_tensor(num_rows, dt.int64)
        columns = rows if num_columns is None else convert_to_tensor(num_columns, dt.int64)
        count = apply_op("Minimum", rows, columns)
        diagonal = apply_op("Range", convert_to_tensor(0, dt.int64), count, convert_to_tensor(1, dt.int64))
        one = convert_to_tensor(np.ones((), dt.as_dtype(dtype).numpy))
        values = apply_op("Fill", apply_op("ExpandDims", count, 0), one)
        return SparseTensor(
            apply_op("Pack", [diagonal, diagonal], axis=1), values, apply_op("Pack", [rows, columns])
        )


def sparse_expand_dims(sp_input: Any, axis: int | None = None, name: str | None = None) -> SparseTensor:
    """Insert a dimension of size 1 before position `axis`, by default (and for -1) after the last one.

    Raises:
        GraphValueError: the rank is unknown or the axis out of range.
    """
    with op_scope(name, "expand_dims"):
        sparse = _sparse(sp_input)
        rank = sparse.shape.rank
        if rank is None:
            raise GraphValueError("sparse.expand_dims: the rank of the SparseTensor must be known")
        place = -1 if axis is None else axis
        if not -rank - 1 <= place <= rank:
            raise GraphValueError(f"sparse.expand_dims: axis {axis} is out of range for rank {rank}")
        place += rank + 1 if place < 0 else 0
        shape = sparse.dense_shape
        one = convert_to_tensor(np.ones(1, np.int64))
        return sparse_reshape(sparse, apply_op("ConcatV2", [shape[:place], one, shape[place:]], 0))


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """Return a SparseTensor with other dimension sizes, the smallest that its elements allow by default.

    Raises:
        GraphValueError: a new size is smaller than that of the input, as far as both are static. Else the step fails with
            InvalidArgumentError.
    """
    sparse = _sparse(sp_input)
    if new_shape is None:
        last = apply_op("Max", sparse.indices, [0])
        sizes = apply_op("Maximum", convert_to_tensor(0, dt.int64), last + convert_to_tensor(1, dt.int64))
        return SparseTensor(sparse.indices, sparse.values, sizes)
    wanted = convert_to_tensor(new_shape)
    wanted = wanted if wanted.dtype == dt.int64 else apply_op("Cast", wanted, DstT=dt.int64)
    held, known = constant_value(sparse.dense_shape), constant_value(wanted)
    if held is not None and known is not None:
        if held.shape != known.shape or (held > known).any():
            raise GraphValueError(
                "Requested new_shape should have dimension sizes >= sp_input.shape.  Found new_shape "
                f"({known}), sp_input.shape ({held})."
            )
        return SparseTensor(sparse.indices, sparse.values, wanted)
    fits = apply_op("All", apply_op("LessEqual", sparse.dense_shape, wanted), [0])
    check = apply_no_output_op(
        "Assert", fits, ["new_shape must be at least", sparse.dense_shape, "got", wanted]
    )
    with sparse.indices.graph.control_dependencies([check]):
        wanted = apply_op("Identity", wanted)
    return SparseTensor(sparse.indices, sparse.values, wanted)


def sparse_to_indicator(sp_input: Any, vocab_size: Any, name: str | None = None) -> Tensor:
    """Return a dense tensor of bool whose last dimension says for each id in a row of the input that it is there.

    Args:
        sp_input: ids of int32 or int64, each less than `vocab_size`, the size of the new last dimension.
    """
    with op_scope(name, "SparseToIndicator"):
        sparse = _sparse(sp_input)
        there = apply_op("Fill", apply_op("Shape", sparse.values), convert_to_tensor(True))
        flags = SparseTensor(sparse.indices, there, sparse.dense_shape)
        merged = sparse_merge(sparse, flags, vocab_size)
        return sparse_tensor_to_dense(merged, default_value=False, validate_indices=False)


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """Return the values at the places that ids give: the last dimension of the input becomes one for each tensor of ids.

    Args:
        sp_ids: ids, or a list of tensors of ids, with the indices of `sp_values`.
        vocab_size: the size of the dimension that the ids index, or a list of them.
        already_sorted: whether the result needs no reordering.

    Raises:
        GraphValueError: different numbers of ids and sizes.
        GraphTypeError: a size is neither an integer nor a tensor.
    """
    ids = [
        _sparse(each)
        for each in (sp_ids if isinstance(sp_ids, list | tuple) and not is_sparse(sp_ids) else [sp_ids])
    ]
    sizes = vocab_size if isinstance(vocab_size, list | tuple) else [vocab_size]
    if len(ids) != len(sizes):
        raise GraphValueError("sp_ids and vocab_size have to have equal lengths.")
    for size in sizes:
        if not isinstance(size, Tensor | Integral):
            raise GraphTypeError(f"vocab_size has to be a list of Tensors or Python ints. Found {type(size)}")
    with op_scope(name, "SparseMerge"):
        columns = [apply_op("ExpandDims", apply_op("Cast", each.values, DstT=dt.int64), 1) for each in ids]
        indices = apply_op("ConcatV2", [ids[0].indices[:, :-1], *columns], 1)
        whole = [
            apply_op("Reshape", apply_op("Cast", convert_to_tensor(size), DstT=dt.int64), [1])
            for size in sizes
        ]
        shape = apply_op("ConcatV2", [ids[0].dense_shape[:-1], *whole], 0)
        merged = SparseTensor(indices, _sparse(sp_values).values, shape)
        return merged if already_sorted else sparse_reorder(merged)


def sparse_mask(a: IndexedSlices, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """Return the slices whose indices are not among `mask_indices`."""
    with op_scope(name, "sparse_mask"):
        rest = setdiff1d(a.indices, mask_indices)
        return IndexedSlices(gather(a.values, rest.idx), rest.out, a.dense_shape)


def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = dt.string) -> Tensor:
    """Return three strings, which hold the indices, values and shape of a SparseTensor."""
    sparse = _sparse(sp_input)
    parts = (sparse.indices, sparse.values, sparse.dense_shape)
    return apply_op("SerializeSparse", *parts, out_type=dt.as_dtype(out_type), name=name)


def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = dt.string) -> Tensor:
    """Return a matrix of three strings for each row of a SparseTensor."""
    sparse = _sparse(sp_input)
    parts = (sparse.indices, sparse.values, sparse.dense_shape)
    return apply_op("SerializeManySparse", *parts, out_type=dt.as_dtype(out_type), name=name)


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Return the SparseTensor whose rows `serialize_many_sparse` has serialised.

    Args:
        dtype: the dtype of the values.
        rank: the rank of a row, if it is known.
    """
    indices, values, shape = apply_tuple_op(
        "DeserializeManySparse", serialized_sparse, dtype=dt.as_dtype(dtype), name=name
    )
    width = None if rank is None else rank + 1
    indices.set_shape([None, width])
    shape.set_shape([width])
    return SparseTensor(indices, values, shape)


def _reduced(
    op_type: str, sp_input: Any, axis: Any, keepdims: Any, reduction_axes: Any, keep_dims: Any
) -> SparseTensor:
    sparse = _sparse(sp_input)
    chosen: Any = reduction_axes if axis is None else axis
    if chosen is None:
        rank = sparse.shape.rank
        chosen = (
            np.arange(rank, dtype=np.int32)
            if rank is not None
            else apply_op("Range", 0, apply_op("Size", sparse.dense_shape), 1)
        )
    parts = apply_tuple_op(
        op_type,
        sparse.indices,
        sparse.values,
        sparse.dense_shape,
        convert_to_tensor(chosen, dt.int32),
        keep_dims=bool(keep_dims if keepdims is None else keepdims),
    )
    return SparseTensor(*parts)


def sparse_reduce_sum_sparse(
    sp_input: Any,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Sum over axes, or over all, as a SparseTensor."""
    return _reduced("SparseReduceSumSparse", sp_input, axis, keepdims, reduction_axes, keep_dims)


def sparse_reduce_max_sparse(
    sp_input: Any,
    axis: int | Sequence[int] | None = None,
    keepdims: bool | None = None,
    reduction_axes: Any = None,
    keep_dims: bool | None = None,
) -> SparseTensor:
    """Return the maximum of the stored elements over axes, or over all, as a SparseTensor."""
    return _reduced("SparseReduceMaxSparse", sp_input, axis, keepdims, reduction_axes, keep_dims)
