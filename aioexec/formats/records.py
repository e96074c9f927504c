"""TFRecord files: records of arbitrary bytes with lengths and checksums, optionally compressed.

A record is its length (uint64), the masked CRC-32C of the length, the data, and the masked CRC-32C of the data. A length is
used only after its checksum was verified, and data is read in pieces, so that a damaged file cannot cause an allocation larger
than itself.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import BinaryIO, Final

from aioexec.errors import DataLossError, InvalidArgumentError
from aioexec.formats.crc32c import crc32c, masked

_HEADER: Final = struct.Struct("<QI")
_CHECKSUM: Final = struct.Struct("<I")
_PIECE: Final = 1 << 20
_WINDOWS: Final = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS + 16}


class _Inflated:
    """A stream that decompresses a file on demand."""

    def __init__(self, file: BinaryIO, window: int) -> None:
        self._file = file
        self._inflater = zlib.decompressobj(window)
        self._window = window
        self._pending = b""

    def read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing > 0:
            if self._inflater.eof:
                self._pending = self._inflater.unused_data or self._pending
                self._inflater = zlib.decompressobj(self._window)
            data = self._pending or self._file.read(_PIECE)
            if not data:
                break
            try:
                part = self._inflater.decompress(data, missing)
            except zlib.error as error:
                raise DataLossError(f"inflate() failed: {error}") from error
            self._pending = self._inflater.unconsumed_tail
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def inflated(file: BinaryIO, compression: str) -> BinaryIO | _Inflated:
    """Return a stream of the file's decompressed content; only its `read` may be called.

    Raises:
        InvalidArgumentError: the compression is unknown.
    """
    if not compression or compression == "NONE":
        return file
    if compression not in _WINDOWS:
        raise InvalidArgumentError(f"Unsupported compression_type: {compression}")
    return _Inflated(file, _WINDOWS[compression])


def read_records(file: BinaryIO, compression: str = "") -> Iterator[tuple[int, bytes]]:
    """Yield offset and data of each record; offsets are those in the decompressed content.

    The file may still be growing: an incomplete record header at its end ends the iteration.

    Raises:
        DataLossError: a record is damaged or its data is truncated.
    """
    content, place = inflated(file, compression), 0
    while len(header := _read(content, _HEADER.size)) == _HEADER.size:
        length, checksum = _HEADER.unpack(header)
        if masked(crc32c(header[:8])) != checksum:
            doubt = "" if place else " (Is this even a TFRecord file?)"
            raise DataLossError(f"corrupted record at {place}{doubt}")
        data = _whole(content, length, place)
        (checksum,) = _CHECKSUM.unpack(_whole(content, _CHECKSUM.size, place))
        if masked(crc32c(data)) != checksum:
            raise DataLossError(f"corrupted record at {place + _HEADER.size}")
        yield place, data
        place += _HEADER.size + length + _CHECKSUM.size


def _whole(content: BinaryIO | _Inflated, size: int, place: int) -> bytes:
    data = _read(content, size)
    if len(data) < size:
        raise DataLossError(f"truncated record at {place}' failed with Read less bytes than requested")
    return data


def _read(content: BinaryIO | _Inflated, size: int) -> bytes:
    """Read up to `size` bytes, fewer only at the end of the file."""
    parts, missing = [], size
    while missing > 0:
        part = content.read(min(missing, _PIECE))
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def encode_record(data: bytes) -> bytes:
    """Encode a record."""
    return b"".join((_header(len(data)), data, _CHECKSUM.pack(masked(crc32c(data)))))


@lru_cache(1 << 10)
def _header(length: int) -> bytes:
    """Encode length and checksum of the length; cached, since lengths repeat."""
    encoded = struct.pack("<Q", length)
    return encoded + _CHECKSUM.pack(masked(crc32c(encoded)))
