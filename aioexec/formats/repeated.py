"""Constants of which all elements are equal, stored as one element with strides of zero."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
SMALL: Final = 1 << 16  # bytes; a value up to this size is stored in full


def is_one_repeated(array: Array) -> bool:
    """Return whether all elements of an array share one memory location, so that its size says nothing about memory in use."""
    return array.nbytes > SMALL and not any(array.strides)
