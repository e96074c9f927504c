"""Reads and writes files in the format of safetensors, one tensor at a time.

A file is the length of its header (8 bytes, little-endian), the header, and the bytes of the tensors, row by row and
little-endian. The header is JSON: {name: {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}}. Offsets count from
the end of the header; the name "__metadata__" is not a tensor's. The tensors fill the file without gaps.

Implemented here because the package safetensors takes all tensors at once, and has no bfloat16 for NumPy. Files are not
trusted: memory is allocated for a tensor only after the file is known to be long enough.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from aioexec.dtypes import DType, as_dtype
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError
from aioexec.formats.bundle_entries import PIECE, Array, as_bytes
from aioexec.formats.checkpoint_files import InputFile, OutputFile, sync_folder

DTYPES: Final = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "C64": "complex64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
"""The names of dtypes in headers, and ours."""

_NAMES: Final = {name: code for code, name in DTYPES.items()}
_MOST_HEADER_BYTES: Final = 100_000_000
_METADATA: Final = "__metadata__"
_ALIGNMENT: Final = 8
Described = tuple[str, DType, tuple[int, ...]]


def has_dtype(dtype: DType) -> bool:
    """Whether the format has a dtype: it has no strings, complex128, quantised types."""
    return dtype.name in _NAMES


class SafetensorsWriter:
    """Writes a file; a context manager, which discards it unless `finish` was called.

    `order` is the order in which tensors must be added: large elements first, so that all data is aligned.

    Args:
        tensors: the name, dtype and shape of each tensor.

    Raises:
        InvalidArgumentError: a dtype that the format lacks.
        OpError: a file operation failed.
    """

    def __init__(self, path: str, tensors: Sequence[Described]) -> None:
        ordered = sorted(tensors, key=lambda each: (-each[1].size, each[0]))
        self.order = [name for name, _, _ in ordered]
        self._added = 0
        header = _encoded_header(ordered)
        self._file = OutputFile(path)
        self._file.write(len(header).to_bytes(8, "little") + header)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.__exit__(kind, error, trace)

    def add(self, name: str, value: Array) -> None:
        """Write the next tensor of `order`, which has the dtype and shape that were announced."""
        assert name == self.order[self._added], f"expected {self.order[self._added]!r}, got {name!r}"
        self._added += 1
        contiguous = np.ascontiguousarray(value)
        if sys.byteorder == "big":
            contiguous = contiguous.byteswap()
        data = as_bytes(contiguous)
        for at in range(0, data.size, PIECE):
            self._file.write(data[at : at + PIECE].data)

    def finish(self) -> None:
        """Move the file to its name."""
        assert self._added == len(self.order), "tensors are missing"
        self._file.commit()
        sync_folder(self._file.path)


def _encoded_header(tensors: Sequence[Described]) -> bytes:
    entries, end = dict[str, Any](), 0
    for name, dtype, shape in tensors:
        if not has_dtype(dtype):
            raise InvalidArgumentError(f"tensor {name!r}: safetensors has no dtype {dtype.name}")
        if name in entries or name == _METADATA:
            raise InvalidArgumentError(f"tensor {name!r}: the name is in use")
        begin, end = end, end + math.prod(shape) * dtype.size
        entries[name] = {"dtype": _NAMES[dtype.name], "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % _ALIGNMENT)


class SafetensorsReader:
    """A reader of one file; a context manager.

    `_entries` has dtype, shape and offset of each tensor, all validated.

    Raises:
        NotFoundError, DataLossError: the file does not exist, or is damaged.
    """

    def __init__(self, path: str) -> None:
        self._file = InputFile(path)
        try:
            length = int.from_bytes(self._file.read_at(0, 8), "little")
            if length > _MOST_HEADER_BYTES:
                raise self._damaged(f"a header of {length:,} bytes")
            self._begin = 8 + length
            self._entries = self._validated(self._parsed(self._file.read_at(8, length)))
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def tensors(self) -> Iterator[Described]:
        """Yield name, dtype and shape of each tensor, in the order of the file."""
        for name, (dtype, shape, _) in self._entries.items():
            yield name, dtype, shape

    def read(self, name: str) -> Array:
        """Read a tensor.

        Raises:
            NotFoundError: there is none of this name.
        """
        if name not in self._entries:
            raise NotFoundError(f"{self._file.path} has no tensor {name!r}")
        dtype, shape, offset = self._entries[name]
        value = np.empty(shape, dtype.as_numpy_dtype)
        self._file.read_into(self._begin + offset, as_bytes(value).data)
        if dtype.name == "bool":
            np.not_equal(value.view(np.uint8), 0, out=value)
        return value.byteswap() if sys.byteorder == "big" else value

    def _parsed(self, header: bytes) -> Mapping[str, Any]:
        try:
            found = json.loads(header, object_pairs_hook=_without_duplicates)
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"a header that is no JSON: {error}") from error
        if not isinstance(found, dict):
            raise self._damaged("a header that is no object")
        found.pop(_METADATA, None)
        return found

    def _validated(self, header: Mapping[str, Any]) -> dict[str, tuple[DType, tuple[int, ...], int]]:
        found, places = dict[str, tuple[DType, tuple[int, ...], int]](), list[tuple[int, int]]()
        for name, entry in header.items():
            match entry:
                case {"dtype": str(code), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
                    pass
                case _:
                    raise self._damaged(f"tensor {name!r} without dtype, shape and offsets")
            if code not in DTYPES:
                raise InvalidArgumentError(
                    f"{self._file.path}: tensor {name!r} has the dtype {code}, which is not supported"
                )
            if not all(type(size) is int and size >= 0 for size in shape):
                raise self._damaged(f"tensor {name!r} of shape {shape}")
            dtype = as_dtype(DTYPES[code])
            if end - begin != math.prod(shape) * dtype.size:
                raise self._damaged(f"tensor {name!r} of {end - begin} bytes for {dtype.name}{shape}")
            found[name] = dtype, tuple(shape), begin
            places.append((begin, end))
        places.sort()
        ends = [0, *(end for _, end in places)]
        if [begin for begin, _ in places] != ends[:-1] or self._begin + ends[-1] != self._file.size:
            raise self._damaged("tensors that do not fill the file without gaps")
        return found

    def _damaged(self, what: str) -> DataLossError:
        return DataLossError(f"{self._file.path}: expected a file in the format of safetensors, got {what}")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
