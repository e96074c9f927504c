"""Loop bodies of ArgMax and ArgMin, on arrays [outer, n, inner]. The first of equal elements wins; a NaN never does."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, Real, inf, offset

TILE = 128
"""Columns that are compared together; `best` holds the extreme element of each so far, `places` its row."""


def arg_maximum(
    x: Pointer, y: Pointer, best: Pointer, places: Pointer, outer: int, n: int, inner: int
) -> int:
    return arg_extremum(True, x, y, best, places, outer, n, inner)


def arg_minimum(
    x: Pointer, y: Pointer, best: Pointer, places: Pointer, outer: int, n: int, inner: int
) -> int:
    return arg_extremum(False, x, y, best, places, outer, n, inner)


def arg_extremum(
    largest: bool, x: Pointer, y: Pointer, best: Pointer, places: Pointer, outer: int, n: int, inner: int
) -> int:
    """Find the extreme element; `largest` is constant after inlining."""
    for o in range(outer):
        source = offset(x, o * n * inner)
        target = offset(y, o * inner)
        is_long = inner == 1 and n >= 4 * TILE
        if inner == 1 and not is_long:
            target[0] = arg_row(largest, source, n)
        else:
            for start in range(0, inner, TILE):
                width = TILE if is_long else min(TILE, inner - start)
                rows = n // TILE if is_long else n
                rows_of = places if is_long else offset(target, start)
                arg_columns(
                    largest, offset(source, start), rows_of, best, rows, width, TILE if is_long else inner
                )
            if is_long:
                target[0] = best_column(largest, source, places, best, n)
    return 0


def is_better(largest: bool, value: Real, found: Real) -> bool:
    """Return whether `value` replaces `found`; a NaN found first counts as the worst infinity, only replaced by better ones."""
    if largest:
        return bool(value > found or (found != found and value > -inf))
    return bool(value < found or (found != found and value < inf))


def arg_row(largest: bool, x: Pointer, n: int) -> int:
    found = x[0]
    index = 0
    for i in range(1, n):
        if is_better(largest, x[i], found):
            found = x[i]
            index = i
    return index


def best_column(largest: bool, x: Pointer, places: Pointer, best: Pointer, n: int) -> int:
    """Combine the TILE columns of a long row with the remaining elements; of equal elements the first one wins."""
    rows = n // TILE
    rest = offset(x, rows * TILE)
    for i in range(n - rows * TILE):
        if is_better(largest, rest[i], best[i]):
            best[i] = rest[i]
            places[i] = rows
    found = best[0]
    index = places[0] * TILE
    for i in range(1, TILE):
        place = places[i] * TILE + i
        if is_better(largest, best[i], found) or (best[i] == found and place < index):
            found = best[i]
            index = place
    return int(index)


def arg_columns(
    largest: bool, x: Pointer, y: Pointer, best: Pointer, n: int, width: int, stride: int
) -> None:
    for i in range(width):
        best[i] = x[i]
        y[i] = 0
    for r in range(1, n):
        row = offset(x, r * stride)
        for i in range(width):
            better = is_better(largest, row[i], best[i])
            best[i] = row[i] if better else best[i]
            y[i] = r if better else y[i]
