"""Journals of unfinished saves: a file beside the checkpoint that lists the files an interrupted save may leave behind.

1. `begin` writes the journal before the first file of the checkpoint, and locks it; the system releases the lock when the
   process dies.
2. `end` removes the journal after the last file that the save replaces.
3. The next process that saves into the folder, or recovers its list of checkpoints, finds unlocked journals, whose writers are
   dead (of any process, container or user), and removes what these have left: files of an incomplete checkpoint, a complete one
   that the `checkpoint` file was to list and does not, and those it does not list any more.

Checkpoints that the file lists are never removed. On file systems without locks, nothing is removed.

All calls here block; coroutines make them through `off_loop`.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import logging
import os
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Final

from aioexec.data_classes import dataclass
from aioexec.errors import DataLossError, OpError
from aioexec.formats.bundle_entries import index_name
from aioexec.formats.checkpoint_files import hold, make_folder_of, naming, remove_abandoned
from aioexec.train.checkpoints.checkpoint_state import (
    V2,
    checkpoint_files,
    get_checkpoint_state,
    meta_graph_filename,
    state_path,
    without_shards,
)

logger = logging.getLogger(__name__)

_PARTS: Final = "_temp"
_JOURNAL: Final = re.compile(r"\.saving[0-9a-f]{32}$")
_LONGEST_JOURNAL: Final = 1 << 20
_ATTEMPTS: Final = 8


@dataclass(frozen=True, slots=True)
class _Record:
    """The contents of a journal.

    `name`: of the checkpoint, in the folder of the journal. `listed`: the file that is to list it, if any. `had_checkpoint`,
    `had_meta`, `had_state`: whether these files existed when the save began. `replaced`: the checkpoints to remove, relative to
    the folder.
    """

    name: str
    version: int
    listed: str | None
    meta_graph_suffix: str
    had_checkpoint: bool
    had_meta: bool
    had_state: bool
    replaced: Sequence[str] = ()


class BegunSave:
    """A save. `begin` is called before its first file is written, `end` last, also after an error.

    Args:
        prefix: the path of the checkpoint.
        version: its format.
        listed: the name of the file that is to list it; None if none is.
        meta_graph_suffix: of the meta graph beside it.
    """

    def __init__(self, prefix: str, version: int, listed: str | None, meta_graph_suffix: str) -> None:
        self._prefix = prefix
        self._folder, name = os.path.split(prefix)
        self._record = _Record(name, version, listed, meta_graph_suffix, False, False, False)
        self._journal = ""
        self._descriptor = -1

    def begin(self) -> None:
        """Clean up after dead processes in the folder, and write a journal.

        Raises:
            OpError: the journal cannot be written.
        """
        make_folder_of(self._prefix)
        clean_up_folder(self._folder)
        record = self._record
        self._record = replace(
            record,
            had_checkpoint=_exists(self._prefix, record.version),
            had_meta=os.path.exists(meta_graph_filename(self._prefix, record.meta_graph_suffix)),
            had_state=record.listed is not None and os.path.exists(state_path(self._folder, record.listed)),
        )
        for _ in range(_ATTEMPTS):
            self._create()
            if hold(self._descriptor) and os.fstat(self._descriptor).st_nlink:
                break
            os.close(self._descriptor)  # another process took it for a dead one's before it was locked
            self._descriptor = -1
        self._write()

    def _create(self) -> None:
        self._journal = f"{self._prefix}.saving{uuid.uuid4().hex}"
        with naming(self._journal):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._journal, flags, 0o666)

    def replaces(self, paths: Sequence[str]) -> None:
        """Record that these checkpoints are to be removed once the `checkpoint` file does not list them."""
        folder = self._folder or "."
        self._record = replace(self._record, replaced=[os.path.relpath(path, folder) for path in paths])
        self._write()

    def _write(self) -> None:
        """Append the present record as a line: the last complete one counts."""
        if self._descriptor >= 0:
            with naming(self._journal):
                os.write(self._descriptor, json.dumps(asdict(self._record)).encode() + b"\n")

    def end(self) -> None:
        """Remove the files of this checkpoint if it is incomplete, otherwise those of the ones it replaces, and the journal."""
        if self._descriptor < 0:
            return
        try:
            if _clean_up(self._folder, self._record):
                with contextlib.suppress(OSError):
                    os.unlink(self._journal)
        finally:
            os.close(self._descriptor)
            self._descriptor = -1


def clean_up_folder(folder: str) -> None:
    """Remove leftover files of saves by dead processes in a folder."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder or "."):
            if _JOURNAL.search(name):
                _clean_up_if_dead(folder, os.path.join(folder, name))
    remove_abandoned(folder)


