"""Launches of reductions: adjacent axes are merged until one loop, or a sequence of few, covers any combination of axes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from math import prod
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Launch, LoopKernel, Operand
from aioexec.graph.kernels.launches import View, c_strides, launch
from aioexec.ops.reduction import loops

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The native form of one kind of reduction.

    Attributes:
        body: the loop, `body(x, y, lanes, outer, n, inner[, divisor])`.
        lanes: accumulator dtype by input dtype.
        neutral: the literal that an empty reduction returns.
        divides: whether the loop takes a divisor, an int for integers, a real for floats.
        ns: estimated nanoseconds per element.
    """

    body: Callable[..., int]
    lanes: Callable[[str], str]
    neutral: Callable[[np.dtype[Any]], str]
    divides: bool = False
    ns: float = 0.06


WIDE = {"float32": "float64", "float64": "float64", "int32": "int64", "int64": "int64"}
"""The dtypes in which sums accumulate."""


def zero_over_zero(dtype: np.dtype[Any]) -> str:
    return "1e999 - 1e999" if dtype.kind == "f" else "0"


def least(dtype: np.dtype[Any]) -> str:
    return {"f": "-1e999", "b": "False"}.get(dtype.kind) or str(np.iinfo(dtype).min)


def greatest(dtype: np.dtype[Any]) -> str:
    return {"f": "1e999", "b": "True"}.get(dtype.kind) or str(np.iinfo(dtype).max)


SUM_REAL = Reduction(loops.total_real, WIDE.__getitem__, lambda dtype: "0", divides=True)
SUM_WHOLE = Reduction(loops.total_whole, WIDE.__getitem__, lambda dtype: "0", divides=True)
MEAN_REAL = Reduction(loops.total_real, WIDE.__getitem__, zero_over_zero, divides=True)
MEAN_WHOLE = Reduction(loops.total_whole, WIDE.__getitem__, zero_over_zero, divides=True)
PRODUCT = Reduction(loops.product, str, lambda dtype: "1")
MAXIMUM = Reduction(loops.maximum, str, least, ns=0.15)
MINIMUM = Reduction(loops.minimum, str, greatest, ns=0.15)


def sum_of(dtype: np.dtype[Any]) -> Reduction:
    return SUM_REAL if dtype.kind == "f" else SUM_WHOLE


def mean_of(dtype: np.dtype[Any]) -> Reduction:
    return MEAN_REAL if dtype.kind == "f" else MEAN_WHOLE


@dataclass(slots=True)
class Scratch:
    """Allocates the scratch buffers of a node."""

    sizes: list[int] = field(default_factory=list)

    def add(self, nbytes: int) -> Operand:
        self.sizes.append(max(nbytes, 1))
        return Operand("scratch", len(self.sizes) - 1)


def merge_axes(shape: Shape, axes: Collection[int]) -> list[tuple[int, bool]]:
    """Return (size, is reduced) of maximal runs of dimensions of one kind, without dimensions of 1."""
    runs: list[tuple[int, bool]] = []
    for axis, dim in enumerate(shape):
        if dim == 1:
            continue
        is_reduced = axis in axes
        if runs and runs[-1][1] == is_reduced:
            runs[-1] = (runs[-1][0] * dim, is_reduced)
        else:
            runs.append((dim, is_reduced))
    return runs


def reduce_launches(
    kind: Reduction,
    dtype: np.dtype[Any],
    shape: Shape,
    axes: Collection[int],
    source: Operand,
    target: Operand,
    scratch: Scratch,
    divisor: int = 1,
) -> list[Launch]:
    """Reduce the array of `shape` at `source` over `axes` into `target`; at least one axis is longer than 1, or none has
    elements. Of several runs of reduced dimensions, the innermost is reduced first, which leaves least data.
    """
    if 0 in shape:
        row = fill(
            kind.neutral(dtype), target, prod(d for k, d in enumerate(shape) if k not in axes), dtype.name
        )
        return [] if row is None else [row]
    lanes_dtype = kind.lanes(dtype.name)
    lanes = scratch.add(loops.TILE * np.dtype(lanes_dtype).itemsize)
    runs = merge_axes(shape, axes)
    rows: list[Launch] = []
    held = dtype.name
    while True:
        last = max(k for k, (_, is_reduced) in enumerate(runs) if is_reduced)
        is_final = sum(is_reduced for _, is_reduced in runs) == 1
        outer, n, inner = prod(d for d, _ in runs[:last]), runs[last][0], prod(d for d, _ in runs[last + 1 :])
        after = dtype.name if is_final else lanes_dtype
        place = target if is_final else scratch.add(outer * inner * np.dtype(after).itemsize)
        words, reals = divisor_arguments(kind, dtype, divisor if is_final else 1)
        kernel = LoopKernel(kind.body, (held, after, lanes_dtype), 3 + len(words), len(reals))
        cost = 10 + int(outer * n * inner * kind.ns) + 3 * outer
        rows.append(Launch(kernel, (source, place, lanes), (outer, n, inner, *words), reals, cost))
        if is_final:
            return rows
        del runs[last]
        source, held = place, after


def divisor_arguments(
    kind: Reduction, dtype: np.dtype[Any], divisor: int
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    if not kind.divides:
        return (), ()
    return ((), (float(divisor),)) if dtype.kind == "f" else ((divisor,), ())


def fill(literal: str, target: Operand, count: int, dtype: str) -> Launch | None:
    """Return a launch that sets `count` elements to a literal of the expression language; None if there are none."""
    view = View(target, dtype, c_strides((count,), np.dtype(dtype).itemsize))
    return launch(f"y = {literal}", [], [("y", view)], (count,))


def normalised(axes: Sequence[int] | np.ndarray[Any, Any], rank: int) -> tuple[int, ...] | None:
    """Return the axes as non-negative numbers; None if one is out of range or repeated."""
    numbers = np.asarray(axes).reshape(-1).tolist()  # Python's integers take a fifth of the time of NumPy's
    found = tuple([axis + rank if axis < 0 else axis for axis in numbers])
    if len(set(found)) != len(found) or any(not 0 <= axis < rank for axis in found):
        return None
    return found
