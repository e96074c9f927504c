"""Loop bodies of softmax and its losses, over rows of logits; an elementwise launch between them computes the exponentials."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, Real, log, offset
from aioexec.ops.reduction.loops import sum_row

TILE, LANES = 64, 16
"""Columns of a long row whose maxima are computed side by side, and of these those that are left for scalars."""


def shift_rows(x: Pointer, y: Pointer, rows: int, n: int) -> int:
    """y = x - the maximum of each row, so that exp(y) is at most 1 and at least one element is 1."""
    for r in range(rows):
        source = offset(x, r * n)
        target = offset(y, r * n)
        largest = largest_of(source, target, n)
        for i in range(n):
            target[i] = source[i] - largest
    return 0


def largest_of(x: Pointer, spare: Pointer, n: int) -> Real:
    """Return the maximum; any element if there is a NaN. A long row uses `spare`, n elements of scratch memory."""
    if n < 2 * TILE:
        return largest_in(x, n)
    for i in range(TILE):
        spare[i] = x[i]
    for start in range(TILE, n, TILE):
        part = offset(x, start)
        for i in range(min(TILE, n - start)):
            spare[i] = part[i] if part[i] > spare[i] else spare[i]
    half = TILE // 2
    while half >= LANES:
        upper = offset(spare, half)
        for i in range(half):
            spare[i] = upper[i] if upper[i] > spare[i] else spare[i]
        half //= 2
    return largest_in(spare, LANES)


def largest_in(x: Pointer, n: int) -> Real:
    largest = x[0]
    for i in range(1, n):
        largest = x[i] if x[i] > largest else largest
    return largest


def normalise_rows(y: Pointer, unit: Pointer, rows: int, n: int) -> int:
    """Divide each row by its sum. `unit` is one element of scratch memory, which rounds a float64 to the dtype."""
    for r in range(rows):
        row = offset(y, r * n)
        unit[0] = 1.0 / sum_row(row, n, 0.0)
        scale = unit[0]
        for i in range(n):
            row[i] *= scale
    return 0


def subtract_logs(e: Pointer, y: Pointer, unit: Pointer, rows: int, n: int) -> int:
    """y -= log(sum of e) in each row."""
    for r in range(rows):
        row = offset(y, r * n)
        unit[0] = log(sum_row(offset(e, r * n), n, 0.0))
        scale = unit[0]
        for i in range(n):
            row[i] -= scale
    return 0


def cross_entropy(
    shifted: Pointer, labels: Pointer, loss: Pointer, backprop: Pointer, unit: Pointer, rows: int, n: int
) -> int:
    """Compute losses for distributions, and softmax - labels. `backprop` holds exp(shifted) on entry."""
    for r in range(rows):
        s, p, e = offset(shifted, r * n), offset(labels, r * n), offset(backprop, r * n)
        total = sum_row(e, n, 0.0)
        unit[0] = log(total)
        normaliser = unit[0]
        part = p[0] * (normaliser - s[0])
        for i in range(1, n):
            part += p[i] * (normaliser - s[i])
        loss[r] = part
        unit[0] = 1.0 / total
        scale = unit[0]
        for i in range(n):
            e[i] = e[i] * scale - p[i]
    return 0


def sparse_cross_entropy(
    shifted: Pointer, labels: Pointer, loss: Pointer, backprop: Pointer, unit: Pointer, rows: int, n: int
) -> int:
    """As `cross_entropy` for class indices; returns 1 if one is not in [0, n)."""
    for r in range(rows):
        label = int(labels[r])
        if label < 0 or label >= n:
            return 1
        e = offset(backprop, r * n)
        total = sum_row(e, n, 0.0)
        loss[r] = log(total) - shifted[r * n + label]
        unit[0] = 1.0 / total
        scale = unit[0]
        for i in range(n):
            e[i] *= scale
        e[label] -= 1
    return 0
