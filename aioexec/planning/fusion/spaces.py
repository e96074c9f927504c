"""Iteration spaces of elementwise launches: a common refinement of two that enumerate the same elements in the same order.

A launch has dimensions, outermost first, of which adjacent ones are merged wherever the strides of its operands permit. So the
sum of two matrices has one dimension, or two if one operand is a repeated row. Both enumerate the same elements in the same
order, and every operand of either has strides in the finer space.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Dims = tuple[int, ...]


def refined(left: Dims, right: Dims) -> Dims | None:
    """The coarsest space whose dimensions can be merged to either of the two; None if there is none."""
    if left == right:
        return left
    if prod(left) != prod(right):
        return None
    dims: list[int] = []
    size = 1
    for cut in sorted(_cuts(left) | _cuts(right)):
        if cut % size:
            return None
        if cut > size:
            dims.append(cut // size)
        size = cut
    return tuple(reversed(dims)) or (1,)


def _cuts(dims: Dims) -> set[int]:
    """The numbers of elements of the innermost dimension, of the innermost two, and so on."""
    return {prod(dims[axis:]) for axis in range(len(dims))}


def restrided(strides: Sequence[int], dims: Dims, finer: Dims) -> tuple[int, ...]:
    """The strides, in a finer space, of an operand with these strides in the space `dims`."""
    found: list[int] = []
    axis, inside = len(dims) - 1, 1
    for dim in reversed(finer):
        found.append(strides[axis] * inside)
        inside *= dim
        if inside == dims[axis]:
            axis, inside = axis - 1, 1
    return tuple(reversed(found))
