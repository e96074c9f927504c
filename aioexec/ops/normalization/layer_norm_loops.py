"""The loop body of layer normalisation: a row is read once, and is in the first-level cache until its result is written."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, Real, offset, sqrt
from aioexec.ops.reduction.loops import BLOCK, sum_row


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
        line = offset(y, r * n)
        source = offset(x, r * n)
        if adds != 0:
            other = offset(residual, r * n)
            for i in range(n):
                line[i] = source[i] + other[i]
        else:
            for i in range(n):
                line[i] = source[i]
        unit[0] = sum_row(line, n, 0.0) / n
        mean = unit[0]
        for i in range(n):
            line[i] -= mean
        unit[0] = 1.0 / sqrt(sum_of_squares(line, n, 0.0) / n + epsilon)
        factor = unit[0]
        for i in range(n):
            line[i] = line[i] * (factor * scale[i]) + shift[i]
    return 0


def sum_of_squares(x: Pointer, n: int, zero: Real) -> Real:
    """Sum the squares of a row; `zero` determines the dtype of the total."""
    total = zero
    for start in range(0, n, BLOCK):
        part = x[start] * x[start]
        for i in range(start + 1, min(start + BLOCK, n)):
            part += x[i] * x[i]
        total += part
    return total
