"""Files for random access, and files that appear under their final name only when they are complete.

A file being written has no name (O_TMPFILE) where the system supports it, else a temporary name; its writer holds a lock on it
(`flock`), which the system releases when the process dies. `remove_abandoned` therefore distinguishes files of dead writers
from files in use, across processes, containers and users.

Every call blocks: callers on an event loop use a worker. Errors of the operating system are raised as canonical errors.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import uuid
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from aioexec.errors import DataLossError, FailedPreconditionError
from aioexec.formats.file_errors import canonical
from aioexec.formats.paths import local_path

_WRITE_BACK_BYTES: Final = 8 << 20  # bytes
_DESCRIPTORS: Final = "/proc/self/fd"
_ASIDE: Final = re.compile(r"\.tempstate[0-9a-f]{32}$")


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Raise errors of the operating system as canonical errors that name `path`."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: the path contains a zero byte
        raise canonical(path, error) from error


def hold(descriptor: int) -> bool:
    """Lock an open file until it is closed; return False if it is locked elsewhere or locks are unsupported."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_abandoned(folder: str) -> None:
    """Remove temporary files whose writers have died."""
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if _ASIDE.search(entry.name):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if hold(descriptor):
            os.unlink(path)
    finally:
        os.close(descriptor)


class InputFile:
    """A regular file opened for reading at any offset; `size` is its size at that time.

    Raises:
        NotFoundError, PermissionDeniedError, FailedPreconditionError: the file does not exist, may not be read, or is not a
            regular file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with naming(path):
            self._descriptor = os.open(
                local_path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
            )  # a pipe would block
        status = os.fstat(self._descriptor)
        self.size = status.st_size
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise FailedPreconditionError(f"{path}; Expected a regular file")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes from `offset` on.

        Raises:
            DataLossError: the file is too short.
        """
        done = 0
        while done < len(target):
            with naming(self.path):
                count = os.preadv(self._descriptor, [target[done:]], offset + done)
            if not count:
                raise DataLossError(f"{self.path}: Read less bytes than requested")
            done += count

    def read_at(self, offset: int, length: int) -> bytes:
        """Return the bytes from `offset` on; raises as `read_into` does."""
        if length > self.size - offset:
            raise DataLossError(f"{self.path}: Read less bytes than requested")
        data = bytearray(length)
        self.read_into(offset, memoryview(data))
        return bytes(data)


class OutputFile:
    """A file that `commit` moves to its final name, atomically replacing an existing one; a context manager, which discards
    the file unless it was committed.

    Until then it has no name where the system supports that, so a killed process leaves nothing behind. `size`: bytes written.
    `_temporary_name`: the temporary name, if it has one. `_written_back`: bytes whose write-back to the disk has begun.
    """

    def __init__(self, path: str) -> None:
        self.path = local_path(path)
        self.size = self._written_back = 0
        self._folder = os.path.dirname(self.path) or "."
        self._temporary_name: str | None = None
        with naming(path):
            self._descriptor = self._open()
        hold(self._descriptor)

    def _open(self) -> int:
        nameless = getattr(os, "O_TMPFILE", 0)
        if nameless and os.path.isdir(_DESCRIPTORS):
            with contextlib.suppress(
                OSError
            ):  # O_TMPFILE is not supported by every file system; errors of the folder appear again below
                return os.open(self._folder, nameless | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        self._temporary_name = self._unique_name()
        return os.open(self._temporary_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def _unique_name(self) -> str:
        return f"{self.path}.tempstate{uuid.uuid4().hex}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._temporary_name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary_name)

    def write(self, data: bytes | memoryview) -> None:
        view, done = memoryview(data), 0
        while done < len(view):
            with naming(self.path):
                done += os.write(self._descriptor, view[done:])
        self.size += done
        if self.size - self._written_back >= _WRITE_BACK_BYTES:
            self._start_write_back()

    def _start_write_back(self) -> None:
        """Start write-back of the data written so far, so that `commit` waits for less."""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):
                length = self.size - self._written_back
                os.posix_fadvise(self._descriptor, self._written_back, length, os.POSIX_FADV_DONTNEED)
        self._written_back = self.size

    def commit(self) -> None:
        """Sync the content to the disk, then rename; the rename itself is durable after `sync_folder`."""
        with naming(self.path):
            os.fsync(self._descriptor)
            if self._temporary_name is None:
                with contextlib.suppress(FileExistsError):
                    self._link(self.path)
                    return
                aside = self._unique_name()
                self._link(aside)
                self._temporary_name = aside
            os.replace(self._temporary_name, self.path)
            self._temporary_name = None

    def _link(self, name: str) -> None:
        # `src_dir_fd` is unused, but passing it makes Python call linkat, which follows the link
        source = f"{_DESCRIPTORS}/{self._descriptor}"
        os.link(source, name, src_dir_fd=self._descriptor, follow_symlinks=True)


def sync_folder(path: str) -> None:
    """Sync the folder of `path`, which makes its renames durable."""
    folder = os.path.dirname(local_path(path)) or "."
    with naming(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder_of(path: str) -> None:
    """Create the parent folder of `path`; its own parent must exist."""
    folder = os.path.dirname(local_path(path))
    if folder:
        with naming(folder), contextlib.suppress(FileExistsError):
            os.mkdir(folder)
