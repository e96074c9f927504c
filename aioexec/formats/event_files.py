"""Event files: TFRecord files of Event protos, which TensorBoard reads while they grow.

The first record holds the version. Events are encoded by hand, since each is one field after a time and a step: building a
protobuf message would dominate the cost of writing a summary.

Invariant: an `EventFile` holds whole records only; after a failed write the file is truncated to the last whole record.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
import struct
import time
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError
from aioexec.formats.file_errors import canonical
from aioexec.formats.records import encode_record, read_records
from aioexec.formats.sequential_files import open_input

if TYPE_CHECKING:
    from aioexec.formats.protos import Event

VERSION: Final = b"brain.Event:2"

_WALL_TIME: Final = struct.Struct("<Bd")
_WALL_TIME_TAG: Final = 1 << 3 | 1
_STEP_TAG: Final = b"\x10"
_LENGTH_DELIMITED: Final = 2
_INT64: Final = 1 << 63
_ANY_ESCAPE: Final = re.compile(r"[/\0]")

_numbers = itertools.count()
"""Numbers the event files of this process: files created in the same second get different names."""


class What(IntEnum):
    """The kinds of events, by the field number in the Event proto."""

    FILE_VERSION = 3
    GRAPH_DEF = 4
    SUMMARY = 5
    SESSION_LOG = 7
    TAGGED_RUN_METADATA = 8
    META_GRAPH_DEF = 9


_TAGS: Final = {what: bytes([what << 3 | _LENGTH_DELIMITED]) for what in What}


@lru_cache(1 << 10)
def _varint(number: int) -> bytes:
    """Encode a varint; cached, since lengths and steps repeat."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def encode_event(wall_time: float, step: int, what: What, content: bytes) -> bytes:
    """Encode an Event proto with one field set; `content` is the serialised value of that field.

    Raises:
        InvalidArgumentError: the step does not fit into int64.
    """
    if not -_INT64 <= step < _INT64:
        raise InvalidArgumentError(f"Value out of range: expected a step of 64 bits, got {step}")
    at = _WALL_TIME.pack(_WALL_TIME_TAG, wall_time)
    if step:
        at += _STEP_TAG + _varint(step % (1 << 64))
    return b"".join((at, _TAGS[what], _varint(len(content)), content))


def summary_iterator(path: str | os.PathLike[str]) -> Iterator[Event]:
    """Iterate over the Event protos of a file. Blocks while reading.

    The file may still be growing: an incomplete record header at its end ends the iteration.

    Raises:
        NotFoundError: the file does not exist.
        InvalidArgumentError, FailedPreconditionError: the path is not a regular file.
        DataLossError: a record is damaged or its data is truncated.
    """
    from google.protobuf.message import DecodeError

    from aioexec.formats.protos import Event

    try:
        with open_input(os.fspath(path)) as file:
            for place, data in read_records(file):
                try:
                    yield Event.FromString(data)
                except DecodeError as error:
                    raise DataLossError(f"{os.fspath(path)}: the record at {place} is no event") from error
    except OSError as error:
        raise canonical(os.fspath(path), error) from error


class EventFile:
    """Appends events to a file, which is created with the first of them. Not thread-safe; its methods block.

    The name is `events.out.tfevents.<seconds>.<host>.<pid>.<number><suffix>` and unique; the names of one process sort in the
    order of creation, the order in which TensorBoard reads them.

    Attributes:
        path: the path of the file; None before it is created.
    """

    def __init__(self, directory: str, suffix: str = "") -> None:
        self._directory = directory
        self._suffix = suffix
        self.path: str | None = None
        self._descriptor = -1  # open from the first record until `close`
        if _ANY_ESCAPE.search(suffix):
            raise InvalidArgumentError(f"filename_suffix must be part of a file name, got {suffix!r}")
        self._size = 0  # of the whole records, in bytes
        self._is_listed = False  # whether the folder was synced, which makes the name durable

    def append(self, records: bytes) -> None:
        """Write whole records, all or none.

        Raises:
            OpError: the write failed.
        """
        try:
            if self._descriptor < 0:
                self._create()
            self._write(records)
        except OSError as error:
            raise canonical(self.path or self._directory, error) from error

    def sync(self) -> None:
        """Sync the file to the disk (fsync).

        Raises:
            NotFoundError: the file was removed; the next record begins a new file.
            OpError: the sync failed.
        """
        if self._descriptor < 0:
            return
        assert self.path is not None
        try:
            os.fsync(self._descriptor)
            if not self._is_listed:
                _sync_directory(self._directory)
                self._is_listed = True
            is_removed = not os.fstat(self._descriptor).st_nlink
        except OSError as error:
            raise canonical(self.path, error) from error
        if is_removed:
            self.close()
            raise NotFoundError(f"The events file {self.path} has disappeared.")

    def close(self) -> None:
        """Close the file; the next record begins a new file."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()

    def _create(self) -> None:
        os.makedirs(self._directory, exist_ok=True)
        seconds = int(time.time())
        name = f"events.out.tfevents.{seconds:010}.{socket.gethostname()}.{os.getpid()}.{next(_numbers):06}{self._suffix}"
        path = os.path.join(self._directory, name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)
        self.path, self._size, self._is_listed = path, 0, False
        try:
            self._write(encode_record(encode_event(seconds, 0, What.FILE_VERSION, VERSION)))
        except OSError:
            self.close()
            with contextlib.suppress(OSError):
                os.unlink(path)
            raise

    def _write(self, records: bytes) -> None:
        rest: Any = memoryview(records)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(records)


def write_asset(path: str, content: bytes) -> None:
    """Write a file that accompanies the events (an asset of a plugin), creating its parent folders.

    Raises:
        OpError: the write failed.
    """
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
    except (OSError, ValueError) as error:  # ValueError: an empty path or one with a zero byte
        raise canonical(path, error) from error


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
