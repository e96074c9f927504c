"""Epilogues: what a kernel that computes a convolution or product can apply to each part of its output."""

from __future__ import annotations

from aioexec.data_classes import dataclass

ADDS_BIAS = 1
RECTIFIES = 2
CLIPS = 4
CALLS = 8
MOST_OTHERS = 6
"""Operands of an elementwise kernel that an epilogue calls, besides the product; the tanh form of GELU has five."""
SCALAR, WHOLE, ALONG_ROWS = range(3)
"""How such an operand broadcasts: it has one element, or those of the output, or those of a row of it."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Operations that a loop kernel can apply to each part of its output while that is in cache.

    Attributes:
        word: the argument that selects them: 0 for none, or a sum of ADDS_BIAS (add a vector to each row), RECTIFIES (replace
            negative elements by 0, after that) and CLIPS (with RECTIFIES: replace those above 6 by 6). NaN is kept.
        output: the operand they are applied to; all launches of an operation together cover it.
        bias: the vector operand; not read without ADDS_BIAS.
        width: elements of a row.
        clips: whether the kernel supports CLIPS.
        others: the first of MOST_OTHERS operands for CALLS; None if the kernel does not support it.
        adds: the argument that is 1 if the kernel adds to its output instead of replacing it; None if it cannot.
        pitch: the argument that is the number of elements from one row of the output to the next; None if there is none.

    CALLS, after the others, calls an elementwise kernel (`Launch.calls`) whose inputs are the output so far and other operands,
    and whose only output replaces it. Then the word also has from bit 4 on the number of inputs, from bit 8 on the index of the
    output among them, and from bit 12 on two bits for each of the others: SCALAR, WHOLE or ALONG_ROWS.
    """

    word: int
    output: int
    bias: int
    width: int
    clips: bool = False
    others: int | None = None
    adds: int | None = None
    pitch: int | None = None
