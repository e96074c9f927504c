"""CRC-32C, the checksum of checkpoints and event files.

A file holds it masked: a checksum over data that holds checksums would tell little.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Data = bytes | bytearray | memoryview | npt.NDArray[Any]

_DELTA: Final = 0xA282EAD8
_PIECE: Final = 1 << 20
"""Bytes a call is given: it keeps the interpreter from other threads meanwhile."""


@cache
def _extend() -> Callable[[int, Any], int]:
    import google_crc32c

    return google_crc32c.extend  # type: ignore[no-any-return]


def crc32c(data: Data, before: int = 0) -> int:
    """The checksum of bytes, or of what has the checksum `before` and these bytes behind it."""
    extend = _extend()
    if isinstance(data, bytes) and len(data) <= _PIECE:  # records of a few bytes are checked by the million
        return extend(before, data)
    view = np.frombuffer(data, np.uint8)
    for at in range(0, view.size, _PIECE):
        before = extend(before, view[at : at + _PIECE])
    return before


def masked(checksum: int) -> int:
    """As a file holds it."""
    return (((checksum >> 15) | (checksum << 17)) + _DELTA) & 0xFFFFFFFF


def unmasked(stored: int) -> int:
    """The checksum that a file holds as `stored`."""
    rotated = (stored - _DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF
