"""Reductions over tensors of several devices under the names of `tf.contrib.nccl`.

They are made of ordinary nodes: one reduces on the device of the first tensor, and its result is copied to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import device
from aioexec.ops.array.identity import identity
from aioexec.ops.math.arithmetic import add_n, multiply
from aioexec.ops.math.extremes import maximum, minimum


def all_sum(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the sum of tensors of equal shapes, once on the device of each."""
    return _on_each(tensors, add_n)


def all_prod(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the product of tensors of equal shapes, once on the device of each."""
    return _on_each(tensors, lambda parts: reduce(multiply, parts))


def all_min(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the minimum of tensors of equal shapes, once on the device of each."""
    return _on_each(tensors, lambda parts: reduce(minimum, parts))


def all_max(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the maximum of tensors of equal shapes, once on the device of each."""
    return _on_each(tensors, lambda parts: reduce(maximum, parts))


def reduce_sum(tensors: Sequence[Tensor]) -> Tensor:
    """Return the sum of tensors of equal shapes, on the device of the first, or that of the scope if this has none."""
    parts = _checked(tensors)
    with device(parts[0].device or None):
        total: Tensor = add_n(parts)
        return total


def broadcast(tensor: Tensor) -> Tensor:
    """Return the tensor, which each device that uses it gets a copy of."""
    copy: Tensor = identity(tensor)
    return copy


def _on_each(tensors: Sequence[Tensor], function: Callable[[list[Tensor]], Any]) -> list[Tensor]:
    parts = _checked(tensors)
    with device(parts[0].device):
        result = function(parts)
    copies = []
    for part in parts:
        with device(part.device):
            copies.append(identity(result))
    return copies


def _checked(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors as a list.

    Raises:
        GraphValueError: there are none.
    """
    if not tensors:
        raise GraphValueError("Must pass >0 tensors to all reduce operations")
    return list(tensors)
