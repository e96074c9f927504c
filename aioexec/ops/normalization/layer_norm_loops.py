"""The loop body of layer normalisation: a row is read once, and is in the first-level cache until its result is written."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, Real, offset, sqrt
from aioexec.ops.reduction.loops import BLOCK


def normalize_layer(
    x: Pointer,
    residual: Pointer,
    scale: Pointer,
    shift: Pointer,
    y: Pointer,
    unit: Pointer,
    rows: int,
    n: int,
    adds: int,
    epsilon: float,
) -> int:
    """y = (v - mean) / sqrt(variance + epsilon) * scale + shift in each row of n elements; v is x or, if `adds`, x + residual.

    `unit` is one element of scratch memory, which rounds a float64 to the dtype.
    """
    for r in range(rows):
        line, source = offset(y, r * n), offset(x, r * n)
        if adds != 0:
            unit[0] = add_and_sum(source, offset(residual, r * n), line, n) / n
        else:
            unit[0] = copy_and_sum(source, line, n) / n
        mean = unit[0]
        unit[0] = 1.0 / sqrt(center(line, mean, n) / n + epsilon)
        factor = unit[0]
        for i in range(n):
            line[i] = line[i] * (factor * scale[i]) + shift[i]
    return 0


def add_and_sum(x: Pointer, residual: Pointer, y: Pointer, n: int) -> float:
    """y = x + residual; return the sum of y."""
    total = 0.0
    for start in range(0, n, BLOCK):
        y[start] = x[start] + residual[start]
        part = y[start]
        for i in range(start + 1, min(start + BLOCK, n)):
            y[i] = x[i] + residual[i]
            part += y[i]
        total += part
    return total


def copy_and_sum(x: Pointer, y: Pointer, n: int) -> float:
    """y = x; return the sum."""
    total = 0.0
    for start in range(0, n, BLOCK):
        y[start] = x[start]
        part = y[start]
        for i in range(start + 1, min(start + BLOCK, n)):
            y[i] = x[i]
            part += y[i]
        total += part
    return total


def center(x: Pointer, mean: Real, n: int) -> float:
    """x -= mean; return the sum of squares of x."""
    total = 0.0
    for start in range(0, n, BLOCK):
        x[start] -= mean
        part = x[start] * x[start]
        for i in range(start + 1, min(start + BLOCK, n)):
            x[i] -= mean
            part += x[i] * x[i]
        total += part
    return total
