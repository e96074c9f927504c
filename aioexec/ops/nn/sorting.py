"""`sort` and `argsort`, by TopKV2 along the last dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.common.elementwise import op_scope


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Sort a tensor of real numbers along a dimension.

    Args:
        direction: "ASCENDING" or "DESCENDING".

    Raises:
        GraphValueError: another direction, or an axis out of range.
    """
    with op_scope(name, "sort"):
        tensor = convert_to_tensor(values, name="values")
        if _is_ascending(direction):
            return _reversed_order(_sorted(_reversed_order(tensor), axis, 0))
        return _sorted(tensor, axis, 0)


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Return the indices (int32) that sort a tensor along a dimension; of equal elements the first one comes first.

    Args:
        direction: "ASCENDING" or "DESCENDING".
        stable: accepted; the order is stable in either case.

    Raises:
        GraphValueError: another direction, or an axis out of range.
    """
    with op_scope(name, "argsort"):
        tensor = convert_to_tensor(values, name="values")
        return _sorted(_reversed_order(tensor) if _is_ascending(direction) else tensor, axis, 1)


def _is_ascending(direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise GraphValueError(
            f"Argument `direction` should be one of 'ASCENDING' or 'DESCENDING'. Received: {direction}"
        )
    return direction == "ASCENDING"


def _reversed_order(x: Tensor) -> Tensor:
    """Return numbers in the opposite order, without overflow; applied twice, `x` again."""
    dtype = x.dtype.base_dtype
    if dtype.is_unsigned:
        return convert_to_tensor(dtype.max, dtype) - x
    return -x - convert_to_tensor(1, dtype) if dtype.is_integer else -x


def _sorted(x: Tensor, axis: int, output: int) -> Tensor:
    """Return the values (output 0) or indices (1) in descending order."""
    rank = None if x.dims is None else len(x.dims)
    if rank is None and axis != -1:
        raise GraphValueError(f"sort: the rank of {x!r} must be known to sort along axis {axis}")
    if rank is not None and not -rank <= axis < rank:
        raise GraphValueError(f"sort: axis {axis} is out of range for rank {rank}")
    if rank is None or axis in (-1, rank - 1):
        count = apply_op("Shape", x)[-1]
        return _top(x, count)[output]
    order = np.arange(rank, dtype=np.int32)
    order[axis], order[-1] = rank - 1, axis % rank
    swapped = apply_op("Transpose", x, order)
    return apply_op("Transpose", _top(swapped, apply_op("Shape", x)[axis])[output], order)


def _top(x: Tensor, count: Tensor) -> tuple[Tensor, ...]:
    return apply_tuple_op("TopKV2", x, count, sorted=True)
