"""CRC-32C, the checksum of checkpoints and event files.

A file holds it masked: a checksum over data that holds checksums would tell little.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy.typing as npt

Data = bytes | bytearray | memoryview | npt.NDArray[Any]

_DELTA: Final = 0xA282EAD8


@cache
def _extend() -> Callable[[Any, int], int]:
    from crc32c import crc32c as extend

    return extend


def crc32c(data: Data, before: int = 0) -> int:
    """The checksum of bytes, or of what has the checksum `before` and these bytes behind it.

    The interpreter is released while more than 32 KiB are read, so that an event loop can run meanwhile.
    """
    return _extend()(data, before)


def masked(checksum: int) -> int:
    """As a file holds it."""
    return (((checksum >> 15) | (checksum << 17)) + _DELTA) & 0xFFFFFFFF


def unmasked(stored: int) -> int:
    """The checksum that a file holds as `stored`."""
    rotated = (stored - _DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF
