"""Damaged or inconsistent tensor bundles: a specific error, and no memory allocated for missing data."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from aioexec import dtypes as dt
from aioexec.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)
from aioexec.formats.protos import BundleEntryProto
from aioexec.formats.tensor_slice import parse_shape_and_slice
from tests.formats.bundles import GOLDEN, damage, load, rewrite_index, save, save_parts


@pytest.mark.parametrize(
    ("tensor", "at"), [("a", 0), ("a", 7), ("b/s", 8), ("b/s", 9), ("b/s", 11), ("b/s", -1)]
)
def test_a_changed_byte_of_data_is_found_in_its_tensor_alone(tmp_path, tensor, at):
    prefix = save(tmp_path / "a", GOLDEN)

    def flip(content: bytearray) -> None:
        content[at] ^= 1

    damage(f"{prefix}.data-00000-of-00001", flip)

    with pytest.raises(DataLossError, match="does not match"):
        load(prefix, tensor, {"a": dt.float32, "b/s": dt.string}[tensor])
    other = "b/s" if tensor == "a" else "a"
    load(prefix, other, {"a": dt.float32, "b/s": dt.string}[other])


@pytest.mark.parametrize("left", range(17))
def test_a_data_file_that_was_cut_is_told(tmp_path, left):
    prefix = save(tmp_path / "a", GOLDEN)
    os.truncate(f"{prefix}.data-00000-of-00001", left)

    with pytest.raises(DataLossError, match="Read less bytes than requested"):
        load(prefix, "b/s", dt.string)


def test_an_index_that_was_cut_anywhere_is_told(tmp_path):
    prefix = save(tmp_path / "a", GOLDEN)
    whole = Path(f"{prefix}.index").read_bytes()

    for left in range(len(whole)):
        Path(f"{prefix}.index").write_bytes(whole[:left])
        with pytest.raises(DataLossError):
            load(prefix, "a", dt.float32)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["index", "data-00000-of-00001"])
def test_each_changed_bit_of_a_checkpoint_is_found(tmp_path, ending):
    prefix = save(tmp_path / "a", GOLDEN)
    whole = Path(f"{prefix}.{ending}").read_bytes()

    for bit in range(8 * len(whole)):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        Path(f"{prefix}.{ending}").write_bytes(content)
        with pytest.raises(DataLossError):
            load(prefix, "a", dt.float32)
            load(prefix, "b/s", dt.string)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"dtype": 99}, DataLossError),
        ({"dtype": 101}, UnimplementedError),
        ({"dtype": 21}, UnimplementedError),
        ({"size": 4}, DataLossError),
        ({"size": 1 << 60}, DataLossError),
        ({"size": -1}, DataLossError),
        ({"offset": 1 << 60}, DataLossError),
        ({"offset": -8}, DataLossError),
        ({"shard_id": 1}, DataLossError),
        ({"shard_id": -1}, DataLossError),
        ({"crc32c": 7}, DataLossError),
    ],
    ids=str,
)
def test_an_entry_that_cannot_be_is_told(tmp_path, fields, kind):
    prefix = save(tmp_path / "a", GOLDEN)

    def change(entries: dict[bytes, bytes]) -> None:
        entry = BundleEntryProto.FromString(entries[b"a"])
        for name, value in fields.items():
            setattr(entry, name, value)
        entries[b"a"] = entry.SerializeToString()

    rewrite_index(prefix, change)

    with pytest.raises(kind):
        load(prefix, "a", dt.as_dtype(fields.get("dtype", 1)) if fields.get("dtype") != 99 else dt.float32)


@pytest.mark.parametrize("dims", [[-1], [1 << 40, 1 << 40], [0, 1 << 62], [1 << 50], [1] * 65], ids=str)
@pytest.mark.parametrize(("name", "dtype"), [("a", dt.float32), ("b/s", dt.string)])
def test_a_shape_that_cannot_be_allocates_nothing(tmp_path, dims, name, dtype):
    prefix = save(tmp_path / "a", GOLDEN)

    def change(entries: dict[bytes, bytes]) -> None:
        entry = BundleEntryProto.FromString(entries[name.encode()])
        del entry.shape.dim[:]
        for size in dims:
            entry.shape.dim.add(size=size)
        entries[name.encode()] = entry.SerializeToString()

    rewrite_index(prefix, change)

    with pytest.raises(DataLossError):
        load(prefix, name, dtype)


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("08001a020801", DataLossError),
        ("08ffffffff0f1a020801", DataLossError),
        ("08011a0408011002", InvalidArgumentError),
        ("08011a0508011a0101", InvalidArgumentError),
        ("ffff", DataLossError),
    ],
)
def test_a_header_that_is_not_for_us_is_told(tmp_path, header, kind):
    prefix = save(tmp_path / "a", GOLDEN)
    rewrite_index(prefix, lambda entries: entries.update({b"": bytes.fromhex(header)}))

    with pytest.raises(kind):
        load(prefix, "a", dt.float32)


def test_an_index_without_a_header_or_with_nonsense_is_told(tmp_path):
    prefix = save(tmp_path / "a", GOLDEN)
    rewrite_index(prefix, lambda entries: entries.update({b"a": b"\xff\xff"}))
    with pytest.raises(DataLossError, match="no BundleEntryProto"):
        load(prefix, "a", dt.float32)

    rewrite_index(prefix, lambda entries: entries.pop(b""))
    with pytest.raises(DataLossError, match="has no header"):
        load(prefix, "a", dt.float32)


def test_parts_that_are_listed_and_not_there_are_told(tmp_path):
    prefix = save_parts(tmp_path / "a", "p", [("4 0,2", np.arange(2)), ("4 2,2", np.arange(2))])
    part = parse_shape_and_slice("4 2,2").part.key("p")
    rewrite_index(prefix, lambda entries: entries.pop(part))

    with pytest.raises(NotFoundError, match="Key p 2,2 not found"):
        load(prefix, "p", dt.int64)


@pytest.mark.parametrize("content", [b"", b"\0" * 48, b"x" * 1000], ids=["nothing", "zeros", "text"])
def test_a_file_that_is_no_index_is_told(tmp_path, content):
    (tmp_path / "a.index").write_bytes(content)

    with pytest.raises(DataLossError, match=r"too short to be an sstable|not an sstable"):
        load(str(tmp_path / "a"), "a", dt.float32)


def test_what_is_not_a_file_is_told_at_once(tmp_path):
    (tmp_path / "folder.index").mkdir()
    os.mkfifo(tmp_path / "pipe.index")

    for name in ("folder", "pipe"):
        with pytest.raises(FailedPreconditionError):
            load(str(tmp_path / name), "a", dt.float32)


def test_a_length_of_more_than_64_bits_is_told(tmp_path):
    prefix = save(tmp_path / "a", [("a", np.array([b"x" * 20], object), dt.string)])
    damage(
        f"{prefix}.data-00000-of-00001", lambda content: content.__setitem__(slice(10), b"\xff" * 9 + b"\x7f")
    )

    with pytest.raises(DataLossError):
        load(prefix, "a", dt.string)
