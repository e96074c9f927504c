"""Kernel packs: files of kernels that were compiled when the package was built, one for each class of processors.

An entry is found by a digest of what it was compiled from, as in the cache on disk, but not of the versions of the compilers:
an object file depends on nothing but the calling convention. So a pack that does not fit the sources any more holds nothing
that is found. A file is

    a header: magic number, ABI version, number of entries, length of the versions, SHA-256 of versions and index
    the versions of the compilers (`Target.versions`), in JSON
    the index: for each entry, in ascending order, its key and the offset and length of its content
    the contents, as in the cache (`cache.encode`), each with a digest of its own

The index is checked when the file is opened, an entry when it is used.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import struct
from collections.abc import Mapping, Sequence

from aioexec.data_classes import dataclass
from aioexec.devices.jit.cache import ABI_VERSION, DamagedEntryError, decode, encode, sha256
from aioexec.devices.jit.objects import ObjectCode
from aioexec.devices.jit.target import host_class

logger = logging.getLogger(__name__)

DIRECTORY = os.path.join(os.path.dirname(__file__), "packs")
SUFFIX = ".pack"

MAGIC = b"aioexecK"
HEADER = struct.Struct("<8sIII32s")
ENTRY = struct.Struct("<32sQI")


def pack_key(kind: str, text: str, how: str) -> str:
    """The key of a kernel in every pack: a digest of its text and of how that is compiled."""
    return sha256(json.dumps((ABI_VERSION, kind, text, how)).encode("utf-8")).hex()


def encode_pack(objects: Mapping[str, ObjectCode], versions: Sequence[str]) -> bytes:
    """The content of a pack of these objects by key; equal objects give equal bytes."""
    contents = {key: encode(key, objects[key]) for key in sorted(objects)}
    index = bytearray(json.dumps(versions).encode("ascii"))
    length = len(index)
    offset = HEADER.size + length + len(contents) * ENTRY.size
    for key, content in contents.items():
        index += ENTRY.pack(bytes.fromhex(key), offset, len(content))
        offset += len(content)
    header = HEADER.pack(MAGIC, ABI_VERSION, len(contents), length, sha256(bytes(index)))
    return b"".join((header, index, *contents.values()))


Places = dict[str, tuple[int, int]]
"""The offset and length of entries by key."""


@dataclass(frozen=True, slots=True)
class KernelPack:
    """A pack whose index has been read. The file is opened for each entry: there are few, and no descriptor is held.

    Attributes:
        versions: of the compilers that it was made with.
    """

    path: str
    versions: tuple[str, ...]
    places: Places

    def load(self, key: str) -> ObjectCode | None:
        """The object under `key`; None if there is none.

        Raises:
            DamagedEntryError: the entry is not as it was written.
            OSError: the file cannot be read any more.
        """
        place = self.places.get(key)
        if place is None:
            return None
        offset, length = place
        with open(self.path, "rb", buffering=0) as file:
            file.seek(offset)
            return decode(key, file.read(length))


def read_pack(path: str) -> KernelPack:
    """Read the index of a pack.

    Raises:
        DamagedEntryError: versions or index are not as they were written.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(HEADER.size)
        if len(head) < HEADER.size:
            raise DamagedEntryError(f"expected at least {HEADER.size} bytes, got {len(head)}")
        magic, version, count, length, digest = HEADER.unpack(head)
        if magic != MAGIC or version != ABI_VERSION:
            raise DamagedEntryError(f"expected a pack of ABI version {ABI_VERSION}, got {magic!r} {version}")
        index = file.read(length + count * ENTRY.size)
    if sha256(index) != digest:
        raise DamagedEntryError("the digest of the index differs")
    places = {key.hex(): (offset, size) for key, offset, size in ENTRY.iter_unpack(index[length:])}
    return KernelPack(path, tuple(json.loads(index[:length])), places)


def path_of(processor: str) -> str:
    """The path of the pack for a class of processors."""
    return os.path.join(DIRECTORY, processor + SUFFIX)


def open_pack(path: str) -> KernelPack | None:
    """Open a pack; None if there is none, or, with a warning, none that can be used."""
    try:
        return read_pack(path)
    except FileNotFoundError:
        return None
    except (OSError, DamagedEntryError) as error:
        logger.warning("kernel pack %s not used: %s", path, error)
        return None


@functools.cache
def installed_pack() -> KernelPack | None:
    """The pack for this machine; None if the package has none."""
    processor = host_class()
    return None if processor is None else open_pack(path_of(processor))
