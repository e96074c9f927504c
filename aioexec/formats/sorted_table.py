"""Sorted string tables (SSTables): LevelDB's table format, in which checkpoints keep their index.

A table consists of data blocks, an empty metaindex block, an index block with the last key and the handle of each data block,
and a footer with the handles of the last two. A block consists of prefix-compressed entries, the offsets of the restart points
(entries with a complete key), a byte for the kind of compression, and a checksum. Offsets and sizes in a file are validated
against its size before they are used.
"""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from aioexec.errors import DataLossError, UnimplementedError
from aioexec.formats.checkpoint_files import InputFile, OutputFile
from aioexec.formats.crc32c import crc32c, masked

MAGIC: Final = 0xDB4775248B80FB57
_FOOTER: Final = 48
_TRAILER: Final = 5
_BLOCK_SIZE: Final = 256 << 10
_RESTART_INTERVAL: Final = 16
_LARGEST: Final = (1 << 64) - 1
_MAX_KEYS: Final = 256 << 20
"""Upper bound for the bytes of all keys of a table, which prefix compression may make much larger than the file."""


class Handle(NamedTuple):
    """The offset and size of a block, without its trailer."""

    offset: int
    size: int


def encode_varint(value: int) -> bytes:
    """Encode a non-negative number as a varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """Decode a varint; return it and the position after it.

    Raises:
        DataLossError: the varint is truncated or exceeds 64 bits.
    """
    value = 0
    for shift in range(0, 64, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _LARGEST, position  # only one bit of the tenth byte is used, as in TensorFlow
    raise DataLossError("corrupted number: Read less bytes than requested")


# Reading


class SortedTable:
    """Reads a table. Not thread-safe.

    Constant: `_last_keys` and `_handles` of the data blocks, which are contiguous in the file. Changing: `_latest`, the block
    that `get` read last, with its entries.

    Args:
        max_keys: upper bound for the bytes of all keys.

    Raises:
        DataLossError: the file is not a table, or is damaged.
        UnimplementedError: a block is compressed.
    """

    def __init__(self, file: InputFile, max_keys: int = _MAX_KEYS) -> None:
        self._file = file
        self._max_keys = max_keys
        if file.size < _FOOTER:
            raise DataLossError(f"{file.path}: file is too short to be an sstable")
        footer = file.read_at(file.size - _FOOTER, _FOOTER)
        if struct.unpack("<Q", footer[-8:])[0] != MAGIC:
            raise DataLossError(f"{file.path}: not an sstable (bad magic number)")
        unused, position = self._handle(footer, 0)
        handle, _ = self._handle(footer, position)
        if footer != _footer(unused, handle):
            raise DataLossError(f"{file.path}: corrupted footer")
        for _ in self._block(unused):
            pass  # the metaindex is not used, but its checksum reveals damage
        self._last_keys: list[bytes] = []
        self._handles: list[Handle] = []
        self._latest: tuple[int, dict[bytes, bytes]] | None = None
        begin = 0
        for key, value in self._block(handle):
            block, _ = self._handle(value, 0)
            if block.offset < begin:
                raise DataLossError(f"{file.path}: two blocks at {block.offset}")
            begin = block.offset + block.size + _TRAILER
            self._last_keys.append(key)
            self._handles.append(block)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        last, total = None, 0
        for handle in self._handles:
            for key, value in self._block(handle):
                total += len(key)
                if total > self._max_keys or (last is not None and key <= last):
                    raise self._bad_block()
                last = key
                yield key, value

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None if it is missing."""
        block = bisect.bisect_left(self._last_keys, key)
        if block == len(self._handles):
            return None
        if self._latest is None or self._latest[0] != block:
            self._latest = block, dict(self._block(self._handles[block]))
        return self._latest[1].get(key)

    def _handle(self, data: bytes, position: int) -> tuple[Handle, int]:
        offset, position = decode_varint(data, position)
        size, position = decode_varint(data, position)
        if offset + size + _TRAILER > self._file.size - _FOOTER:
            raise DataLossError(f"{self._file.path}: bad block handle {offset}, {size}")
        return Handle(offset, size), position

    def _block(self, handle: Handle) -> Iterator[tuple[bytes, bytes]]:
        """Read the entries of a block."""
        data = self._file.read_at(handle.offset, handle.size + _TRAILER)
        content, kind = data[: handle.size], data[handle.size]
        if masked(crc32c(data[: handle.size + 1])) != struct.unpack("<I", data[-4:])[0]:
            raise DataLossError(f"{self._file.path}: block checksum mismatch")
        if kind != 0:
            raise UnimplementedError(f"{self._file.path}: blocks compressed by method {kind} are not read")
        if len(content) < 4:
            raise self._bad_block()
        end = len(content) - 4 * (struct.unpack("<I", content[-4:])[0] + 1)
        if end < 0:
            raise self._bad_block()
        position, key, total = 0, b"", 0
        while position < end:
            shared, position = decode_varint(content, position)
            own, position = decode_varint(content, position)
            length, position = decode_varint(content, position)
            total += shared + own
            if shared > len(key) or position + own + length > end or total > self._max_keys:
                raise self._bad_block()
            key = key[:shared] + content[position : position + own]
            position += own + length
            yield key, content[position - length : position]

    def _bad_block(self) -> DataLossError:
        return DataLossError(f"{self._file.path}: bad entry in block")


