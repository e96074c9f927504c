"""`GFile`, the file object of `tf.gfile`: opened by the first call that reads or writes.

A file has up to two positions: that of reading, and that of writing, which begins at the end (mode "a") or at the start.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Final, TypeVar

from aioexec.errors import GraphTypeError, InvalidArgumentError, OutOfRangeError, PermissionDeniedError
from aioexec.files import operations
from aioexec.files.operations import canonical_errors
from aioexec.formats.paths import Path, local_path
from aioexec.formats.sequential_files import open_input, open_output

_MODES: Final = ("r", "w", "a", "r+", "w+", "a+")
_BUFFER: Final = 512 * 1024
_Self = TypeVar("_Self", bound="GFile")


class GFile:
    """A file that is read or written, as text (UTF-8, lines end with "\\n") or, with a "b" in its mode, as bytes.

    Args:
        name: the path.
        mode: "r", "w", "a", "r+", "w+" or "a+", with or without a "b".

    Raises:
        InvalidArgumentError: another mode.
    """

    def __init__(self, name: Path, mode: str = "r") -> None:
        kind = mode.replace("b", "")
        if kind not in _MODES:
            raise InvalidArgumentError("mode is not 'r' or 'w' or 'a' or 'r+' or 'w+' or 'a+'")
        self._name = name
        self._mode = mode
        self._is_binary = "b" in mode
        self._may_read = kind not in ("w", "a")
        self._may_write = kind != "r"
        self._appends = kind.startswith("a")
        self._reading: BinaryIO | None = None  # open from the first read until `close`
        self._writing: BinaryIO | None = None  # open from the first write until `close`

    @property
    def name(self) -> Path:
        """The path that was given."""
        return self._name

    @property
    def mode(self) -> str:
        """The mode that was given."""
        return self._mode

    def size(self) -> int:
        """Return the length of the file on the disk, in bytes.

        Raises:
            NotFoundError: there is no such file.
        """
        return operations.stat(self._name).length

    def read(self, n: int = -1) -> Any:
        """Return the next `n` bytes, fewer at the end of the file; all that are left by default. Text if opened for text.

        Raises:
            NotFoundError: there is no such file.
            PermissionDeniedError: the file is only written.
        """
        with canonical_errors(self._name):
            data = self._reader().read(n)
        return self._shown(data)

    def readline(self) -> Any:
        """Return the next line with its end, which is "\\n"; an empty one at the end of the file."""
        with canonical_errors(self._name):
            line = self._reader().readline()
        return self._shown(line[:-2] + b"\n" if line.endswith(b"\r\n") else line)

    def readlines(self) -> list[Any]:
        """Return the lines that are left, with their ends."""
        return list(self)

    def write(self, file_content: str | bytes) -> None:
        """Write text, encoded as UTF-8, or bytes.

        Raises:
            PermissionDeniedError: the file is only read.
            NotFoundError: the folder does not exist.
        """
        data = file_content.encode() if isinstance(file_content, str) else file_content
        writer = self._writer()
        with canonical_errors(self._name):
            writer.write(data)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Set the position of reading, in bytes.

        Args:
            whence: 0 from the start, 1 from the position, 2 from the end.
            position: an old name of `offset`.

        Raises:
            InvalidArgumentError: a position before the start, or an unknown `whence`.
            OutOfRangeError: a position after the end.
        """
        reader = self._reader()
        if (offset is None) == (position is None):
            raise GraphTypeError(
                "seek(): offset argument required"
                if offset is None
                else "seek(): offset and position may not be set simultaneously."
            )
        if whence not in (0, 1, 2):
            raise InvalidArgumentError(f"Invalid whence argument: {whence}. Valid values are 0, 1, or 2.")
        size = self.size()
        given = position if offset is None else offset
        assert given is not None
        place = given + (0, reader.tell(), size)[whence]
        if place < 0:
            raise InvalidArgumentError(f"Seeking to a negative position: {place}")
        reader.seek(min(place, size))
        if place > size:
            raise OutOfRangeError("reached end of file")

    def tell(self) -> int:
        """Return the position of reading, or that of writing in a file that is only written, in bytes."""
        return self._reader().tell() if self._may_read else self._writer().tell()

    def seekable(self) -> bool:
        """Return True: the position of reading can be set."""
        return True

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        if self._writing is not None:
            with canonical_errors(self._name):
                self._writing.flush()

    def close(self) -> None:
        """Close the file, after what was written is with the operating system; the next call opens it again."""
        reading, self._reading = self._reading, None
        writing, self._writing = self._writing, None
        if reading is not None:
            reading.close()
        if writing is not None:
            with canonical_errors(self._name):
                writing.close()

    def next(self) -> Any:
        """Return the next line; see `readline`.

        Raises:
            StopIteration: at the end of the file.
        """
        if not (line := self.readline()):
            raise StopIteration
        return line

    def __iter__(self: _Self) -> _Self:
        return self

    def __next__(self) -> Any:
        return self.next()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        for file in (getattr(self, "_reading", None), getattr(self, "_writing", None)):
            if file is not None:
                file.close()

    def _shown(self, data: bytes) -> Any:
        return data if self._is_binary else data.decode()

    def _reader(self) -> BinaryIO:
        if not self._may_read:
            raise PermissionDeniedError("File isn't open for reading")
        if self._reading is None:
            self._reading = open_input(local_path(self._name))
        return self._reading

    def _writer(self) -> BinaryIO:
        if not self._may_write:
            raise PermissionDeniedError("File isn't open for writing")
        if self._writing is None:
            self._writing = open_output(local_path(self._name), appends=self._appends)
            self._writing.seek(0, os.SEEK_END)  # where an append goes: `tell` counts from there
        return self._writing


class FastGFile(GFile):
    """A `GFile` under a name that TensorFlow 1.x deprecates: use `GFile`."""
