"""Functions on SparseTensors under the names of TensorFlow 1.x."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_any_op, apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor, is_sparse
from aioexec.ops.array.gathering import gather
from aioexec.ops.array.identity import identity
from aioexec.ops.common.elementwise import named, op_scope, snake_case
from aioexec.ops.sparse import (
    arithmetic,  # noqa: F401  (registers ops)
    rows,  # noqa: F401  (registers ops)
    tensors,  # noqa: F401  (registers ops)
)


def _parts(value: Any) -> tuple[Tensor, Tensor, Tensor]:
    if not is_sparse(value):
        raise GraphTypeError(f"Input must be a SparseTensor, got {value!r}")
    sparse = SparseTensor.from_value(value)
    return sparse.indices, sparse.values, sparse.dense_shape


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return a tensor with `sparse_values` at `sparse_indices` and `default_value` elsewhere."""
    return apply_op(
        "SparseToDense",
        sparse_indices,
        output_shape,
        sparse_values,
        default_value,
        validate_indices=validate_indices,
        name=name,
    )


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """Convert a SparseTensor to a dense tensor."""
    indices, values, shape = _parts(sp_input)
    if default_value is None:
        default_value = b"" if values.dtype == dt.string else np.zeros((), values.dtype.numpy)
    return sparse_to_dense(indices, shape, values, default_value, validate_indices, name)


def sparse_tensor_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """Multiply a sparse matrix by a dense one; `adjoint_a` and `adjoint_b` transpose and conjugate them first."""
    return apply_op(
        "SparseTensorDenseMatMul", *_parts(sp_a), b, adjoint_a=adjoint_a, adjoint_b=adjoint_b, name=name
    )


def sparse_add(a: Any, b: Any, threshold: Any = None, thresh: Any = None) -> Any:
    """Add two tensors, of which at least one is sparse; the sum is sparse if both are.

    Args:
        threshold: elements of a sparse sum of smaller magnitude are dropped.
    """
    least = thresh if threshold is None else threshold
    if not is_sparse(a):
        a, b = b, a
    indices, values, shape = _parts(a)
    if not is_sparse(b):
        return apply_op("SparseTensorDenseAdd", indices, values, shape, b)
    real = values.dtype.real_dtype
    limit = convert_to_tensor(0 if least is None else least, real)
    return SparseTensor(*apply_tuple_op("SparseAdd", indices, values, shape, *_parts(b), limit))


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Return the same tensor with ordered indices."""
    indices, values, shape = _parts(sp_input)
    places, ordered = apply_tuple_op("SparseReorder", indices, values, shape, name=name)
    return SparseTensor(places, ordered, shape)


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """Reshape a SparseTensor; one size may be -1 and is then inferred."""
    indices, values, own = _parts(sp_input)
    with op_scope(name, "SparseReshape", indices) as scope:
        places, dims = apply_tuple_op(
            "SparseReshape", indices, own, convert_to_tensor(shape, dt.int64), name=scope
        )
        return SparseTensor(places, apply_op("Identity", values), dims)


def sparse_concat(
    axis: int,
    sp_inputs: Sequence[Any],
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Concatenate SparseTensors along an axis.

    Args:
        expand_nonconcat_dim: allow other dimensions to differ; the result has the largest.
    """
    along = axis if concat_dim is None else concat_dim
    parts = [_parts(each) for each in sp_inputs]
    dims: list[Any] = [shape for _, _, shape in parts]
    if expand_nonconcat_dim or expand_nonconcat_dims:
        largest = apply_op("Max", apply_op("Pack", dims, axis=0), [0])
        rank = dims[0].dims[0]
        is_along = np.arange(rank) == along % rank
        dims = [apply_op("SelectV2", is_along, each, largest) for each in dims]
    columns = [list(column) for column in zip(*parts, strict=True)]
    return SparseTensor(
        *apply_tuple_op("SparseConcat", columns[0], columns[1], dims, concat_dim=along, name=name)
    )


