"""Constants that are one element, as many times as their shape says, and take no more memory than that element."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
SMALL: Final = 1 << 16  # bytes; a value up to this size lies in memory of its own, however it is listed


def is_one_repeated(array: Array) -> bool:
    """Whether all elements of an array are one in memory, so that it may be far larger than what there is."""
    return array.nbytes > SMALL and not any(array.strides)
