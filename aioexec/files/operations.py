"""Operations on the file system, under the names and arguments of `tf.io.gfile`."""

from __future__ import annotations

import errno
import glob as python_glob
import os
import posixpath
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from aioexec.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
)
from aioexec.formats.file_errors import canonical
from aioexec.formats.paths import SCHEMES, Path, local_path, scheme_of, text_of

_NEGATED: Final = re.compile(r"\[\^")


class FileStatistics(NamedTuple):
    """What `stat` tells of a file or folder: its length in bytes, the time of its last change, whether it is a folder."""

    length: int
    mtime_nsec: int
    is_directory: bool


@contextmanager
def canonical_errors(path: Path) -> Iterator[None]:
    """Raise the errors of the operating system within the block as canonical errors."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise canonical(text_of(path), error) from error


def exists(path: Path) -> bool:
    """Whether there is a file or folder of this path."""
    return os.path.exists(local_path(path))


def isdir(path: Path) -> bool:
    """Whether the path is a folder; False for what does not exist."""
    try:
        return os.path.isdir(local_path(path))
    except OpError:
        return False


def stat(path: Path) -> FileStatistics:
    """Return length, time of the last change and kind.

    Raises:
        NotFoundError: there is no such file.
    """
    with canonical_errors(path):
        found = os.stat(local_path(path))
    return FileStatistics(found.st_size, found.st_mtime_ns, os.path.isdir(local_path(path)))


def remove(path: Path) -> None:
    """Delete a file.

    Raises:
        NotFoundError: there is no such file.
        FailedPreconditionError: the path is a folder.
    """
    with canonical_errors(path):
        os.unlink(local_path(path))


def rmtree(path: Path) -> None:
    """Delete a file, or a folder with everything in it.

    Raises:
        NotFoundError: there is no such file or folder.
    """
    local = local_path(path)
    if not os.path.lexists(local):
        raise NotFoundError(f"{text_of(path)} not found")
    with canonical_errors(path):
        if os.path.isdir(local) and not os.path.islink(local):
            shutil.rmtree(local)
        else:
            os.unlink(local)


def mkdir(path: Path) -> None:
    """Make a folder in one that exists; nothing happens if it exists.

    Raises:
        NotFoundError: the parent folder does not exist.
        AlreadyExistsError: there is a file of this name.
    """
    local = local_path(path)
    if not os.path.isdir(local):
        with canonical_errors(path):
            os.mkdir(local)


def makedirs(path: Path) -> None:
    """Make a folder and its parents, as far as they do not exist.

    Raises:
        FailedPreconditionError: a part of the path is a file.
    """
    local = local_path(path)
    try:
        if local:
            os.makedirs(local, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FailedPreconditionError(f"{_first_file(local)} is not a directory") from error
    except (OSError, ValueError) as error:
        raise canonical(text_of(path), error) from error


def _first_file(path: str) -> str:
    """Return the outermost part of a path that is no folder."""
    parent = os.path.dirname(path)
    return _first_file(parent) if parent and parent != path and not os.path.isdir(parent) else path


def copy(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Copy the content of a file.

    Raises:
        AlreadyExistsError: there is a file of the new name, and it is not to be overwritten.
        NotFoundError: there is no such file, or no such folder to copy it to.
        InvalidArgumentError: the source is a folder.
    """
    source, target = local_path(src), local_path(dst)
    _check_free(target, overwrite)
    if os.path.isdir(source):
        raise InvalidArgumentError(f"{text_of(src)}; expected a file to copy, got a folder")
    if not os.path.exists(source):
        raise canonical(text_of(src), OSError(errno.ENOENT, os.strerror(errno.ENOENT)))
    with canonical_errors(dst):
        if os.path.exists(target) and os.path.samefile(source, target):
            return
        shutil.copyfile(source, target)


def rename(src: Path, dst: Path, overwrite: bool = False) -> None:
    """Rename or move a file or folder.

    Raises:
        AlreadyExistsError: there is a file of the new name, and it is not to be overwritten.
        NotFoundError: there is no such file.
    """
    target = local_path(dst)
    _check_free(target, overwrite)
    with canonical_errors(src):
        os.replace(local_path(src), target)


def _check_free(target: str, overwrite: bool) -> None:
    if not overwrite and os.path.exists(target):
        raise AlreadyExistsError(f"file already exists: {target}")


def listdir(path: Path) -> list[str]:
    """Return the names of the entries of a folder, in any order, without "." and "..".

    Raises:
        NotFoundError: there is no such folder.
    """
    if not isdir(path):
        raise NotFoundError(f"Could not find directory {text_of(path)}")
    with canonical_errors(path):
        return os.listdir(local_path(path))


def glob(pattern: str | bytes | Iterable[Any]) -> list[str]:
    """Return the paths that match a pattern, or one of several, each pattern's in the order of the alphabet.

    `*` matches any characters but "/", `?` one of them, `[a-c]` one of a set, `[^a-c]` one of others; a backslash takes the
    next character as it is. Names that begin with a dot match as others do.
    """
    patterns: Iterable[Any] = [pattern] if isinstance(pattern, str | bytes) else pattern
    return [path for each in patterns for path in _matching(text_of(each))]


def _matching(pattern: str) -> list[str]:
    scheme = scheme_of(pattern)
    plain = re.sub(r"\\(.)", lambda found: python_glob.escape(found[1]), local_path(pattern))
    found = python_glob.glob(_NEGATED.sub("[!", plain), include_hidden=True)
    return sorted(scheme + path for path in found)


def walk(
    top: Path, topdown: bool = True, onerror: Callable[[OpError], object] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (folder, names of its folders, names of its files) for a folder and those in it.

    Args:
        topdown: whether a folder comes before those in it.
        onerror: called with the error of a folder that cannot be listed; such folders are left out.
    """
    folder = text_of(top)
    try:
        entries = listdir(folder)
    except OpError as error:
        if onerror is not None:
            onerror(error)
        return
    inner = [name for name in entries if isdir(os.path.join(folder, name))]
    here = (folder, inner, [name for name in entries if name not in set(inner)])
    if topdown:
        yield here
    for name in inner:
        yield from walk(os.path.join(folder, name), topdown, onerror)
    if not topdown:
        yield here


def join(path: Path, *paths: Path) -> str:
    """Join parts of a path; after a scheme with "/" on every platform."""
    parts = [text_of(part) for part in paths]
    first = text_of(path)
    return posixpath.join(first, *parts) if scheme_of(first) else os.path.join(first, *parts)


def get_registered_schemes() -> list[str]:
    """Return the schemes of the file systems that there are; "" stands for paths without one."""
    return list(SCHEMES)
