"""Operations on bits under the names of `tf.bitwise`."""

from __future__ import annotations

from aioexec.ops.bitwise import (
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    invert as invert,
    left_shift as left_shift,
    right_shift as right_shift,
)
