"""The compiled loops of an `Epilogue`: what follows a convolution or product, for a block of it in cache, or a vector of it.

Adding a bias and ReLU are compiled into each kernel. Anything else elementwise is done by calling an elementwise kernel, which
adds no code for each function. It is called for whole rows where that is possible: short pieces of the rows of a residual are
read without prefetching.
"""

from __future__ import annotations

from aioexec.graph.kernels.epilogue import ADDS_BIAS, CALLS, CLIPS, RECTIFIES
from aioexec.graph.kernels.loop_language import (
    Pointer,
    Vector,
    call_elementwise,
    load_vector,
    offset,
    splat,
    vector_maximum,
    vector_minimum,
)


def call(
    y: Pointer, at: int, others: tuple[Pointer, ...], m: int, n: int, ldc: int, ends: int, kernel: int
) -> None:
    """Call `kernel`, if the epilogue `ends` calls one, for m rows of n elements from y[at] on."""
    if ends >= CALLS and m > 0:
        call_elementwise(kernel, y, at, others, m, n, ldc, ends)


def finish(y: Pointer, bias: Pointer, m: int, n: int, ldc: int, ends: int) -> None:
    """Apply the epilogue `ends`, except for calls, to m rows of n elements, ldc apart.

    Bias and ReLU fused take a third of the time of both.
    """
    ends = ends % CALLS
    if ends == 0:
        return
    for row in range(m):
        line = offset(y, row * ldc)
        if ends == ADDS_BIAS | RECTIFIES | CLIPS:
            for j in range(n):
                total = line[j] + bias[j]
                line[j] = 0 if total < 0 else 6 if total > 6 else total
        elif ends == ADDS_BIAS | RECTIFIES:
            for j in range(n):
                total = line[j] + bias[j]
                line[j] = 0 if total < 0 else total
        elif ends == ADDS_BIAS:
            for j in range(n):
                line[j] = line[j] + bias[j]
        elif ends == RECTIFIES:
            for j in range(n):
                line[j] = 0 if line[j] < 0 else line[j]
        else:
            for j in range(n):
                line[j] = 0 if line[j] < 0 else 6 if line[j] > 6 else line[j]


def finish_vector(total: Vector, bias: Pointer, ends: int) -> Vector:
    """Apply the epilogue `ends` to a vector; `bias` is for its first element."""
    if ends & ADDS_BIAS:
        total = total + load_vector(bias)
    if ends & RECTIFIES:
        total = vector_maximum(total, splat(bias, 0))
    if ends & CLIPS:
        total = vector_minimum(total, splat(bias, 6))
    return total
