"""CRC-32C (Castagnoli), the checksum of checkpoints and event files.

Files hold it masked, since a CRC over data that contains CRCs is weak (LevelDB's crc32c.h). The library is imported with this
module, not at the first checksum: its import reads a file, which would block an event loop.
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
    """Return the checksum of `data`, or of data with the checksum `before` followed by `data`.

    The GIL is released for more than 32 KiB.
    """
    return _extend(data, before)


def masked(checksum: int) -> int:
    """Mask a checksum as files hold it."""
    return (((checksum >> 15) | (checksum << 17)) + _DELTA) & 0xFFFFFFFF


def unmasked(stored: int) -> int:
    """Undo `masked`."""
    rotated = (stored - _DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF
