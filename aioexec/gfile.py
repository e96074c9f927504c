"""Files and folders under the names of `tf.gfile`; every call blocks until the file system has answered.

A coroutine calls them in a thread: `await asyncio.to_thread(ax.gfile.MakeDirs, folder)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from aioexec.files import operations
from aioexec.files.gfile_class import FastGFile as FastGFile, GFile as GFile
from aioexec.files.operations import FileStatistics
from aioexec.formats.paths import Path

Open = GFile


def Exists(filename: Path) -> bool:
    """Whether there is a file or folder of this path."""
    return operations.exists(filename)


def IsDirectory(dirname: Path) -> bool:
    """Whether the path is a folder; False for what does not exist."""
    return operations.isdir(dirname)


def Stat(filename: Path) -> FileStatistics:
    """Return `length`, `mtime_nsec` and `is_directory` of a file or folder; NotFoundError if there is none."""
    return operations.stat(filename)


def Glob(filename: str | bytes | Iterable[Any]) -> list[str]:
    """Return the paths that match a pattern, or one of several; see `io.gfile.glob`."""
    return operations.glob(filename)


def ListDirectory(dirname: Path) -> list[str]:
    """Return the names of the entries of a folder, in any order; NotFoundError if there is no such folder."""
    return operations.listdir(dirname)


def Walk(top: Path, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (folder, its folders, its files) for a folder and those in it; see `io.gfile.walk`."""
    return operations.walk(top, in_order)


def MkDir(dirname: Path) -> None:
    """Make a folder in one that exists; NotFoundError if that does not exist."""
    operations.mkdir(dirname)


def MakeDirs(dirname: Path) -> None:
    """Make a folder and its parents, as far as they do not exist."""
    operations.makedirs(dirname)


def Copy(oldpath: Path, newpath: Path, overwrite: bool = False) -> None:
    """Copy a file; AlreadyExistsError if the new path exists and is not to be overwritten."""
    operations.copy(oldpath, newpath, overwrite)


def Rename(oldname: Path, newname: Path, overwrite: bool = False) -> None:
    """Rename or move a file or folder; AlreadyExistsError if the new path exists and is not to be overwritten."""
    operations.rename(oldname, newname, overwrite)


def Remove(filename: Path) -> None:
    """Delete a file; NotFoundError if there is none."""
    operations.remove(filename)


def DeleteRecursively(dirname: Path) -> None:
    """Delete a folder with everything in it, or a file; NotFoundError if there is none."""
    operations.rmtree(dirname)