# Writing


class _Block:
    """A block under construction; keys are added in ascending order."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self.data = bytearray()
        self.last_key = b""
        self._restarts = [0]
        self._since_restart = 0

    @property
    def size(self) -> int:
        return len(self.data) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._since_restart == self._interval:
            self._restarts.append(len(self.data))
            self._since_restart = 0
        else:
            shared = _shared(self.last_key, key)
        for number in (shared, len(key) - shared, len(value)):
            self.data += encode_varint(number)
        self.data += key[shared:] + value
        self.last_key = key
        self._since_restart += 1

    def finished(self) -> bytes:
        return bytes(self.data) + struct.pack(
            f"<{len(self._restarts) + 1}I", *self._restarts, len(self._restarts)
        )


class TableWriter:
    """Writes a table to a file: `add` keys in ascending order, then `finish`.

    `_pending` is the handle of a block without an index entry yet: the key of that entry depends on the next block's first
    key.
    """

    def __init__(self, file: OutputFile, block_size: int = _BLOCK_SIZE) -> None:
        self._file = file
        self._block_size = block_size
        self._block = _Block(_RESTART_INTERVAL)
        self._index = _Block(1)
        self._pending: Handle | None = None
        self._last_key = b""

    def add(self, key: bytes, value: bytes) -> None:
        if self._pending is not None:
            self._point_at(self._pending, _separator(self._last_key, key))
            self._pending = None
        self._block.add(key, value)
        self._last_key = key
        if self._block.size >= self._block_size:
            self._flush()

    def finish(self) -> None:
        if self._block.data:
            self._flush()
        metaindex = self._write(_Block(_RESTART_INTERVAL))
        if self._pending is not None:
            self._point_at(self._pending, _successor(self._last_key))
        index = self._write(self._index)
        self._file.write(_footer(metaindex, index))

    def _flush(self) -> None:
        self._pending = self._write(self._block)
        self._block = _Block(_RESTART_INTERVAL)

    def _point_at(self, handle: Handle, key: bytes) -> None:
        self._index.add(key, b"".join(map(encode_varint, handle)))

    def _write(self, block: _Block) -> Handle:
        content, offset = block.finished(), self._file.size
        checked = content + b"\0"
        self._file.write(checked + struct.pack("<I", masked(crc32c(checked))))
        return Handle(offset, len(content))


def _footer(metaindex: Handle, index: Handle) -> bytes:
    places = b"".join(map(encode_varint, (*metaindex, *index)))
    return places.ljust(_FOOTER - 8, b"\0") + struct.pack("<Q", MAGIC)


def _shared(a: bytes, b: bytes) -> int:
    """Return the length of the common prefix."""
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _separator(before: bytes, after: bytes) -> bytes:
    """Return a short key k with before <= k < after."""
    at = _shared(before, after)
    if at < min(len(before), len(after)) and before[at] < 0xFF and before[at] + 1 < after[at]:
        return before[:at] + bytes([before[at] + 1])
    return before


def _successor(key: bytes) -> bytes:
    """Return a short key that is not less than `key`."""
    at = next((k for k, byte in enumerate(key) if byte != 0xFF), None)
    return key if at is None else key[:at] + bytes([key[at] + 1])
