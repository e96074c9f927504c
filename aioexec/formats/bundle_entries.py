"""What the reader and the writer of tensor bundles, the checkpoints of the second format, have in common.

A bundle is an index, `<prefix>.index`, and data files with the bytes of tensors one after another. The index is a sorted table:
under the empty key a header, under the name of a tensor its entry. The entry of a tensor that was saved in parts lists these,
and has no data; each part has an entry of its own, under a key made of name and place.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aioexec.dtypes import DType, resource, variant
from aioexec.errors import InvalidArgumentError

Array = npt.NDArray[Any]

HEADER_KEY: Final = b""
VERSION: Final = 1
PIECE: Final = 1 << 20
"""Bytes that are read or written, and added to a checksum, at a time: the cache holds them, a cancelled step waits for them."""
IS_BIG_ENDIAN: Final = sys.byteorder == "big"

Proceed = Callable[[], None]
"""Called at intervals; raises if the work is cancelled."""


def go_on() -> None:
    """Never gives up."""


def index_name(prefix: str) -> str:
    return f"{prefix}.index"


def shard_name(prefix: str, shard: int, shards: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def key_of(name: str) -> bytes:
    """The key of a tensor."""
    return name.encode(errors="surrogateescape")


def check_storable(name: str, dtype: DType) -> None:
    """Raise InvalidArgumentError for what no checkpoint holds."""
    if dtype in (resource, variant):
        raise InvalidArgumentError(f"tensor {name!r}: values of {dtype.name} are not kept in checkpoints")


def as_bytes(value: Array) -> Array:
    """The memory of an array without gaps, byte by byte; no copy."""
    return value.reshape(-1).view(np.uint8)


def length_bytes(lengths: list[int]) -> bytes:
    """The lengths of strings as their checksum is over them."""
    wide = max(lengths, default=0) > 0xFFFFFFFF
    if not wide:
        return np.array(lengths, "<u4").tobytes()
    return b"".join(length.to_bytes(8 if length > 0xFFFFFFFF else 4, "little") for length in lengths)
