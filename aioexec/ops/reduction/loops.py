"""Loop bodies of reductions on arrays [outer, n, inner]; the middle dimension is reduced.

Every reduction is a sequence of few of these. Contiguous elements are processed innermost and accumulated into `lanes`, a
strip that stays in the L1 cache: TILE columns at a time or, if there are few columns, several rows side by side. Sums
accumulate in float64 or int64, so that their error does not grow with the length, and means of integers below 64 bits cannot
overflow.
"""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, Real, offset

TILE = 256
"""Number of accumulators in `lanes`."""

BLOCK = 512
"""Elements of a row that are summed in their own precision before they are added to the total."""

PRODUCT, MAXIMUM, MINIMUM = 0, 1, 2


def total_real(x: Pointer, y: Pointer, lanes: Pointer, outer: int, n: int, inner: int, divisor: float) -> int:
    """y[outer, inner] = sums of floats / divisor; lanes are float64."""
    for o in range(outer):
        source = offset(x, o * n * inner)
        target = offset(y, o * inner)
        if inner == 1:
            target[0] = sum_row(source, n, 0.0) / divisor
        else:
            for start in range(0, inner, TILE):
                width = min(TILE, inner - start)
                sum_columns(offset(source, start), lanes, n, width, inner)
                for i in range(width):
                    target[start + i] = lanes[i] / divisor
    return 0


def total_whole(x: Pointer, y: Pointer, lanes: Pointer, outer: int, n: int, inner: int, divisor: int) -> int:
    """y[outer, inner] = sums of integers / divisor, truncated; lanes are int64."""
    for o in range(outer):
        source = offset(x, o * n * inner)
        target = offset(y, o * inner)
        if inner == 1:
            target[0] = divide(sum_row(source, n, 0), divisor)
        else:
            for start in range(0, inner, TILE):
                width = min(TILE, inner - start)
                sum_columns(offset(source, start), lanes, n, width, inner)
                for i in range(width):
                    target[start + i] = divide(lanes[i], divisor)
    return 0


def divide(total: int, divisor: int) -> int:
    """Divide and truncate towards zero; a plain sum has divisor 1 and skips the division."""
    if divisor == 1:
        return total
    return total // divisor if total >= 0 else -(-total // divisor)


def sum_row(x: Pointer, n: int, zero: Real) -> Real:
    """Sum a row; `zero` determines the dtype of the total."""
    total = zero
    for start in range(0, n, BLOCK):
        part = x[start]
        for i in range(start + 1, min(start + BLOCK, n)):
            part += x[i]
        total += part
    return total


def rows_at_once(n: int, width: int, stride: int) -> int:
    """Return how many adjacent rows to accumulate side by side to fill the lanes."""
    group = TILE // width
    return group if stride == width and n >= 2 * group else 1


def sum_columns(x: Pointer, lanes: Pointer, n: int, width: int, stride: int) -> None:
    """lanes[i] = sum over r < n of x[r * stride + i], i < width."""
    group = rows_at_once(n, width, stride)
    wide = group * width
    chunks = n // group
    for i in range(wide):
        lanes[i] = x[i]
    for r in range(1, chunks):
        row = offset(x, r * group * stride)
        for i in range(wide):
            lanes[i] += row[i]
    rest = offset(x, chunks * group * stride)
    for i in range((n - chunks * group) * width):
        lanes[i] += rest[i]
    while group > 1:
        half = (group + 1) // 2
        for i in range((group - half) * width):
            lanes[i] += lanes[half * width + i]
        group = half


def product(x: Pointer, y: Pointer, lanes: Pointer, outer: int, n: int, inner: int) -> int:
    """y[outer, inner] = products; lanes as x."""
    return fold(PRODUCT, x, y, lanes, outer, n, inner)


def maximum(x: Pointer, y: Pointer, lanes: Pointer, outer: int, n: int, inner: int) -> int:
    """y[outer, inner] = maxima, NaN where there is one; lanes as x. On bools: whether any is true."""
    return fold(MAXIMUM, x, y, lanes, outer, n, inner)


def minimum(x: Pointer, y: Pointer, lanes: Pointer, outer: int, n: int, inner: int) -> int:
    """y[outer, inner] = minima, NaN where there is one; lanes as x. On bools: whether all are true."""
    return fold(MINIMUM, x, y, lanes, outer, n, inner)


def combine(how: int, a: Real, b: Real) -> Real:
    """Combine two elements; `how` is constant after inlining. A NaN in `a` is kept."""
    if how == PRODUCT:
        return a * b
    if how == MAXIMUM:
        return a if (a >= b or a != a) else b
    return a if (a <= b or a != a) else b


def fold(how: int, x: Pointer, y: Pointer, lanes: Pointer, outer: int, n: int, inner: int) -> int:
    for o in range(outer):
        source = offset(x, o * n * inner)
        target = offset(y, o * inner)
        if inner == 1 and n < 2 * TILE:
            target[0] = fold_row(how, source, n)
        else:
            for start in range(0, inner, TILE):
                width = min(TILE, inner - start)
                fold_columns(how, offset(source, start), lanes, n, width, inner)
                for i in range(width):
                    target[start + i] = lanes[i]
    return 0


def fold_row(how: int, x: Pointer, n: int) -> Real:
    """Reduce a short row: comparing without NaN and counting NaN separately shortens the dependency chain."""
    a = x[0]
    unordered = 0
    for i in range(1, n):
        b = x[i]
        unordered += b != b
        if how == PRODUCT:
            a *= b
        elif how == MAXIMUM:
            a = b if b > a else a
        else:
            a = b if b < a else a
    if how != PRODUCT and unordered > 0:
        for i in range(n):
            if x[i] != x[i]:
                a = x[i]
    return a


def fold_columns(how: int, x: Pointer, lanes: Pointer, n: int, width: int, stride: int) -> None:
    """lanes[i] = reduction over r < n of x[r * stride + i], i < width."""
    group = rows_at_once(n, width, stride)
    wide = group * width
    chunks = n // group
    for i in range(wide):
        lanes[i] = x[i]
    for r in range(1, chunks):
        row = offset(x, r * group * stride)
        for i in range(wide):
            lanes[i] = combine(how, lanes[i], row[i])
    rest = offset(x, chunks * group * stride)
    for i in range((n - chunks * group) * width):
        lanes[i] = combine(how, lanes[i], rest[i])
    while group > 1:
        half = (group + 1) // 2
        for i in range((group - half) * width):
            lanes[i] = combine(how, lanes[i], lanes[half * width + i])
        group = half
