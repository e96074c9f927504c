"""Files that are read at any place, and files that appear under their name when they are whole, or not at all.

A file that is being written has no name where the system can do so, or else one that says what it is, and its writer
holds a lock on it, which the system takes back when the process dies: so what dead processes have left can be
distinguished from the work of the living, by `remove_abandoned`, whatever process, container or user they were.

Every call blocks: callers on an event loop make it on a worker. Errors of the operating system are canonical ones here.
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

_SENT_OFF_AT_ONCE: Final = 8 << 20  # bytes
_DESCRIPTORS: Final = "/proc/self/fd"
_ASIDE: Final = re.compile(r"\.tempstate[0-9a-f]{32}$")


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors of the operating system become canonical ones that name `path`."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a zero byte in a name
        raise canonical(path, error) from error


def hold(descriptor: int) -> bool:
    """Take the lock on an open file until it is closed or the process ends; False if it is taken, or there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def remove_abandoned(folder: str) -> None:
    """Remove the files in a folder whose writers died before they were whole."""
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
    """A regular file that is read at any place; `size` is that at the time it was opened.

    Raises:
        NotFoundError, PermissionDeniedError, FailedPreconditionError: there is no such file, or it is of another kind.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with naming(path):
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would wait
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
            DataLossError: the file ends before.
        """
        done = 0
        while done < len(target):
            with naming(self.path):
                count = os.preadv(self._descriptor, [target[done:]], offset + done)
            if not count:
                raise DataLossError(f"{self.path}: Read less bytes than requested")
            done += count

    def read_at(self, offset: int, length: int) -> bytes:
        """The bytes from `offset` on; see `read_into`."""
        if length > self.size - offset:
            raise DataLossError(f"{self.path}: Read less bytes than requested")
        data = bytearray(length)
        self.read_into(offset, memoryview(data))
        return bytes(data)


class OutputFile:
    """A file that takes its place, and that of a former one, when it is committed.

    Where the system can, it has no name until then, so that nothing is left of it if the process is killed. Used as a
    context: what is not committed is given up. `size`: bytes written. `_aside`: its name if it has one. `_sent_off`: bytes that
    are on their way to the disk.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = self._sent_off = 0
        self._folder = os.path.dirname(path) or "."
        self._aside: str | None = None
        with naming(path):
            self._descriptor = self._open()
        hold(self._descriptor)

    def _open(self) -> int:
        nameless = getattr(os, "O_TMPFILE", 0)
        if nameless and os.path.isdir(_DESCRIPTORS):
            with contextlib.suppress(
                OSError
            ):  # not on every file system; if the folder is wrong, the other way says so
                return os.open(self._folder, nameless | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        self._aside = self._other_name()
        return os.open(self._aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def _other_name(self) -> str:
        return f"{self.path}.tempstate{uuid.uuid4().hex}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._aside is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._aside)

    def write(self, data: bytes | memoryview) -> None:
        view, done = memoryview(data), 0
        while done < len(view):
            with naming(self.path):
                done += os.write(self._descriptor, view[done:])
        self.size += done
        if self.size - self._sent_off >= _SENT_OFF_AT_ONCE:
            self._send_off()

    def _send_off(self) -> None:
        """Have the system begin to bring to the disk what it has taken, so that a commit waits for less."""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):
                length = self.size - self._sent_off
                os.posix_fadvise(self._descriptor, self._sent_off, length, os.POSIX_FADV_DONTNEED)
        self._sent_off = self.size

    def commit(self) -> None:
        """Give it its name, once its content is on the disk; the name is there for good after `sync_folder`."""
        with naming(self.path):
            os.fsync(self._descriptor)
            if self._aside is None:
                with contextlib.suppress(FileExistsError):
                    self._link(self.path)
                    return
                aside = self._other_name()
                self._link(aside)
                self._aside = aside
            os.replace(self._aside, self.path)
            self._aside = None

    def _link(self, name: str) -> None:
        # `src_dir_fd` is not looked at, but with one Python makes the call that follows the link
        source = f"{_DESCRIPTORS}/{self._descriptor}"
        os.link(source, name, src_dir_fd=self._descriptor, follow_symlinks=True)


def sync_folder(path: str) -> None:
    """Wait until the names in the folder of `path` are on the disk."""
    folder = os.path.dirname(path) or "."
    with naming(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder_of(path: str) -> None:
    """Make the folder a file is to be in; the one that this is in must be there."""
    folder = os.path.dirname(path)
    if folder:
        with naming(folder), contextlib.suppress(FileExistsError):
            os.mkdir(folder)
