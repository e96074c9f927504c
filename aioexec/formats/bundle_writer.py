"""Writes tensor bundles (TensorFlow's checkpoint format V2), byte for byte as TensorFlow does. See `bundle_entries` for the
layout.

Invariant: if an index file exists, its bundle is complete. Data files are renamed into place before the index. Data files that
replace a former bundle get other names than its own, which are removed last; a crash at any point leaves either the former
bundle or the new one. As these names contain the number of shards, a replacement that would have the same number gets one
more, empty, shard.
"""

from __future__ import annotations

import contextlib
import glob
import os
import struct
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import numpy as np

from aioexec.dtypes import DType, string
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError, OpError
from aioexec.formats.bundle_entries import (
    HEADER_KEY,
    IS_BIG_ENDIAN,
    PIECE,
    VERSION,
    Array,
    Proceed,
    as_bytes,
    check_storable,
    go_on,
    index_name,
    key_of,
    length_bytes,
    shard_name,
)
from aioexec.formats.bundle_reader import parsed, read_index
from aioexec.formats.checkpoint_files import OutputFile, make_folder_of, naming, sync_folder
from aioexec.formats.crc32c import crc32c, masked
from aioexec.formats.paths import local_path
from aioexec.formats.protos import BundleEntryProto, BundleHeaderProto
from aioexec.formats.sorted_table import TableWriter, encode_varint
from aioexec.formats.tensor_slice import ShapeAndSlice


class BundleWriter:
    """Writes a bundle of one data file; a context manager, which discards everything unless `finish` was called.

    `_entries`: the entries written so far, by key. `_shards`: the number of data files that the bundle will have.

    Raises:
        OpError: a file operation failed; see `file_errors`.
    """

    def __init__(self, prefix: str, proceed: Proceed = go_on) -> None:
        make_folder_of(prefix)
        self._prefix = prefix
        self._proceed = proceed
        self._entries: dict[bytes, BundleEntryProto] = {}
        self._shards = _shard_count(prefix, 1)
        self._data = OutputFile(shard_name(prefix, 0, self._shards))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._data.__exit__(kind, error, trace)

    def add(self, name: str, value: Array, dtype: DType) -> None:
        """Append a tensor.

        Raises:
            InvalidArgumentError: the name is empty or already in use, or the dtype is not storable.
        """
        check_storable(name, dtype)
        if not name:
            raise InvalidArgumentError("a tensor in a checkpoint needs a name")
        self._write(name, key_of(name), value, dtype)

    def add_slice(self, name: str, place: ShapeAndSlice, value: Array, dtype: DType) -> None:
        """Append a slice of the tensor `name`.

        Raises:
            InvalidArgumentError: the slice was already added, or the tensor was added with another dtype or shape.
        """
        check_storable(name, dtype)
        if place.sizes == place.shape:
            self.add(name, value, dtype)
            return
        key = place.part.key(name)
        if key in self._entries:
            raise InvalidArgumentError(f"Adding duplicate key: {key!r}, the part {place.part} of {name!r}")
        whole = self._entries.get(key_of(name))
        if whole is None:
            whole = self._entries[key_of(name)] = _described(place.shape, dtype)
        elif not whole.slices or _identity(whole) != _identity(_described(place.shape, dtype)):
            raise InvalidArgumentError(
                f"Adding duplicate key: {name}, as a part of {dtype.name}{list(place.shape)}, unlike before"
            )
        place.part.to_proto(whole.slices.add())
        self._write(name, key, value, dtype)

    def finish(self) -> None:
        """Move the data file and then the index into place, replacing a former bundle."""
        self._proceed()
        self._data.commit()
        _finish(self._prefix, self._entries, 1, self._shards)

    def _write(self, name: str, key: bytes, value: Array, dtype: DType) -> None:
        if key in self._entries:
            raise InvalidArgumentError(f"Adding duplicate key: {name}")
        entry = _described(value.shape, dtype)
        entry.offset = self._data.size
        checksum = self._write_strings(value) if dtype is string else self._write_numbers(value)
        entry.size = self._data.size - entry.offset
        entry.crc32c = masked(checksum)
        self._entries[key] = entry

    def _write_numbers(self, value: Array) -> int:
        data, checksum = as_bytes(np.ascontiguousarray(value)), 0
        for at in range(0, data.size, PIECE):
            piece = data[at : at + PIECE]
            self._data.write(piece.data)
            checksum = crc32c(piece, checksum)
            self._proceed()
        return checksum

    def _write_strings(self, value: Array) -> int:
        """Write string lengths, their checksum, then the strings (TensorFlow's WriteStringTensor)."""
        elements: list[bytes] = value.reshape(-1).tolist()
        lengths = list(map(len, elements))
        checked = length_bytes(lengths)
        checksum = crc32c(checked)
        of_lengths = struct.pack("<I", masked(checksum))
        self._data.write(b"".join(map(encode_varint, lengths)) + of_lengths)
        checksum = crc32c(of_lengths, checksum)
        for piece in _pieces(elements):
            self._data.write(piece)
            checksum = crc32c(piece, checksum)
            self._proceed()
        return checksum


def _pieces(elements: Sequence[bytes]) -> Iterator[bytes]:
    """Concatenate strings into pieces of about `PIECE` bytes."""
    begin, size = 0, 0
    for k, element in enumerate(elements):
        size += len(element)
        if size >= PIECE or k == len(elements) - 1:
            yield b"".join(elements[begin : k + 1])
            begin, size = k + 1, 0


def _described(shape: Sequence[int], dtype: DType) -> BundleEntryProto:
    entry = BundleEntryProto(dtype=dtype.as_datatype_enum)
    entry.shape.SetInParent()
    for size in shape:
        entry.shape.dim.add(size=size)
    return entry


def _identity(entry: BundleEntryProto) -> tuple[int, bytes]:
    return entry.dtype, entry.shape.SerializeToString()


def _shard_count(prefix: str, shards: int) -> int:
    """Return the number of shards to use: one more if the existing bundle has the same number."""
    try:
        header, _ = read_index(prefix)
    except OpError:  # no readable bundle exists, so none can be lost
        return shards
    return shards + (header.num_shards == shards)


def _finish(prefix: str, entries: dict[bytes, BundleEntryProto], shards: int, count: int) -> None:
    """Move the index into place after the first `shards` of `count` data files, then remove the former bundle."""
    for shard in range(shards, count):
        with OutputFile(shard_name(prefix, shard, count)) as empty:
            empty.commit()
    if count != shards:
        sync_folder(prefix)  # the new data must be durable before the former index is replaced
    write_index(prefix, entries, count)
    for path in stray_shards(prefix, count):
        with contextlib.suppress(OSError):  # a leftover file only takes space
            os.unlink(path)


def write_index(prefix: str, entries: dict[bytes, BundleEntryProto], shards: int) -> None:
    """Write and move the index of a bundle into place; its data files are there already."""
    header = BundleHeaderProto(num_shards=shards)
    header.version.producer = VERSION
    if IS_BIG_ENDIAN:
        header.endianness = BundleHeaderProto.BIG
    with OutputFile(index_name(prefix)) as file:
        table = TableWriter(file)
        table.add(HEADER_KEY, header.SerializeToString())
        for key in sorted(entries):
            table.add(key, entries[key].SerializeToString())
        table.finish()
        file.commit()
    sync_folder(prefix)


def stray_shards(prefix: str, count: int) -> list[str]:
    """Return data files with that prefix that do not belong to a bundle of `count` shards."""
    found = glob.glob(f"{glob.escape(local_path(prefix))}.data-?????-of-?????")
    return [path for path in found if not path.endswith(f"-of-{count:05d}")]


# Merging


def merge(prefixes: Sequence[str], destination: str, allow_missing_files: bool = False) -> None:
    """Merge several bundles into one by renaming their data files; the input bundles are removed.

    Raises:
        InvalidArgumentError: no bundle exists, one is missing, or two contain the same tensor.
    """
    destination, found = local_path(destination), []
    for prefix in map(local_path, prefixes):
        if os.path.exists(index_name(prefix)):
            found.append(prefix)
        elif not allow_missing_files:
            raise InvalidArgumentError(f"allow_missing_files was set to false and {prefix} did not exist")
    if not found:
        raise InvalidArgumentError("At least one prefix checkpoint file must exist, but none existed.")
    make_folder_of(destination)
    merged: dict[bytes, BundleEntryProto] = {}
    sources: list[str] = []
    for prefix in found:
        _add_index(merged, prefix, sources)
    count = _shard_count(destination, len(sources))
    for shard, source in enumerate(sources):
        with naming(source):
            os.replace(source, shard_name(destination, shard, count))
    _finish(destination, merged, len(sources), count)
    for prefix in found:
        if prefix != destination:
            with contextlib.suppress(NotFoundError), naming(prefix):
                os.unlink(index_name(prefix))


def _add_index(merged: dict[bytes, BundleEntryProto], prefix: str, sources: list[str]) -> None:
    """Add the entries of a bundle and the paths of its data files."""
    header, entries = read_index(prefix)
    before = len(sources)
    for shard in range(
        header.num_shards
    ):  # the header's count is not trusted: the first missing file ends the loop
        name = shard_name(prefix, shard, header.num_shards)
        if not os.path.exists(name):
            raise NotFoundError(f"{name}; No such file or directory")
        sources.append(name)
    for key, data in entries.items():
        entry: BundleEntryProto = parsed(BundleEntryProto, data, index_name(prefix))
        if not entry.slices and not 0 <= entry.shard_id < header.num_shards:
            raise DataLossError(f"{prefix}: tensor {key.decode(errors='replace')!r} is in no data file")
        known = merged.get(key)
        if known is not None and entry.slices and known.slices and _identity(known) == _identity(entry):
            there = {each.SerializeToString(deterministic=True) for each in known.slices}
            known.slices.extend(
                each for each in entry.slices if each.SerializeToString(deterministic=True) not in there
            )
            continue
        if known is not None:
            raise InvalidArgumentError(
                f"Duplicate tensor keyed by {key.decode(errors='replace')} encountered, "
                f"when merging prefix: {prefix}"
            )
        entry.shard_id += before if not entry.slices else 0
        merged[key] = entry
