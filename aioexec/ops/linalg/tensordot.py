"""tensordot: contraction of two tensors over arbitrary axes, as one matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import convert_pair, op_scope


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Sum the products of `a` and `b` over pairs of axes.

    Args:
        axes: n for the last n axes of `a` and the first n of `b`; or a pair of ints or lists, the axes of each.

    Raises:
        GraphValueError: the axes do not match, or a rank is unknown.
    """
    with op_scope(name, "Tensordot", a, b) as scope:
        x, y = convert_pair(a, b)
        x_axes, y_axes = contracted(axes, rank_of(x), rank_of(y))
        left, x_free = matrix_of(x, x_axes, contracted_last=True)
        right, y_free = matrix_of(y, y_axes, contracted_last=False)
        product = apply_op("MatMul", left, right)
        shape = apply_op("ConcatV2", [sizes(x, x_free), sizes(y, y_free)], 0)
        result = apply_op("Reshape", product, shape, name=scope)
        assert x.dims is not None
        assert y.dims is not None
        result.set_shape([*(x.dims[k] for k in x_free), *(y.dims[k] for k in y_free)])
        return result


def rank_of(x: Tensor) -> int:
    if x.dims is None:
        raise GraphValueError(f"tensordot: expected a tensor of known rank, got {x!r}")
    return len(x.dims)


def contracted(axes: Any, x_rank: int, y_rank: int) -> tuple[list[int], list[int]]:
    """Return the axes to sum over of each operand, as non-negative numbers."""
    if isinstance(axes, int | np.integer):
        count = int(axes)
        if not 0 <= count <= min(x_rank, y_rank):
            raise GraphValueError(f"tensordot: expected axes in [0, {min(x_rank, y_rank)}], got {axes!r}")
        return list(range(x_rank - count, x_rank)), list(range(count))
    if len(axes) != 2:
        raise GraphValueError(f"tensordot: expected a number or a pair as axes, got {axes!r}")
    lists = [[int(axis) for axis in np.asarray(each).reshape(-1)] for each in axes]
    if len(lists[0]) != len(lists[1]):
        raise GraphValueError(
            f"tensordot: expected as many axes of one operand as of the other, got {axes!r}"
        )
    for each, rank in zip(lists, (x_rank, y_rank), strict=True):
        if any(not -rank <= axis < rank for axis in each) or len({axis % rank for axis in each}) != len(each):
            raise GraphValueError(f"tensordot: expected different axes in [{-rank}, {rank}), got {each!r}")
    return [axis % x_rank for axis in lists[0]], [axis % y_rank for axis in lists[1]]


def matrix_of(x: Tensor, axes: Sequence[int], *, contracted_last: bool) -> tuple[Tensor, list[int]]:
    """Return the tensor as a matrix whose rows (or columns) are the free axes, and the free axes."""
    rank = rank_of(x)
    free = [axis for axis in range(rank) if axis not in axes]
    order = [*free, *axes] if contracted_last else [*axes, *free]
    moved = x if order == list(range(rank)) else apply_op("Transpose", x, constant(np.array(order, np.int32)))
    if rank == 2 and len(axes) == 1:
        return moved, free
    groups = (free, axes) if contracted_last else (axes, free)
    shape = apply_op("Pack", [size_of(x, group) for group in groups])
    return apply_op("Reshape", moved, shape), free


def size_of(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the number of elements along some axes."""
    assert x.dims is not None
    known = [x.dims[axis] for axis in axes]
    if None not in known:
        return constant(prod(dim for dim in known if dim is not None), "int32")
    return apply_op("Prod", sizes(x, axes), constant(np.array([0], np.int32)))


def sizes(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return the sizes of some axes as a vector."""
    assert x.dims is not None
    known = [x.dims[axis] for axis in axes]
    if None not in known:
        return constant(np.array(known, np.int32))
    return apply_op("GatherV2", apply_op("Shape", x), constant(np.array(axes, np.int32)), 0)
