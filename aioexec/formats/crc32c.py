"""CRC-32C (Castagnoli), the checksum of checkpoints and event files.

Files hold it masked, since a CRC over data that contains CRCs is weak (LevelDB's crc32c.h). The library is imported with this
module, not at the first checksum: its import reads a file, which would block an event loop. Of the library only the extension
module is imported: the package itself looks its version up among all installed distributions, which takes as long as the
checksum of a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any, Final

import numpy.typing as npt

Data = bytes | bytearray | memoryview | npt.NDArray[Any]

_DELTA: Final = 0xA282EAD8


def _extension() -> Any:
    """The library's extension module, without its package.

    Raises:
        ModuleNotFoundError: the library is not installed.
    """
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = None if places is None else PathFinder.find_spec("crc32c._crc32c", places)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError("aioexec needs the package crc32c", name="crc32c")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_extend: Final[Callable[[Any, int], int]] = _extension().crc32c


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
