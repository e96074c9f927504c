"""Reads tensor bundles (TensorFlow's checkpoint format V2). See `bundle_entries` for the layout.

The files are not trusted. All checksums are verified, memory for a tensor is allocated only after the file is known to be long
enough, and data is read directly into it. A damaged index block is a DataLossError, never a missing tensor.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple, Self

import numpy as np

from aioexec.dtypes import DType, as_dtype, bool_, resource, string, variant
from aioexec.errors import (
    DataLossError,
    GraphTypeError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnimplementedError,
)
from aioexec.formats.bundle_entries import (
    HEADER_KEY,
    IS_BIG_ENDIAN,
    PIECE,
    VERSION,
    Array,
    Proceed,
    as_bytes,
    go_on,
    index_name,
    key_of,
    length_bytes,
    shard_name,
)
from aioexec.formats.checkpoint_files import InputFile
from aioexec.formats.crc32c import crc32c, masked
from aioexec.formats.protos import BundleEntryProto, BundleHeaderProto
from aioexec.formats.sorted_table import SortedTable, decode_varint
from aioexec.formats.tensor_slice import (
    Box,
    ShapeAndSlice,
    TensorSlice,
    covers,
    index,
    intersection,
    sizes_of,
    within,
)

Empty = Callable[[tuple[int, ...], np.dtype[Any]], Array]

_MAX_RANK: Final = 64
_MAX_ADDRESSABLE: Final = (1 << 63) - 1
_TYPE_NAMES: Final = {"float32": "float", "float64": "double", "float16": "half"}


def type_name(dtype: DType) -> str:
    """Return the name that TensorFlow's runtime uses in messages ("float" for float32)."""
    return _TYPE_NAMES.get(dtype.name, dtype.name)


def read_index(prefix: str) -> tuple[BundleHeaderProto, dict[bytes, bytes]]:
    """Return the header of a bundle, and its serialised entries by key.

    Raises:
        NotFoundError: the index file does not exist.
        DataLossError, InvalidArgumentError: the file is not an index, is damaged, or has a newer version.
    """
    with InputFile(index_name(prefix)) as file:
        try:
            entries = dict(SortedTable(file))
        except DataLossError as error:
            raise DataLossError(
                f"Unable to read file ({file.path}). Perhaps the file is corrupt or was produced by a newer version of "
                f"TensorFlow with format changes: {error.message}"
            ) from error
    data = entries.pop(HEADER_KEY, None)
    if data is None:
        raise DataLossError(f"Unable to read file ({file.path}): it has no header")
    header = parsed(BundleHeaderProto, data, file.path)
    if header.version.min_consumer > VERSION or VERSION in header.version.bad_consumers:
        raise InvalidArgumentError(
            f"{file.path}: Checkpoint min consumer version {header.version.min_consumer} above current version {VERSION}"
        )
    if header.num_shards <= 0:
        raise DataLossError(f"{file.path}: invalid number of data files: {header.num_shards}")
    return header, entries


def parsed(kind: Any, data: bytes, path: str) -> Any:
    """Parse a message of class `kind`.

    Raises:
        DataLossError: the bytes are not a valid message of that class.
    """
    try:
        return kind.FromString(data)
    except Exception as error:  # a DecodeError; its class depends on protobuf's implementation
        raise DataLossError(f"{path}: no {kind.__name__}") from error


