"""Definitions shared by the reader and the writer of tensor bundles (TensorFlow's checkpoint format V2).

A bundle consists of an index, `<prefix>.index`, and data files, `<prefix>.data-<shard>-of-<shards>`, with the bytes of tensors
one after another. The index is a sorted table from the empty key to a BundleHeaderProto, and from the name of a tensor to its
BundleEntryProto. The entry of a tensor saved in slices lists the slices and has no data; each slice has an entry of its own
(`TensorSlice.key`).
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
"""Bytes read or written, and added to a checksum, at a time: small enough for the cache and for a prompt cancellation."""
IS_BIG_ENDIAN: Final = sys.byteorder == "big"

Proceed = Callable[[], None]
"""Called at intervals; raises if the work is cancelled."""


def go_on() -> None:
    """The default `Proceed`: never raises."""


def index_name(prefix: str) -> str:
    return f"{prefix}.index"


def shard_name(prefix: str, shard: int, shards: int) -> str:
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def key_of(name: str) -> bytes:
    """Return the key of a tensor in the index."""
    return name.encode(errors="surrogateescape")


def check_storable(name: str, dtype: DType) -> None:
    """Raise InvalidArgumentError for a dtype that checkpoints do not hold (resource, variant)."""
    if dtype in (resource, variant):
        raise InvalidArgumentError(f"tensor {name!r}: values of {dtype.name} are not kept in checkpoints")


def as_bytes(value: Array) -> Array:
    """Return a view of a contiguous array as a vector of uint8."""
    return value.reshape(-1).view(np.uint8)


def length_bytes(lengths: list[int]) -> bytes:
    """Return string lengths as their checksum covers them: 4 bytes each, little-endian; 8 for those over 32 bits."""
    wide = max(lengths, default=0) > 0xFFFFFFFF
    if not wide:
        return np.array(lengths, "<u4").tobytes()
    return b"".join(length.to_bytes(8 if length > 0xFFFFFFFF else 4, "little") for length in lengths)
