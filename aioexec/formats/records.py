"""TFRecord files: records of any bytes, each with its length and checksums; the file may be compressed.

A record is its length (8 bytes), the masked checksum of these, its data, and the masked checksum of the data. A length is only
believed when its checksum is right, and data is read in pieces, so a bad file cannot cause an allocation larger than itself.
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
    """The content of a compressed file, read on demand."""

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
    """A file's content, of which only `read` may be asked for.

    Raises:
        InvalidArgumentError: no such compression.
    """
    if not compression or compression == "NONE":
        return file
    if compression not in _WINDOWS:
        raise InvalidArgumentError(f"Unsupported compression_type: {compression}")
    return _Inflated(file, _WINDOWS[compression])


def read_records(file: BinaryIO, compression: str = "") -> Iterator[tuple[int, bytes]]:
    """The place and the data of each record; places are those of the content, not of a compressed file.

    A file may still be written to: it ends where the beginning of a record is not whole.

    Raises:
        DataLossError: the file is damaged, or ends within the data of a record.
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
    """As many bytes as there are, up to `size`."""
    parts, missing = [], size
    while missing > 0:
        part = content.read(min(missing, _PIECE))
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def encode_record(data: bytes) -> bytes:
    """A record of these bytes."""
    return b"".join((_header(len(data)), data, _CHECKSUM.pack(masked(crc32c(data)))))


@lru_cache(1 << 10)
def _header(length: int) -> bytes:
    """What a record begins with; lengths come again and again."""
    encoded = struct.pack("<Q", length)
    return encoded + _CHECKSUM.pack(masked(crc32c(encoded)))
