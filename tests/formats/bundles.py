"""Tensor bundles made and changed for tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.formats.bundle_reader import BundleReader
from aioexec.formats.bundle_writer import BundleWriter
from aioexec.formats.checkpoint_files import InputFile, OutputFile
from aioexec.formats.sorted_table import SortedTable, TableWriter
from aioexec.formats.tensor_slice import parse_shape_and_slice

Saved = tuple[str, Any, DType]

GOLDEN: list[Saved] = [
    ("a", np.array([1, 2], np.float32), dt.float32),
    ("b/s", np.array([b"x", b"yz"], object), dt.string),
]


def save(prefix: Path, tensors: list[Saved]) -> str:
    with BundleWriter(str(prefix)) as writer:
        for tensor in tensors:
            writer.add(*tensor)
        writer.finish()
    return str(prefix)


def save_parts(prefix: Path, name: str, parts: list[tuple[str, Any]]) -> str:
    with BundleWriter(str(prefix)) as writer:
        for place, value in parts:
            array = np.asarray(value)
            dtype = dt.string if array.dtype == object else dt.as_dtype(array.dtype)
            writer.add_slice(name, parse_shape_and_slice(place), array, dtype)
        writer.finish()
    return str(prefix)


def load(prefix: str, name: str, dtype: DType, place: str = "") -> Any:
    with BundleReader(prefix) as reader:
        return reader.read(name, dtype, parse_shape_and_slice(place) if place else None)


def damage(path: str, change: Callable[[bytearray], None]) -> None:
    content = bytearray(Path(path).read_bytes())
    change(content)
    Path(path).write_bytes(content)


def rewrite_index(prefix: str, change: Callable[[dict[bytes, Any]], object]) -> None:
    """Change entries, and recompute the checksums."""
    entries: dict[bytes, Any] = read_table(f"{prefix}.index")
    change(entries)
    write_table(f"{prefix}.index", entries)


def read_table(path: str) -> dict[bytes, bytes]:
    """The entries of a table file."""
    with InputFile(path) as source:
        return dict(SortedTable(source))


def write_table(path: str, entries: Mapping[bytes, bytes]) -> None:
    """Rewrite a table file, with checksums over its entries."""
    with OutputFile(path) as target:
        writer = TableWriter(target)
        for key in sorted(entries):
            writer.add(key, entries[key])
        writer.finish()
        target.commit()
