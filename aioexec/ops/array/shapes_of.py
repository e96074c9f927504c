"""Ops on shapes: Shape, Size, Rank, broadcasting of shape vectors, permutations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphTypeError, InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.graph.sparse_tensor import is_sparse
from aioexec.ops.common.elementwise import Array, op_scope, shown
from aioexec.shapes import Dims


def _vector_over(dims: Dims) -> Dims:
    return (None if dims is None else len(dims),)


def _out_type(context: KernelContext) -> np.dtype[Any]:
    return context.output_dtypes[0].numpy


def _shape(context: KernelContext) -> Compute:
    dtype = _out_type(context)
    return lambda x: np.array(x.shape, dtype)


def _shape_n(context: KernelContext) -> Compute:
    dtype = _out_type(context)
    if len(context.output_dtypes) == 1:
        return lambda x: np.array(x.shape, dtype)
    return lambda *inputs: tuple(np.array(x.shape, dtype) for x in inputs)


def _size(context: KernelContext) -> Compute:
    dtype = _out_type(context)
    return lambda x: np.array(x.size, dtype)


register(
    "Shape(input:T) -> (output:out_type) [T:type; out_type:type{int32|int64}=int32]",
    shape=lambda context: [_vector_over(context.inputs[0])],
    kernel=_shape,
    gradient=NOT_DIFFERENTIABLE,
    shape_only=True,
)
register(
    "ShapeN(input:N*T) -> (output:N*out_type) [N:int>=1; T:type; out_type:type{int32|int64}=int32]",
    shape=lambda context: [_vector_over(dims) for dims in context.inputs],
    kernel=_shape_n,
    gradient=NOT_DIFFERENTIABLE,
    shape_only=True,
)
register(
    "Size(input:T) -> (output:out_type) [T:type; out_type:type{int32|int64}=int32]",
    shape=lambda context: [()],
    kernel=_size,
    gradient=NOT_DIFFERENTIABLE,
    shape_only=True,
)
register(
    "Rank(input:T) -> (output:int32) [T:type]",
    shape=lambda context: [()],
    kernel=plain(lambda x: np.array(x.ndim, np.int32)),
    gradient=NOT_DIFFERENTIABLE,
    shape_only=True,
)

# Broadcasting


def _longer(context: ShapeContext) -> Sequence[Dims]:
    lengths = [None if dims is None else shapes.with_rank(dims, 1) for dims in context.inputs]
    known = [dims[0] for dims in lengths if dims is not None and dims[0] is not None]
    return [(max(known) if len(known) == 2 else None,)]


def _check_vectors(*dims: Array) -> None:
    for k, each in enumerate(dims):
        if each.ndim != 1:
            raise InvalidArgumentError(f"In[{k}] must be a vector, got shape {shown(each.shape)}")


def _broadcast_args(a: Array, b: Array) -> Array:
    _check_vectors(a, b)
    rank = max(a.size, b.size)
    left, right = (np.concatenate([np.ones(rank - each.size, a.dtype), each]) for each in (a, b))
    if not np.all((left == right) | (left == 1) | (right == 1)):
        raise InvalidArgumentError(f"Incompatible shapes: {shown(a)} vs. {shown(b)}")
    return np.where(left == 1, right, left)


register(
    "BroadcastArgs(s0:T, s1:T) -> (r0:T) [T:type{int32|int64}=int32]",
    shape=_longer,
    kernel=plain(_broadcast_args),
    gradient=NOT_DIFFERENTIABLE,
)


def broadcast_axes(a: Sequence[int], b: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the dimensions of the common shape along which each of two shapes was broadcast.

    Raises:
        InvalidArgumentError: the shapes are incompatible.
    """
    rank = max(len(a), len(b))
    left, right = ([1] * (rank - len(dims)) + [int(dim) for dim in dims] for dims in (a, b))
    if any(x != y and 1 not in (x, y) for x, y in zip(left, right, strict=True)):
        raise InvalidArgumentError(f"Incompatible shapes: {shown(a)} vs. {shown(b)}")
    over_left = [k for k in range(rank) if left[k] == 1 and (right[k] != 1 or k < rank - len(a))]
    over_right = [k for k in range(rank) if right[k] == 1 and (left[k] != 1 or k < rank - len(b))]
    return over_left, over_right


def _broadcast_gradient_args(a: Array, b: Array) -> tuple[Array, Array]:
    _check_vectors(a, b)
    over_a, over_b = broadcast_axes(a.tolist(), b.tolist())
    return np.array(over_a, a.dtype), np.array(over_b, b.dtype)


def _axes_shape(context: ShapeContext) -> Sequence[Dims]:
    a, b = context.value(0), context.value(1)
    for each in context.inputs:
        shapes.with_rank(each, 1)
    if a is None or b is None:
        return [(None,), (None,)]
    over_a, over_b = broadcast_axes(a.tolist(), b.tolist())
    return [(len(over_a),), (len(over_b),)]


