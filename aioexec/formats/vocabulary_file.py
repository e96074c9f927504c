"""Lookup tables in text files: one entry per line, made of its columns, the whole line or its number.

Reading blocks: callers on an event loop use a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from aioexec import dtypes as dt
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, OutOfRangeError
from aioexec.formats.sequential_files import read_whole

WHOLE_LINE: Final = -2
LINE_NUMBER: Final = -1
_NAMES = {dt.float32: "float", dt.float64: "double"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The meaning of the lines of a vocabulary file.

    Attributes:
        key_index, value_index: a column number, WHOLE_LINE or LINE_NUMBER.
        vocab_size: the number of lines to read; -1 for all.
        delimiter: the character between columns.
        offset: added to line numbers.

    Raises:
        InvalidArgumentError: the delimiter is not one character.
    """

    key_index: int
    value_index: int
    vocab_size: int = -1
    delimiter: str = "\t"
    offset: int = 0

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1:
            raise InvalidArgumentError("delimiter should be only 1 char")

    @property
    def columns(self) -> int:
        """The number of columns a line must have."""
        return max(self.key_index, self.value_index) + 1


def read(path: str, layout: Layout, key_dtype: DType, value_dtype: DType) -> tuple[list[Any], list[Any]]:
    """Read the keys and values of a file as Python values.

    Raises:
        InvalidArgumentError: a line does not fit the layout or the dtypes, or there are too few lines.
        OutOfRangeError: the file is empty.
        OpError: the file cannot be read; see `open_input`.
    """
    for what, index, dtype in (
        ("Key", layout.key_index, key_dtype),
        ("Value", layout.value_index, value_dtype),
    ):
        if index == LINE_NUMBER and dtype != dt.int64:
            raise InvalidArgumentError(
                f"{what} index for line number requires table {what.lower()} dtype of int64, got {dtype.name}"
            )
    lines = _lines(path, layout.vocab_size)
    rows = _rows(path, lines, layout)
    return (
        _column(lines, rows, layout.key_index, layout.offset, key_dtype),
        _column(lines, rows, layout.value_index, layout.offset, value_dtype),
    )


def _lines(path: str, count: int) -> Sequence[bytes]:
    lines = read_whole(path).split(b"\n")
    if not lines[-1]:
        lines.pop()
    if lines and count >= 0:
        if count > len(lines):
            raise InvalidArgumentError(f"Invalid vocab_size in {path}: expected {count} but got {len(lines)}")
        lines = lines[:count]
    if not lines:
        raise OutOfRangeError(f"Finished reading 0 of lines from {path}")
    return [line.removesuffix(b"\r") for line in lines]


def _rows(path: str, lines: Sequence[bytes], layout: Layout) -> Sequence[Sequence[bytes]]:
    """Yield the required columns of each line."""
    position, rows = 0, []
    for number, line in enumerate(lines):
        position += len(line) + 1
        if not line:
            raise InvalidArgumentError(f"Invalid content in {path}: empty line found at position {position}.")
        row = line.split(layout.delimiter.encode()) if layout.columns > 0 else ()
        if len(row) < layout.columns:
            raise InvalidArgumentError(
                f"Invalid number of columns in {path} line {number} ({line.decode(errors='replace')}) : "
                f"expected at least {layout.columns} got {len(row)}"
            )
        rows.append(row)
    return rows


def _column(
    lines: Sequence[bytes], rows: Sequence[Sequence[bytes]], index: int, offset: int, dtype: DType
) -> list[Any]:
    if index == LINE_NUMBER:
        return list(range(offset, offset + len(lines)))
    fields = lines if index == WHOLE_LINE else [row[index] for row in rows]
    if dtype == dt.string:
        return list(fields)
    parse = _parser(dtype)
    made = []
    for number, field in enumerate(fields):
        try:
            made.append(parse(field))
        except ValueError:
            text = field.decode(errors="replace")
            raise InvalidArgumentError(
                f"Field {text} in line {number} is not a valid {_NAMES.get(dtype, dtype.name)}."
            ) from None
    return made


def _parser(dtype: DType) -> Callable[[bytes], Any]:
    """Return a parser of a field, which raises ValueError for malformed text."""
    if dtype in (dt.float32, dt.float64):
        return lambda field: dtype.numpy.type(float(field)).item()
    if dtype not in (dt.int32, dt.int64):
        raise InvalidArgumentError(f"Data type {dtype.name} not supported.")
    limits = np.iinfo(dtype.numpy)

    def parse(field: bytes) -> int:
        value = int(field)
        if not limits.min <= value <= limits.max:
            raise ValueError(f"{value} is no {dtype.name}")
        return value

    return parse
