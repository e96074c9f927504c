"""Bitwise ops under the names of `tf.bitwise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.ops.math.bitwise import (
        bitwise_and as bitwise_and,
        bitwise_or as bitwise_or,
        bitwise_xor as bitwise_xor,
        invert as invert,
        left_shift as left_shift,
        right_shift as right_shift,
    )
else:
    __getattr__, __dir__ = public_names(__name__)
