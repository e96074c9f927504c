"""Reads a model's folder: which versions it holds, and whether their content has changed. Blocks: call it in a thread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aioexec.data_classes import dataclass

_SAVED_MODEL_FILES: Final = ("saved_model.pb", "saved_model.pbtxt")
_LARGEST_VERSION: Final = (1 << 63) - 1
_MOST_FILES: Final = 10_000  # whose changes are seen in one version


@dataclass(frozen=True, slots=True)
class Stamp:
    """A summary of a version's files, which differs when they were changed."""

    files: int
    size: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class VersionFolder:
    """A version's folder."""

    path: str
    stamp: Stamp


def versions_in(path: str) -> dict[int, VersionFolder]:
    """Return the folder of each version; none if the folder cannot be read.

    A folder that is a SavedModel itself is version 1.
    """
    found: dict[int, VersionFolder] = {}
    for name in _entries(path):
        version = _version(name)
        inner = os.path.join(path, name)
        if version is not None and os.path.isdir(inner):
            found.setdefault(version, VersionFolder(inner, _stamp(inner)))
    if not found and any(os.path.isfile(os.path.join(path, name)) for name in _SAVED_MODEL_FILES):
        found[1] = VersionFolder(path, _stamp(path))
    return found


def _entries(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _version(name: str) -> int | None:
    if not (name.isascii() and name.isdigit()) or len(name) > 19:
        return None
    version = int(name)
    return version if version <= _LARGEST_VERSION else None


def _stamp(path: str) -> Stamp:
    files = size = changed = 0
    for status in _statuses(path):
        files += 1
        size += status.st_size
        changed = max(changed, status.st_mtime_ns)
        if files == _MOST_FILES:
            break
    return Stamp(files, size, changed)


def _statuses(path: str) -> Iterator[os.stat_result]:
    """The statuses of the files, without those that vanish meanwhile."""
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                yield Path(folder, name).stat()
            except OSError:
                continue