class _Stored(NamedTuple):
    """The location of a tensor or slice in a data file; all fields are validated."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int

    @property
    def box(self) -> Box:
        return tuple((0, size) for size in self.shape)


class BundleReader:
    """A reader of one bundle; a context manager. Thread-safe.

    `_entries` are serialised, by key; `_shards` are the open data files by shard number, guarded by the lock `_opening`.

    Args:
        empty: allocates the arrays to read into, from a shape and a NumPy dtype.

    Raises:
        NotFoundError, DataLossError, InvalidArgumentError: see `read_index`.
    """

    def __init__(self, prefix: str, proceed: Proceed = go_on, empty: Empty = np.empty) -> None:
        self.prefix = prefix
        self._proceed = proceed
        self._empty = empty
        self._header, self._entries = read_index(prefix)
        self._shards: dict[int, InputFile] = {}
        self._opening = threading.Lock()
        self._is_swapped = (self._header.endianness == BundleHeaderProto.BIG) != IS_BIG_ENDIAN

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        for file in self._shards.values():
            file.close()

    def tensors(self) -> Iterator[tuple[str, DType, tuple[int, ...]]]:
        """Yield name, dtype and shape of each tensor in the order of names; a tensor saved in slices counts once."""
        for key in self._entries:
            if not key.startswith(b"\0"):
                name = key.decode(errors="surrogateescape")
                entry = self._entry(name, key)
                yield name, self._dtype(name, entry), self._shape(name, entry)

    def place(self, name: str) -> tuple[int, int, int]:
        """Return shard number, offset and approximate bytes of a tensor, to order reads; raises as `read` does."""
        entry = self._entry(name, key_of(name))
        size = math.prod(self._shape(name, entry)) * self._dtype(name, entry).size
        return entry.shard_id, entry.offset, max(entry.size, size)

    def shape_of(self, name: str, dtype: DType) -> tuple[int, ...]:
        """Return the shape of a tensor, which must have this dtype. Raises as `read` does."""
        entry = self._entry(name, key_of(name))
        original = self._dtype(name, entry)
        if original != dtype:
            raise InvalidArgumentError(
                f"tensor_name = {name}; expected dtype {type_name(dtype)} does not equal original dtype "
                f"{type_name(original)}"
            )
        return self._shape(name, entry)

    def read(self, name: str, dtype: DType, wanted: ShapeAndSlice | None = None) -> Array:
        """Read a tensor or a slice of it, and return an array with no other reference.

        Raises:
            DataLossError: the data is damaged; see `reading` for other errors.
        """
        return self.reading(name, dtype, wanted)()

    def reading(self, name: str, dtype: DType, wanted: ShapeAndSlice | None = None) -> Callable[[], Array]:
        """Return a function that reads a tensor or a slice of it.

        Memory is allocated by this call (except for strings and tensors saved in slices), not by the function: page faults of
        one thread slow down the others.

        Raises:
            NotFoundError: the bundle has no such tensor.
            InvalidArgumentError: dtype or shape differ, or the saved slices do not cover the requested one.
            DataLossError: the index is damaged, or a data file is too short.
        """
        shape = self.shape_of(name, dtype)
        entry = self._entry(name, key_of(name))
        if wanted is not None and wanted.shape != shape:
            raise InvalidArgumentError(
                f"tensor_name = {name}; shape in shape_and_slice spec {listed(wanted.shape)} does not match the shape "
                f"stored in checkpoint: {listed(shape)}"
            )
        box = tuple((0, size) for size in shape) if wanted is None else wanted.box
        if entry.slices:
            spec = "-" if wanted is None else str(wanted.part)
            return partial(self._joined, name, entry, shape, box, spec)
        stored = self._stored(name, entry)
        if dtype is string:
            return partial(self._strings, stored, box)
        return partial(self._read_box, stored, box, self._made(name, sizes_of(box), dtype))

    # Entries

    def _entry(self, name: str, key: bytes) -> BundleEntryProto:
        data = self._entries.get(key) if key else None
        if data is None:
            raise NotFoundError(f"Key {name} not found in checkpoint")
        entry: BundleEntryProto = parsed(BundleEntryProto, data, index_name(self.prefix))
        return entry

    def _dtype(self, name: str, entry: BundleEntryProto) -> DType:
        try:
            dtype = as_dtype(int(entry.dtype))
        except GraphTypeError:
            raise DataLossError(
                f"{self.prefix}: tensor {name!r} has the unknown dtype {entry.dtype}"
            ) from None
        if dtype.is_ref or dtype in (resource, variant):
            raise UnimplementedError(
                f"{self.prefix}: tensor {name!r}: values of {dtype.name} are not read from checkpoints"
            )
        return dtype

    def _shape(self, name: str, entry: BundleEntryProto) -> tuple[int, ...]:
        shape = tuple(dim.size for dim in entry.shape.dim)
        room = math.prod(size or 1 for size in shape) * 16  # the largest element size
        if entry.shape.unknown_rank or len(shape) > _MAX_RANK or min(shape, default=0) < 0:
            raise DataLossError(f"{self.prefix}: tensor {name!r} has the shape {list(shape)}")
        if room > _MAX_ADDRESSABLE:
            raise DataLossError(f"{self.prefix}: tensor {name!r} of shape {list(shape)} is too large")
        return shape

    def _stored(self, name: str, entry: BundleEntryProto) -> _Stored:
        """Return the location of an entry's data, after checking that it is within a data file."""
        dtype, shape = self._dtype(name, entry), self._shape(name, entry)
        count = math.prod(shape)
        least = count if dtype is string else count * dtype.size
        if entry.size < least or (entry.size != least and dtype is not string):
            raise DataLossError(
                f"Invalid size in bundle entry: key {name}; stored size {entry.size}; expected size {least}"
            )
        if not 0 <= entry.shard_id < self._header.num_shards or entry.offset < 0:
            raise DataLossError(f"{self.prefix}: tensor {name!r} is in no data file")
        file = self._shard(entry.shard_id)
        if entry.offset + entry.size > file.size:
            raise DataLossError(f"{file.path}: tensor {name!r}: Read less bytes than requested")
        return _Stored(name, dtype, shape, entry.shard_id, entry.offset, entry.size, entry.crc32c)

    def _shard(self, number: int) -> InputFile:
        with self._opening:
            if number not in self._shards:
                self._shards[number] = InputFile(shard_name(self.prefix, number, self._header.num_shards))
            return self._shards[number]

    # Data

    def _joined(
        self, name: str, entry: BundleEntryProto, shape: tuple[int, ...], box: Box, spec: str
    ) -> Array:
        """Assemble a box of a tensor from its saved slices."""
        dtype = self._dtype(name, entry)
        parts: dict[Box, _Stored] = {}
        for proto in entry.slices:
            part = TensorSlice.from_proto(proto)
            place = part.box(shape)
            if intersection(place, box) is None:
                continue
            stored = self._stored(name, self._entry(f"{name} {part}", part.key(name)))
            if stored.shape != sizes_of(place) or stored.dtype != dtype:
                raise DataLossError(
                    f"{self.prefix}: part {part} of tensor {name!r} has another dtype or shape"
                )
            parts[place] = stored
        if not covers(parts, box):
            raise InvalidArgumentError(
                f"Does not have sufficient slices for partitioned tensor {name} to restore in slice_spec: {spec}"
            )
        result = self._made(name, sizes_of(box), dtype)
        for place, stored in parts.items():
            both = intersection(place, box)
            assert both is not None
            target, source = result[index(within(both, box))], within(both, place)
            if dtype is string:
                target[...] = self._strings(stored, source)
            else:
                self._read_box(stored, source, target)
        return result

    def _read_box(self, stored: _Stored, box: Box, target: Array) -> Array:
        """Read a box of a numeric tensor into an array of its shape, without a copy if the box is contiguous in the file."""
        inner_is_whole = box[1:] == stored.box[1:]
        if inner_is_whole and target.flags.c_contiguous:
            rows = target
        else:
            first = box[:1]
            rows = self._made(stored.name, (*sizes_of(first), *stored.shape[1:]), stored.dtype)
        row = math.prod(stored.shape[1:]) * stored.dtype.size
        begin = box[0][0] * row if box else 0
        self._read_bytes(stored, begin, as_bytes(rows))
        if stored.dtype is bool_:
            np.not_equal(rows.view(np.uint8), 0, out=rows)
        if self._is_swapped:
            rows[...] = rows.byteswap()
        if rows is not target:
            target[...] = rows[(slice(None), *index(box[1:]))]
        return target

    def _made(self, name: str, shape: tuple[int, ...], dtype: DType) -> Array:
        try:
            return self._empty(shape, dtype.numpy)
        except MemoryError as error:
            raise ResourceExhaustedError(f"tensor {name!r} of shape {list(shape)}: out of memory") from error

    def _read_bytes(self, stored: _Stored, begin: int, target: Array) -> None:
        """Read the bytes of a tensor from `begin` on, and verify the checksum of the whole tensor."""
        file, checksum = self._shard(stored.shard), 0
        end = begin + target.size
        at = 0
        while at < stored.size:
            stop = min(at + PIECE, stored.size)
            wanted = begin <= at and stop <= end
            piece = target[at - begin : stop - begin] if wanted else np.empty(stop - at, np.uint8)
            file.read_into(stored.offset + at, piece.data)
            checksum = crc32c(piece, checksum)
            low, high = max(at, begin), min(stop, end)
            if not wanted and low < high:
                target[low - begin : high - begin] = piece[low - at : high - at]
            at = stop
            self._proceed()
        self._check(stored, checksum)

    def _check(self, stored: _Stored, checksum: int) -> None:
        if masked(checksum) != stored.checksum:
            raise DataLossError(
                f"TensorBundle at {self.prefix} shard {stored.shard} ({stored.size} bytes): Checksum does not match: "
                f"stored {stored.checksum} vs. calculated on the restored bytes {masked(checksum)}"
            )

    def _strings(self, stored: _Stored, box: Box) -> Array:
        """Read a box of a string tensor."""
        if self._is_swapped:
            raise UnimplementedError(f"{self.prefix}: strings of a bundle of another byte order are not read")
        data = self._shard(stored.shard).read_at(stored.offset, stored.size)
        lengths, position = [], 0
        for _ in range(math.prod(stored.shape)):
            length, position = decode_varint(data, position)
            lengths.append(length)
        checked = length_bytes(lengths)
        checksum = crc32c(checked)
        of_lengths = data[position : position + 4]
        if (
            position + 4 + sum(lengths) != stored.size
            or masked(checksum) != struct.unpack("<I", of_lengths)[0]
        ):
            raise DataLossError(
                f"The length checksum does not match: tensor {stored.name!r} of {self.prefix}, a bundle of strings"
            )
        self._check(stored, crc32c(data[position:], checksum))
        position += 4
        result = np.empty(len(lengths), object)
        for k, length in enumerate(lengths):
            result[k] = data[position : position + length]
            position += length
        part: Array = result.reshape(stored.shape)[index(box)]
        return part.copy()


def listed(shape: tuple[int, ...]) -> str:
    """Format a shape as TensorFlow's runtime does: [2,3]."""
    return f"[{','.join(map(str, shape))}]"