def sparse_split(
    keyword_required: Any = None,
    sp_input: Any = None,
    num_split: int | None = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """Split a SparseTensor along an axis into `num_split` parts; if the size is not divisible the first are larger."""
    along = convert_to_tensor(split_dim if axis is None else axis, dt.int64)
    groups = apply_any_op("SparseSplit", along, *_parts(sp_input), num_split=num_split, name=name)
    return [SparseTensor(*each) for each in zip(*groups, strict=True)]


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Return the slice of at most `size` from `start` on."""
    corner = [convert_to_tensor(each, dt.int64) for each in (start, size)]
    return SparseTensor(*apply_tuple_op("SparseSlice", *_parts(sp_input), *corner, name=name))


def _reduced(op_type: str, sp_input: Any, axis: Any, keepdims: bool | None) -> Tensor:
    indices, values, shape = _parts(sp_input)
    rank = shape.dims[0] if shape.dims is not None else None
    if axis is None:
        axis = (
            apply_op("Range", 0, apply_op("Size", shape), 1)
            if rank is None
            else np.arange(rank, dtype=np.int32)
        )
    axes = convert_to_tensor(axis, dt.int32)
    return apply_op(op_type, indices, values, shape, axes, keep_dims=bool(keepdims))


def _sparse_reduction(op_type: str, summary: str) -> Callable[..., Tensor]:
    def function(
        sp_input: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        reduction_axes: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        axes = reduction_axes if axis is None else axis
        return _reduced(op_type, sp_input, axes, keep_dims if keepdims is None else keepdims)

    return named(function, snake_case(op_type), f"{summary}.")


sparse_reduce_sum = _sparse_reduction("SparseReduceSum", "Sum over axes, or over all, as a dense tensor")
sparse_reduce_max = _sparse_reduction(
    "SparseReduceMax", "Return the maximum of the stored elements over axes, or over all, as a dense tensor"
)


def sparse_softmax(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Apply softmax to the stored elements along the last dimension."""
    indices, values, shape = _parts(sp_input)
    return SparseTensor(indices, apply_op("SparseSoftmax", indices, values, shape, name=name), shape)


def sparse_fill_empty_rows(
    sp_input: Any, default_value: Any, name: str | None = None
) -> tuple[SparseTensor, Tensor]:
    """Insert `default_value` into the first column of each empty row; also return which rows were empty."""
    indices, values, shape = _parts(sp_input)
    default = convert_to_tensor(default_value, values.dtype)
    places, filled, is_empty, _ = apply_tuple_op(
        "SparseFillEmptyRows", indices, values, shape, default, name=name
    )
    return SparseTensor(places, filled, shape), is_empty


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Keep the elements for which a boolean vector is true."""
    indices, values, shape = _parts(sp_input)
    kept = apply_op("Reshape", apply_op("Where", to_retain), [-1])
    return SparseTensor(gather(indices, kept), gather(values, kept), identity(shape))


def sparse_transpose(
    sp_input: Any, perm: Sequence[int] | None = None, name: str | None = None
) -> SparseTensor:
    """Permute the dimensions, by default in reverse; the indices are ordered."""
    indices, values, shape = _parts(sp_input)
    with op_scope(name, "SparseTranspose", indices):
        order: Any = perm
        if order is None:
            rank = apply_op("Size", shape)
            order = apply_op("Sub", apply_op("Sub", rank, 1), apply_op("Range", 0, rank, 1))
        turned = apply_op("GatherV2", indices, order, 1)
        return sparse_reorder(SparseTensor(turned, values, apply_op("Gather", shape, order)))


def _chosen(op_type: str, a: Any, b: Any, name: str | None) -> SparseTensor:
    parts = _parts(a)
    places, values = apply_tuple_op(op_type, *parts, *_parts(b), name=name)
    return SparseTensor(places, values, parts[2])


def sparse_maximum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Return the element-wise maximum; missing elements are 0."""
    return _chosen("SparseSparseMaximum", sp_a, sp_b, name)


def sparse_minimum(sp_a: Any, sp_b: Any, name: str | None = None) -> SparseTensor:
    """Return the element-wise minimum; missing elements are 0."""
    return _chosen("SparseSparseMinimum", sp_a, sp_b, name)
