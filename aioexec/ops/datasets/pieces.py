"""The records of files, read piece by piece; every function blocks, and is called on a worker.

A piece is read from a `Place`, which has all it takes to go on there, so that no file stays open between two pieces, and one
whose result was lost can be read again.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from aioexec.data_classes import dataclass
from aioexec.errors import DataLossError, InvalidArgumentError, OpError
from aioexec.formats.crc32c import crc32c, masked
from aioexec.formats.file_errors import canonical
from aioexec.formats.sequential_files import open_input
from aioexec.resources.datasets.files import Open, Piece, Rest

PIECE: Final = 256 * 1024
"""Bytes of a piece, if the dataset asks for no more."""
_HEADER: Final = struct.Struct("<QI")
_CHECKSUM: Final = struct.Struct("<I")
_WINDOWS: Final = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS + 16}


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A position in the content of a file.

    Attributes:
        path: the file.
        window: of the compression; None if there is none.
        size: bytes to read at once.
        offset: bytes of the file that were read.
        inflater: what decompresses from here on, which is not modified; None at the beginning.
        pending: bytes of the file that were read, but not decompressed.
    """

    path: bytes
    window: int | None
    size: int
    offset: int = 0
    inflater: Any = None
    pending: bytes = b""


def place_of(path: bytes, compression: str, size: int) -> Place:
    """Return the beginning of a file.

    Raises:
        InvalidArgumentError: the compression is unknown.
    """
    if compression not in ("", "NONE", *_WINDOWS):
        raise InvalidArgumentError(f"Unsupported compression_type: {compression}.")
    return Place(path, _WINDOWS.get(compression), max(size, PIECE))


def read_on(place: Place, size: int) -> tuple[bytes, Place]:
    """Return up to `size` bytes of the content, fewer only at its end, and the place after them.

    Raises:
        DataLossError: the file cannot be decompressed.
        OpError: it cannot be read.
    """
    try:
        with open_input(place.path) as file:
            file.seek(place.offset)
            if place.window is None:
                data = file.read(size)
                return data, replace(place, offset=place.offset + len(data))
            return _inflated(place, place.window, size, file.read)
    except OSError as error:
        raise canonical(place.path, error) from error


def _inflated(place: Place, window: int, size: int, read: Callable[[int], bytes]) -> tuple[bytes, Place]:
    inflater = zlib.decompressobj(window) if place.inflater is None else place.inflater.copy()
    pending, offset, parts, missing = place.pending, place.offset, list[bytes](), size
    while missing > 0:
        if inflater.eof:  # another member follows, or nothing
            pending = inflater.unused_data or pending
            inflater = zlib.decompressobj(window)
        if not pending:
            pending = read(PIECE)
            offset += len(pending)
            if not pending:
                break
        try:
            part = inflater.decompress(pending, missing)
        except zlib.error as error:
            raise DataLossError(f"inflate() failed: {error}") from error
        pending = inflater.unconsumed_tail
        parts.append(part)
        missing -= len(part)
    return b"".join(parts), replace(place, offset=offset, inflater=inflater, pending=pending)


def _more(place: Place, carried: bytes) -> tuple[bytes, Place, bool]:
    """Return the content that follows, appended to what is left, the place after it, and whether that is the end.

    What is left doubles, so that a long record is not copied too often.
    """
    data, after = read_on(place, max(place.size, len(carried)))
    return carried + data, after, not data


def _failing(error: OpError) -> Rest:
    def fail() -> Piece:
        raise error

    return fail


# Lines


def lines(compression: str, size: int) -> Open:
    """Return the reader of lines, without their ends."""
    return lambda path: _lines(place_of(path, compression, size), b"")


def _lines(place: Place, carried: bytes) -> Piece:
    content, after, is_end = _more(place, carried)
    if is_end:
        return Piece([content.removesuffix(b"\r")] if content else [], None)
    found = content.split(b"\n")
    last = found.pop()
    return Piece([line.removesuffix(b"\r") for line in found], partial(_lines, after, last))


