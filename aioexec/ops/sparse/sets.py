"""Operations on sets: the rows along the last dimension of a dense or sparse tensor are sets of its values.

The dimensions before the last number the sets. A result is sparse, and the values of each of its sets ascend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.graph.sparse_tensor import SparseTensor, convert_to_tensor_or_sparse_tensor
from aioexec.ops.common.elementwise import Array, room_for, shown
from aioexec.ops.sparse.tensors import check_inside, check_order, checked_parts, parts_of
from aioexec.shapes import Dims

Groups = dict[tuple[int, ...], set[Any]]
"""The sets by their indices."""

_OPERATIONS: Final[dict[str, Callable[[set[Any], set[Any]], set[Any]]]] = {
    "a-b": lambda a, b: a - b,
    "b-a": lambda a, b: b - a,
    "intersection": lambda a, b: a & b,
    "union": lambda a, b: a | b,
}

_DTYPES: Final = frozenset({dt.int8, dt.int16, dt.int32, dt.int64, dt.uint8, dt.uint16, dt.string})

# Kernels


def _group_shape(dims: Sequence[int]) -> tuple[int, ...]:
    if len(dims) < 2:
        raise InvalidArgumentError(f"Shape {shown(dims)} of sets must have at least 2 dimensions")
    return tuple(dims[:-1])


def _dense_groups(values: Array) -> tuple[tuple[int, ...], Groups]:
    shape = _group_shape(values.shape)
    return shape, {at: set(values[at].tolist()) for at in np.ndindex(*shape)}


def _sparse_groups(
    indices: Array, values: Array, shape: Array, validates: bool
) -> tuple[tuple[int, ...], Groups]:
    dims = checked_parts(indices, values, shape)
    if validates:
        check_inside(indices, dims)
        check_order(indices)
    groups: Groups = {}
    for at, value in zip(map(tuple, indices[:, :-1].tolist()), values.tolist(), strict=True):
        groups.setdefault(at, set()).add(value)
    return _group_shape(dims), groups


def _combined(
    operation: Callable[[set[Any], set[Any]], set[Any]],
    one: tuple[tuple[int, ...], Groups],
    other: tuple[tuple[int, ...], Groups],
    dtype: Any,
) -> tuple[Array, Array, Array]:
    (shape, first), (other_shape, second) = one, other
    if shape != other_shape:
        raise InvalidArgumentError(f"Mismatched group shapes {shown(shape)} vs {shown(other_shape)}")
    indices: list[tuple[int, ...]] = []
    values: list[Any] = []
    widest = 0
    for at in sorted(first.keys() | second.keys()):
        found = sorted(operation(first.get(at, set()), second.get(at, set())))
        indices.extend((*at, k) for k in range(len(found)))
        values.extend(found)
        widest = max(widest, len(found))
    rank = len(shape) + 1
    return (
        np.array(indices, np.int64).reshape(-1, rank),
        np.array(values, dtype),
        np.array([*shape, widest], np.int64),
    )


def _operation_of(context: KernelContext) -> Callable[[set[Any], set[Any]], set[Any]]:
    name = context.attrs["set_operation"].lower()
    if name not in _OPERATIONS:
        raise InvalidArgumentError(f"Invalid set_operation {name}, expected one of {', '.join(_OPERATIONS)}")
    return _OPERATIONS[name]


def _dense_kernel(context: KernelContext) -> Compute:
    operation = _operation_of(context)

    def compute(one: Array, other: Array) -> tuple[Array, Array, Array]:
        return _combined(operation, _dense_groups(one), _dense_groups(other), one.dtype)

    return compute


def _mixed_kernel(context: KernelContext) -> Compute:
    operation, validates = _operation_of(context), bool(context.attrs["validate_indices"])

    def compute(one: Array, indices: Array, values: Array, shape: Array) -> tuple[Array, Array, Array]:
        other = _sparse_groups(indices, values, shape, validates)
        return _combined(operation, _dense_groups(one), other, one.dtype)

    return compute


def _sparse_kernel(context: KernelContext) -> Compute:
    operation, validates = _operation_of(context), bool(context.attrs["validate_indices"])

    def compute(*parts: Array) -> tuple[Array, Array, Array]:
        (indices, values, shape), (other_indices, other_values, other_shape) = parts[:3], parts[3:]
        one = _sparse_groups(indices, values, shape, validates)
        other = _sparse_groups(other_indices, other_values, other_shape, validates)
        return _combined(operation, one, other, values.dtype)

    return compute


def _size_kernel(context: KernelContext) -> Compute:
    validates = bool(context.attrs["validate_indices"])

    def compute(indices: Array, values: Array, dense_shape: Array) -> Array:
        shape, groups = _sparse_groups(indices, values, dense_shape, validates)
        check_inside(np.array(list(groups), np.int64).reshape(-1, len(shape)), shape)
        room_for(shape, 4)
        sizes = np.zeros(shape, np.int32)
        for at, members in groups.items():
            sizes[at] = len(members)
        return sizes

    return compute


# Shape rules


def _checked_rank(rank: int | None) -> int | None:
    if rank is not None and rank < 2:
        raise GraphValueError(f"Sets need a rank of at least 2, got {rank}")
    return rank


def _results(rank: int | None) -> list[Dims]:
    return [(None, rank), (None,), (rank,)]


def _dense_shape(context: ShapeContext) -> Sequence[Dims]:
    one, other = context.inputs
    ranks = [_checked_rank(None if dims is None else len(dims)) for dims in (one, other)]
    if one is not None and other is not None:
        shapes.merge(one[:-1], other[:-1])
    return _results(ranks[0] if ranks[0] is not None else ranks[1])


def _mixed_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = context.inputs[0]
    parts_of(context, 1)
    return _results(_checked_rank(None if dims is None else len(dims)))


def _sparse_shape(context: ShapeContext) -> Sequence[Dims]:
    first, second = parts_of(context, 0)[1], parts_of(context, 3)[1]
    merged = shapes.merge(first, second)
    return _results(_checked_rank(merged[0] if merged else None))


_SPARSE: Final = "{0}_indices:int64, {0}_values:T, {0}_shape:int64"
_ATTRS: Final = "validate_indices:bool=true; T:type{int8|int16|int32|int64|uint8|uint16|string}"

register(
    f"SetSize({_SPARSE.format('set')}) -> (size:int32) [{_ATTRS}]",
    shape=lambda context: [None],  # as in TensorFlow
    kernel=_size_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)
for _name, _inputs, _kernel, _shape in (
    ("DenseToDense", "set1:T, set2:T", _dense_kernel, _dense_shape),
    ("DenseToSparse", f"set1:T, {_SPARSE.format('set2')}", _mixed_kernel, _mixed_shape),
    (
        "SparseToSparse",
        f"{_SPARSE.format('set1')}, {_SPARSE.format('set2')}",
        _sparse_kernel,
        _sparse_shape,
    ),
):
    register(
        f"{_name}SetOperation({_inputs}) -> (result_indices:int64, result_values:T, result_shape:int64) "
        f"[set_operation:string; {_ATTRS}]",
        shape=_shape,
        kernel=_kernel,
        gradient=NOT_DIFFERENTIABLE,
        dynamic_shape=True,
    )

# Public functions


def _as_sets(value: Any, name: str) -> Tensor | SparseTensor:
    found: Tensor | SparseTensor = convert_to_tensor_or_sparse_tensor(value, name=name)
    if found.dtype.base_dtype not in _DTYPES:
        raise GraphTypeError(
            f"'{name}' has invalid dtype `{found.dtype!r}` not in supported dtypes: "
            f"`{sorted(dtype.name for dtype in _DTYPES)}`."
        )
    return found


def _parts(sets: Tensor | SparseTensor) -> list[Tensor]:
    if isinstance(sets, SparseTensor):
        return [sets.indices, sets.values, sets.dense_shape]
    return [sets]


def _set_operation(a: Any, b: Any, operation: str, swapped: str, validates: bool) -> SparseTensor:
    one, other = _as_sets(a, "a"), _as_sets(b, "b")
    if one.dtype.base_dtype != other.dtype.base_dtype:
        raise GraphTypeError(f"Types don't match, {one.dtype!r} vs {other.dtype!r}.")
    if isinstance(one, SparseTensor) and not isinstance(other, SparseTensor):  # there is no op of that order
        one, other, operation = other, one, swapped
    kinds = ["Sparse" if isinstance(each, SparseTensor) else "Dense" for each in (one, other)]
    return SparseTensor(
        *apply_tuple_op(
            f"{kinds[0]}To{kinds[1]}SetOperation",
            *_parts(one),
            *_parts(other),
            set_operation=operation,
            validate_indices=validates,
        )
    )


def size(a: Any, validate_indices: bool = True) -> Tensor:
    """Return the number of distinct values in each row along the last dimension, int32.

    Args:
        a: a SparseTensor of integers or strings.
        validate_indices: whether to check that its indices are in range, in order and not repeated.

    Raises:
        GraphTypeError: it is no SparseTensor, or of another dtype.
    """
    sets = _as_sets(a, "a")
    if not isinstance(sets, SparseTensor):
        raise GraphTypeError(f"Expected `SparseTensor`, got {a!r}.")
    return apply_op("SetSize", *_parts(sets), validate_indices=validate_indices)


def intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Return the values that are in the rows of both `a` and `b`.

    Args:
        a: a dense tensor or SparseTensor of integers or strings; its last dimension contains the values of the sets.
        b: as `a`, of the same dtype, with the same dimensions but the last.
        validate_indices: whether to check that indices of SparseTensors are in range, in order and not repeated.

    Raises:
        GraphTypeError: the dtypes differ, or are others.
    """
    return _set_operation(a, b, "intersection", "intersection", validate_indices)


def difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """Return the values in the rows of `a` that are not in those of `b`; the other way round without `aminusb`.

    Args and errors are those of `intersection`.
    """
    order = ("a-b", "b-a") if aminusb else ("b-a", "a-b")
    return _set_operation(a, b, *order, validate_indices)


def union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Return the values that are in the rows of `a` or of `b`, each once. Args and errors are those of `intersection`."""
    return _set_operation(a, b, "union", "union", validate_indices)
