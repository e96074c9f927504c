"""The on-disk cache of compiled kernels, private to the user.

An entry becomes code of the process that reads it, so it must be trusted and complete: the folder and the file
belong to this user, no other user can write to them, and the header's SHA-256 covers key, version, symbol and image.
Entries are written aside and renamed, so a reader never sees half of one; two writers of one key write the
same thing. Any error of the file system (no home, read-only, full) disables the cache: `load` returns None, `store` False.

Both compiler threads call a cache. Its state, `_warned` and `_pruned`, needs no lock: a race repeats a warning or a check.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import struct
from collections.abc import Mapping

from aioexec.devices.jit.objects import ObjectCode

logger = logging.getLogger(__name__)

ABI_VERSION = 2
"""Raise it when block or frame layout, status codes or the calling convention of kernels change."""

MAGIC = b"aioexec\x00"
HEADER = struct.Struct("<8sIH32s")
"""Magic number, ABI version, length of the symbol, digest (see `_digest`)."""
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOREIGN_WRITE = stat.S_IWGRP | stat.S_IWOTH
SUFFIX = ".aioexec-kernel"
ENTRY_NAME = rf"[0-9a-f]{{64}}{SUFFIX}|\.[0-9a-f]{{64}}{SUFFIX}\.[0-9a-f]{{8}}"
"""Entries, and temporary files of interrupted writers; only files with these names are deleted."""
CAPACITY = 512 * 2**20
"""Bytes the folder may hold; beyond it the oldest entries are deleted."""
LARGEST_ENTRY = 64 * 2**20
"""Bytes of an entry that is read: the largest kernels have 0.1 MiB."""


def default_directory(environ: Mapping[str, str] = os.environ) -> str | None:
    """The default folder; None if the environment names none that is usable."""
    chosen = environ.get("AIOEXEC_CACHE_DIR")
    if chosen:
        return os.path.abspath(chosen)
    base = environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return os.path.join(base, "aioexec")
    home = os.path.expanduser("~")
    return os.path.join(home, ".cache", "aioexec") if os.path.isabs(home) else None


def sha256(content: bytes) -> bytes:
    """A SHA-256 digest. hashlib is imported here, since only compiler threads need it."""
    import hashlib

    return hashlib.sha256(content).digest()


class DamagedEntryError(Exception):
    """The contents of an entry do not match its header."""


def encode(key: str, code: ObjectCode) -> bytes:
    """The content of an entry."""
    payload = code.symbol.encode("ascii") + code.image
    length = len(code.symbol)
    return HEADER.pack(MAGIC, ABI_VERSION, length, _digest(key, length, payload)) + payload


def decode(key: str, content: bytes) -> ObjectCode:
    """The object in an entry; raises DamagedEntryError unless every bit is as written."""
    if len(content) < HEADER.size:
        raise DamagedEntryError(f"expected at least {HEADER.size} bytes, got {len(content)}")
    magic, version, symbol_length, digest = HEADER.unpack_from(content)
    if magic != MAGIC or version != ABI_VERSION:
        raise DamagedEntryError(f"expected ABI version {ABI_VERSION}, got {magic!r} {version}")
    payload = content[HEADER.size :]
    if _digest(key, symbol_length, payload) != digest:
        raise DamagedEntryError("digest differs")
    return ObjectCode(payload[:symbol_length].decode("ascii"), payload[symbol_length:])


def _digest(key: str, symbol_length: int, payload: bytes) -> bytes:
    """Of the key, of the header but the digest itself, and of symbol and image."""
    header = HEADER.pack(MAGIC, ABI_VERSION, symbol_length, b"")
    return sha256(b"".join((key.encode("ascii"), header, payload)))


class ObjectCache:
    """Compiled kernels by key, in one folder of the file system.

    Attributes:
        directory: the folder, made on first use; None: no cache.
    """

    def __init__(self, directory: str | os.PathLike[str] | None) -> None:
        self.directory = directory
        self._warned: set[str] = set()  # messages logged already, so that each is logged once
        self._pruned = False  # whether this process has checked the size of the folder

    def load(self, key: str) -> ObjectCode | None:
        """The entry under `key`; None if there is no trusted one."""
        with contextlib.ExitStack() as stack:
            folder = self._open(stack, create=False)
            if folder is None:
                return None
            try:
                content = self._read(folder, key)
                return None if content is None else decode(key, content)
            except DamagedEntryError as error:
                logger.warning("kernel cache: damaged entry %s removed: %s", key, error)
                with contextlib.suppress(OSError):
                    os.unlink(key + SUFFIX, dir_fd=folder)
                return None

    def store(self, key: str, code: ObjectCode) -> bool:
        """Keep an object under `key`; False if that was not possible."""
        with contextlib.ExitStack() as stack:
            folder = self._open(stack, create=True)
            if folder is None:
                return False
            name = key + SUFFIX
            aside = f".{name}.{os.urandom(4).hex()}"
            try:
                write_new(folder, aside, encode(key, code))
                os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(aside, dir_fd=folder)
                self._warn_once(f"cannot write to {self.directory}: {error}")
                return False
            if not self._pruned:
                self._pruned = True
                prune(folder, CAPACITY)
            return True

    def _open(self, stack: contextlib.ExitStack, *, create: bool) -> int | None:
        """Open the folder, which only this user may write; files in it are opened relative to its descriptor."""
        if self.directory is None:
            return None
        try:
            if create:
                os.makedirs(self.directory, mode=0o700, exist_ok=True)
            folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn_once(f"cannot use {self.directory}: {error}")
            return None
        stack.callback(os.close, folder)
        if not is_private(os.fstat(folder)):
            self._warn_once(f"{self.directory} belongs to, or can be written by, another user")
            return None
        return folder

    def _read(self, folder: int, key: str) -> bytes | None:
        """The content of an entry; raises DamagedEntryError if that is too large to be one."""
        try:
            descriptor = os.open(key + SUFFIX, READ_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn_once(f"cannot read entries in {self.directory}: {error}")
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not is_private(status):
                self._warn_once(
                    f"entry {key} in {self.directory} belongs to, or can be written by, another user"
                )
                return None
            if status.st_size > LARGEST_ENTRY:
                raise DamagedEntryError(f"expected at most {LARGEST_ENTRY} bytes, got {status.st_size}")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        except OSError as error:
            self._warn_once(f"cannot read entries in {self.directory}: {error}")
            return None
        finally:
            os.close(descriptor)

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning("kernel cache not used: %s", message)


def is_private(status: os.stat_result) -> bool:
    """Whether a file belongs to this user and no other user may write it."""
    return status.st_uid == os.geteuid() and not status.st_mode & FOREIGN_WRITE


def write_new(folder: int, name: str, content: bytes) -> None:
    """Write a file that does not exist yet. Not synced: a file torn by a power cut fails its digest."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(content)


def prune(folder: int, capacity: int) -> None:
    """Remove the entries (and leftovers of killed writers) written longest ago until the rest fits."""
    with contextlib.suppress(OSError):
        entries = []
        with os.scandir(folder) as names:
            for entry in names:
                if re.fullmatch(ENTRY_NAME, entry.name) is None:
                    continue
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    entries.append((status.st_mtime, status.st_size, entry.name))
        size = sum(entry[1] for entry in entries)
        for _, weight, name in sorted(entries):
            if size <= capacity:
                return
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            size -= weight
