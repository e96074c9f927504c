"""Loop bodies of L2Loss."""

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
