"""Files read or written sequentially; opening one never waits for another process.

For random access see `checkpoint_files.InputFile`. Every call blocks: callers on an event loop use a worker.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from aioexec.errors import FailedPreconditionError
from aioexec.formats.file_errors import canonical
from aioexec.formats.paths import local_path


def open_input(path: str | bytes) -> BinaryIO:
    """Open a file for sequential reading.

    Raises:
        InvalidArgumentError: a pipe, a socket or a terminal, which TensorFlow cannot read at an offset either.
        FailedPreconditionError: a folder, or a device without an end.
        OpError: the file cannot be opened.
    """
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        descriptor = os.open(local_path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise canonical(path, error) from error
    try:
        _check_kind(descriptor, path)
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_whole(path: str | bytes) -> bytes:
    """Read a whole file; raises as `open_input` does."""
    with open_input(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise canonical(path, error) from error


def open_output(path: str | bytes, *, appends: bool = False) -> BinaryIO:
    """Open a file for writing (truncating it) or for appending.

    Raises:
        NotFoundError: the path is a pipe that has no reader.
        OpError: the file cannot be opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_APPEND if appends else os.O_TRUNC)
    try:
        descriptor = os.open(local_path(path), flags, 0o666)
    except (OSError, ValueError) as error:
        raise canonical(path, error) from error
    os.set_blocking(descriptor, True)  # a pipe blocks from here on: its reader may be slow
    return open(descriptor, "wb")


def _check_kind(descriptor: int, path: str | bytes) -> None:
    status = os.fstat(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise canonical(path, OSError(errno.EISDIR, os.strerror(errno.EISDIR)))
    try:
        os.lseek(descriptor, 0, os.SEEK_CUR)
    except OSError as error:
        raise canonical(path, error) from error
    if stat.S_ISCHR(status.st_mode) and status.st_rdev != os.stat(os.devnull).st_rdev:
        raise FailedPreconditionError(f"{os.fsdecode(path)}; Expected a file that has an end")