def _clean_up_if_dead(folder: str, journal: str) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(journal, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if hold(descriptor):
                record = _read(descriptor)
                if record is None or _clean_up(folder, record):
                    os.unlink(journal)
        finally:
            os.close(descriptor)


def _read(descriptor: int) -> _Record | None:
    """The last complete line of a journal; None if there is none: the save had not begun."""
    lines = os.read(descriptor, _LONGEST_JOURNAL).split(b"\n")[:-1]
    for line in reversed(lines):
        with contextlib.suppress(ValueError, TypeError):
            record = _Record(**json.loads(line))
            if os.path.basename(record.name) == record.name:
                return record
    return None


def _clean_up(folder: str, record: _Record) -> bool:
    """Clean up after a save that has ended, or whose process is dead; returns whether all files could be removed."""
    try:
        named = _named(folder, record)
        prefix = os.path.join(folder, record.name)
        left = [*_parts(prefix), *_unwanted(prefix, record, named)]
        if named is not None:
            for each in record.replaced:
                path = os.path.normpath(os.path.join(folder, each))
                if os.path.abspath(without_shards(path)) not in named:
                    left += checkpoint_files(path, record.version, record.meta_graph_suffix)
        removed = [_remove(path, os.unlink) for path in left]
        removed.append(_remove(f"{prefix}{_PARTS}", os.rmdir))
    except (OpError, OSError) as error:
        logger.warning("Ignoring: %s", error)
        return False
    return all(removed)


def _remove(path: str, remove: Callable[[str], None]) -> bool:
    try:
        remove(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:  # the folder contains files of others
            return True
        logger.warning("Ignoring: %s; %s", path, error.strerror)
        return False
    return True


def _named(folder: str, record: _Record) -> set[str] | None:
    """The checkpoints that the `checkpoint` file lists; None if there is to be no such file, or users have removed it.

    Raises:
        OpError: it cannot be read.
    """
    if record.listed is None:
        return None
    path = state_path(folder, record.listed)
    if not os.path.exists(path):
        return None if record.had_state else set()
    state = get_checkpoint_state(folder, record.listed)
    if state is None:
        raise DataLossError(f"{path}; cannot be read now")
    paths = (state.model_checkpoint_path, *state.all_model_checkpoint_paths)
    return {os.path.abspath(without_shards(path)) for path in paths}


def _exists(prefix: str, version: int) -> bool:
    if version == V2:
        return os.path.isfile(index_name(prefix))
    return os.path.isfile(prefix) or bool(glob.glob(f"{glob.escape(prefix)}-?????-of-?????"))


def _unwanted(prefix: str, record: _Record, named: set[str] | None) -> list[str]:
    """The files of an incomplete or unlisted checkpoint; for others, the data files that the index does not refer to."""
    exists = _exists(prefix, record.version)
    is_wanted = named is None or os.path.abspath(without_shards(prefix)) in named
    if record.had_checkpoint or (exists and is_wanted):
        # Imported here, in the thread of the save: they load the protos.
        from aioexec.formats.bundle_reader import read_index
        from aioexec.formats.bundle_writer import stray_shards

        try:
            header, _ = read_index(prefix)
        except OpError:
            return []
        return stray_shards(prefix, header.num_shards)
    pattern = prefix if record.version == V2 else f"{prefix}-?????-of-?????"
    files = [prefix] if record.version != V2 else []
    files += checkpoint_files(pattern, record.version, record.meta_graph_suffix)
    return files[:-1] if record.had_meta else files


def _parts(prefix: str) -> list[str]:
    """The parts of a sharded checkpoint that were written but not moved into place."""
    return glob.glob(os.path.join(glob.escape(f"{prefix}{_PARTS}"), "part-*"))