# Records of TFRecord files


def records(compression: str, size: int) -> Open:
    """Return the reader of the records of TFRecord files; a damaged one is an error after those before it."""
    return lambda path: _records(place_of(path, compression, size), b"", 0)


def _records(place: Place, carried: bytes, start: int) -> Piece:
    """Read the records of a piece of content; what is left begins at `start` of all."""
    content, after, is_end = _more(place, carried)
    found: list[bytes] = []
    at = 0
    try:
        while len(content) - at >= _HEADER.size:
            length, checksum = _HEADER.unpack_from(content, at)
            if masked(crc32c(content[at : at + 8])) != checksum:
                doubt = "" if start + at else " (Is this even a TFRecord file?)"
                raise DataLossError(f"corrupted record at {start + at}{doubt}")
            begin = at + _HEADER.size
            end = begin + length
            if len(content) < end + _CHECKSUM.size:
                if is_end:
                    raise DataLossError(
                        f"truncated record at {start + at}' failed with Read less bytes than requested"
                    )
                break
            data = content[begin:end]
            (checksum,) = _CHECKSUM.unpack_from(content, end)
            if masked(crc32c(data)) != checksum:
                raise DataLossError(f"corrupted record at {start + begin}")
            found.append(data)
            at = end + _CHECKSUM.size
        if is_end and at < len(content) and len(content) - at < _HEADER.size:
            raise DataLossError(
                f"truncated record at {start + at}' failed with Read less bytes than requested"
            )
    except DataLossError as error:
        return Piece(found, _failing(error))
    return Piece(found, None if is_end else partial(_records, after, content[at:], start + at))


# Records of equal length


@dataclass(frozen=True, slots=True)
class Lengths:
    """Bytes of a record, and of what precedes and follows all records of a file."""

    header: int
    record: int
    footer: int

    def check(self) -> None:
        """Check that such records exist.

        Raises:
            InvalidArgumentError: a length is negative, or that of a record 0.
        """
        if self.header < 0:
            raise InvalidArgumentError("header_bytes must be >= 0")
        if self.record <= 0:
            raise InvalidArgumentError("record_bytes must be > 0")
        if self.footer < 0:
            raise InvalidArgumentError("footer_bytes must be >= 0")

    def check_body(self, path: bytes, body: int) -> None:
        """Check the number of bytes between header and footer of a file.

        Raises:
            InvalidArgumentError: it is no multiple of the length of a record.
        """
        if body % self.record:
            raise InvalidArgumentError(
                f"Excluding the header ({self.header} bytes) and footer ({self.footer} bytes), input file "
                f'"{os.fsdecode(path)}" has body length {body} bytes, which is not an exact multiple of the record '
                f"length ({self.record} bytes)."
            )


def fixed_length_records(lengths: Lengths, compression: str, size: int) -> Open:
    """Return the reader of records of equal length."""

    def first(path: bytes) -> Piece:
        place = place_of(path, compression, size)
        if place.window is None:
            try:
                whole = os.stat(path).st_size
            except (OSError, ValueError) as error:
                raise canonical(path, error) from error
            lengths.check_body(path, max(0, whole - lengths.header - lengths.footer))
        _, after = read_on(place, lengths.header)
        return _fixed(lengths, after, b"", 0)

    return first


def _fixed(lengths: Lengths, place: Place, carried: bytes, number: int) -> Piece:
    """Read the records of a piece; `number` of them precede what is left."""
    content, after, is_end = _more(place, carried)
    count = max(0, len(content) - lengths.footer) // lengths.record
    found = [content[k * lengths.record : (k + 1) * lengths.record] for k in range(count)]
    left, number = content[count * lengths.record :], number + count
    if not is_end:
        return Piece(found, partial(_fixed, lengths, after, left, number))
    try:
        lengths.check_body(place.path, number * lengths.record + max(0, len(left) - lengths.footer))
    except InvalidArgumentError as error:
        return Piece(found, _failing(error))
    return Piece(found, None)
