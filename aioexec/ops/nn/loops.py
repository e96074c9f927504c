"""Loop bodies of L2Loss and TopKV2."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer

BLOCK = 512
"""Squares that are summed in the element dtype before they are added to the total."""


def half_square_sum(t: Pointer, y: Pointer, n: int) -> int:
    """y[0] = sum(t ** 2) / 2."""
    total = 0.0
    for start in range(0, n, BLOCK):
        part = t[start] * t[start]
        for i in range(start + 1, min(start + BLOCK, n)):
            part += t[i] * t[i]
        total += part
    y[0] = total / 2
    return 0


def top_elements(x: Pointer, values: Pointer, indices: Pointer, rows: int, n: int, k: int) -> int:
    """The k largest elements of each row, descending; equal ones in order of position, NaN first."""
    for row in range(rows):
        first = row * k
        held = 0
        for i in range(n):
            value = x[row * n + i]
            place = first + held
            # Shift what the element exceeds; NaN differs from itself, and exceeds all but NaN.
            while place > first and (
                value > values[place - 1] or (value != value and values[place - 1] == values[place - 1])
            ):
                if place < first + k:
                    values[place] = values[place - 1]
                    indices[place] = indices[place - 1]
                place -= 1
            if place < first + k:
                values[place] = value
                indices[place] = i
                held = min(held + 1, k)
    return 0
