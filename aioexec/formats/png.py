"""PNG encoder for image summaries, 8 bits a channel, producing the files that libpng writes by default.

The op EncodePng uses Pillow, an optional dependency whose chunk and window sizes differ from libpng's. Summaries must work
without it and equal TensorFlow's: rows get the filters that libpng chooses, and compressed data is cut into chunks at the same
places. Files are identical as far as the zlib versions are.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES: Final = {1: 0, 2: 4, 3: 2, 4: 6}
_CHUNK: Final = 8192
"""Bytes of compressed data in a chunk."""
_AT_ONCE: Final = 1 << 20
"""Bytes of rows that are filtered at a time."""
_SMALL: Final = 16384
"""Bytes of data up to which libpng uses a smaller window."""


def encode_png(image: Array) -> bytes:
    """Encode an image [height, width, channels] of uint8 with at least one pixel."""
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    data = _compressed(
        _filtered(np.ascontiguousarray(image).reshape(height, width * channels), channels, width)
    )
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    return b"".join(
        (
            _SIGNATURE,
            _chunk(b"IHDR", header),
            *(_chunk(b"IDAT", piece) for piece in chunks),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _filtered(rows: Array, channels: int, width: int) -> bytes:
    """Filter each row with the filter of least absolute sum, and prepend the number of that filter."""
    above = np.zeros_like(rows)
    above[1:] = rows[:-1]
    unused = _unused_filters(len(rows), width)
    step = max(1, _AT_ONCE // rows.shape[1])
    return b"".join(
        _least(rows[at : at + step], above[at : at + step], channels, unused)
        for at in range(0, len(rows), step)
    )


def _least(rows: Array, above: Array, channels: int, unused: set[int]) -> bytes:
    left, corner = _shifted(rows, channels), _shifted(above, channels)
    candidates = np.stack([rows - guess for guess in _predictions(rows, left, above, corner)])
    cost = np.minimum(candidates, -candidates).sum(-1, dtype=np.int64)
    cost[list(unused)] = np.iinfo(np.int64).max
    chosen = cost.argmin(0)
    taken = candidates[chosen, np.arange(len(rows))]
    return np.concatenate([chosen[:, None].astype(np.uint8), taken], axis=1).tobytes()


def _shifted(rows: Array, channels: int) -> Array:
    shifted = np.zeros_like(rows)
    shifted[:, channels:] = rows[:, :-channels]
    return shifted


def _predictions(rows: Array, left: Array, above: Array, corner: Array) -> Iterator[Array]:
    """Yield the predictions of the filters None, Sub, Up, Average and Paeth."""
    yield np.zeros_like(rows)
    yield left
    yield above
    a, b, c = left.astype(np.int16), above.astype(np.int16), corner.astype(np.int16)
    yield ((a + b) // 2).astype(np.uint8)
    to_a, to_b, to_c = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    nearest = np.where((to_a <= to_b) & (to_a <= to_c), left, np.where(to_b <= to_c, above, corner))
    yield nearest


def _unused_filters(height: int, width: int) -> set[int]:
    """Return the filters that libpng does not try for an image of one row or one column."""
    return ({2, 3, 4} if height == 1 else set()) | ({1, 3, 4} if width == 1 else set())


def _compressed(data: bytes) -> bytes:
    bits = 15
    if len(data) <= _SMALL:
        while bits > 8 and len(data) + 262 <= 1 << (bits - 1):
            bits -= 1
    compressor = zlib.compressobj(6, zlib.DEFLATED, max(bits, 9), 8, zlib.Z_FILTERED)
    compressed = compressor.compress(data) + compressor.flush()
    return _with_window(compressed, len(data))


def _with_window(compressed: bytes, size: int) -> bytes:
    """Set the smallest window that covers the data in the zlib header, of which the two bytes must be a multiple of 31."""
    method, flags = compressed[0], compressed[1]
    bits = (method >> 4) + 8
    while bits > 8 and size <= 1 << (bits - 1):
        bits -= 1
    method = (bits - 8) << 4 | method & 0x0F
    flags &= 0xE0
    flags += 31 - ((method << 8) + flags) % 31
    return bytes([method, flags]) + compressed[2:]