register(
    "BroadcastGradientArgs(s0:T, s1:T) -> (r0:T, r1:T) [T:type{int32|int64}=int32]",
    shape=_axes_shape,
    kernel=plain(_broadcast_gradient_args),
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(0, 1),
)

# Shape vectors of joined and permuted tensors


def _concat_offset(context: KernelContext) -> Compute:
    def compute(axis: Array, *given: Array) -> Any:
        if axis.ndim:
            raise InvalidArgumentError(f"Concat dim must be a scalar, got shape {shown(axis.shape)}")
        for number, dims in enumerate(given, 1):
            if dims.ndim != 1:
                raise InvalidArgumentError(
                    f"input {number} should be a vector, got shape {shown(dims.shape)}"
                )
        rank = len(given[0])
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"Concat dim is out of range: {int(axis)} with {rank} dims")
        k = int(axis) % rank
        offsets, position = [], 0
        for dims in given:
            if len(dims) != rank or any(dims[j] != given[0][j] for j in range(rank) if j != k):
                raise InvalidArgumentError(
                    f"shapes {shown(given[0])} and {shown(dims)} do not join along dimension {k}"
                )
            offset = np.zeros(rank, dims.dtype)
            offset[k] = position
            position += dims[k]
            offsets.append(offset)
        return tuple(offsets)

    return compute


register(
    "ConcatOffset(concat_dim:int32, shape:N*shape_type) -> (offset:N*shape_type) "
    "[N:int>=2; shape_type:type{int32|int64}=int32]",
    shape=lambda context: list(context.inputs[1:]),
    kernel=_concat_offset,
    gradient=NOT_DIFFERENTIABLE,
)


def _invert(x: Array) -> Array:
    if x.ndim != 1 or not np.array_equal(np.sort(x), np.arange(x.size)):
        raise InvalidArgumentError(
            f"invert_permutation expects each of 0, …, {x.size - 1} once, got {x.tolist()}"
        )
    inverse = np.empty_like(x)
    inverse[x] = np.arange(x.size, dtype=x.dtype)
    return inverse


register(
    "InvertPermutation(x:T) -> (y:T) [T:type{int32|int64}=int32]",
    shape=lambda context: [shapes.with_rank(context.inputs[0], 1)],
    kernel=plain(_invert),
    gradient=NOT_DIFFERENTIABLE,
)


# Functions


def shape(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the shape of `input` as a vector; a constant if it is static."""
    return shape_internal(input, name, optimize=True, out_type=out_type)


def shape_internal(
    input: Any, name: str | None = None, optimize: bool = True, out_type: Any = dtypes.int32
) -> Tensor:
    """Return the shape of `input` as a vector; without `optimize` never as a constant."""
    with op_scope(name, "Shape", input) as scope:
        if is_sparse(input):
            return apply_op("Cast", input.dense_shape, DstT=out_type)
        tensor = convert_to_tensor(input)
        if optimize and shapes.is_fully_defined(tensor.dims):
            return constant(list(tensor.dims or ()), out_type, name=scope)
        return apply_op("Shape", tensor, name=scope, out_type=out_type)


def shape_n(input: Sequence[Any], out_type: Any = dtypes.int32, name: str | None = None) -> list[Tensor]:
    """Return the shapes of several tensors."""
    outputs = apply_list_op("ShapeN", input, name=name, out_type=out_type)
    assert isinstance(outputs, list)
    return outputs


def size(input: Any, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Return the number of elements of `input`; a constant if it is static."""
    with op_scope(name, "Size", input) as scope:
        tensor = convert_to_tensor(input)
        count = shapes.num_elements(tensor.dims)
        if count is not None:
            return constant(count, out_type, name=scope)
        return apply_op("Size", tensor, name=scope, out_type=out_type)


def rank(input: Any, name: str | None = None) -> Tensor:
    """Return the number of dimensions of `input`; a constant if it is static."""
    with op_scope(name, "Rank", input) as scope:
        tensor = convert_to_tensor(input)
        if tensor.dims is not None:
            return constant(len(tensor.dims), dtypes.int32, name=scope)
        return apply_op("Rank", tensor, name=scope)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Return the shape to which two shape vectors broadcast."""
    return apply_op("BroadcastArgs", shape_x, shape_y)


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> shapes.TensorShape:
    """Return the static shape to which two static shapes broadcast.

    Raises:
        GraphValueError: the shapes are incompatible.
        GraphTypeError: an argument is a tensor.
    """
    if isinstance(shape_x, Tensor) or isinstance(shape_y, Tensor):
        raise GraphTypeError(
            "broadcast_static_shape takes static shapes; for tensors use broadcast_dynamic_shape"
        )
    return shapes.TensorShape(shapes.broadcast(shapes.as_dims(shape_x), shapes.as_dims(shape_y)))


def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """Return the inverse of the permutation x."""
    return apply_op("InvertPermutation", x, name=name)
