"""CRC-32C, the checksum of checkpoints and event files.

A file holds it masked: a checksum over data that contains checksums is weak. The library is loaded with this module, not
by the first checksum: it reads its own version from a file, for which an event loop would wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import crc32c as library
import numpy.typing as npt

Data = bytes | bytearray | memoryview | npt.NDArray[Any]

_DELTA: Final = 0xA282EAD8
_extend: Final[Callable[[Any, int], int]] = library.crc32c


def crc32c(data: Data, before: int = 0) -> int:
    """The checksum of bytes, or of what has the checksum `before` and these bytes behind it.

    The interpreter is released while more than 32 KiB are read, so that an event loop can run meanwhile.
    """
    return _extend(data, before)


def masked(checksum: int) -> int:
    """As a file holds it."""
    return (((checksum >> 15) | (checksum << 17)) + _DELTA) & 0xFFFFFFFF


def unmasked(stored: int) -> int:
    """The checksum that a file holds as `stored`."""
    rotated = (stored - _DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF
