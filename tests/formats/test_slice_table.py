"""Checkpoints of the first format: TensorFlow's bytes, slices, several files, and damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes as dt
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError, UnimplementedError
from aioexec.formats.protos import SavedTensorSlices
from aioexec.formats.slice_table import SliceTableReader, SliceTableWriter
from aioexec.formats.tensor_slice import parse_shape_and_slice
from tests.formats.bundles import read_table, write_table

GOLDEN = (
    "00002e0a2c0a0f0a0173120412020803180322020a000a150a017712081202080212020802180122040a000a0012020801000810007300"
    "010101807f120e0a017312020a001a053a0301020301091f7700010102807f807f121d0a017712040a000a001a122a100000803f000000"
    "400000404000008040000000000100000000597062e9000000000100000000c0f2a1b000010201007f0000000001000000007be324d284"
    "010891010e" + "00" * 34 + "57fb808b247547db"
)
"""TensorFlow's file for `w`, float32 [[1, 2], [3, 4]], and `s`, int32 [1, 2, 3]."""
STORABLE = (
    *("float16", "float32", "float64", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "qint8", "quint8", "qint32"),
)


def save(path: Path, *tensors: tuple[Any, ...]) -> str:
    writer = SliceTableWriter(str(path))
    for name, value, *place in tensors:
        array = np.asarray(value)
        dtype = dt.string if array.dtype == object else dt.as_dtype(array.dtype)
        writer.add(name, array, dtype, *map(parse_shape_and_slice, place))
    writer.finish()
    return str(path)


def load(pattern: str, name: str, dtype: Any, place: str = "") -> Any:
    with SliceTableReader(pattern) as reader:
        return reader.read(name, dt.as_dtype(dtype), parse_shape_and_slice(place) if place else None)


def test_a_file_is_byte_for_byte_tensorflows(tmp_path):
    path = save(
        tmp_path / "a",
        ("w", np.array([[1, 2], [3, 4]], np.float32)),
        ("s", np.array([1, 2, 3], np.int32)),
    )

    assert Path(path).read_bytes().hex() == GOLDEN


@pytest.mark.parametrize("name", STORABLE)
def test_numbers_come_back_as_they_were(tmp_path, name):
    dtype = dt.as_dtype(name)
    raw = np.random.default_rng(5).integers(0, 2 if name == "bool" else 100, (3, 4, dtype.size), np.uint8)
    value = raw.view(dtype.numpy)[..., 0]
    path = save(tmp_path / "a", ("x", value), ("scalar", value[0, 0]), ("none", value[:0]))

    assert load(path, "x", dtype).tobytes() == value.tobytes()
    assert load(path, "scalar", dtype).tobytes() == value[0, 0].tobytes()
    assert load(path, "none", dtype).shape == (0, 4)


def test_strings_come_back_as_they_were(tmp_path):
    value = np.array([[b"a", b""], [b"\0\xff", b"x" * 300_000]], object)
    path = save(tmp_path / "a", ("x", value))

    np.testing.assert_array_equal(load(path, "x", "string"), value)


def test_parts_in_several_files_are_one_tensor(tmp_path):
    value = np.arange(8.0).reshape(4, 2)
    save(tmp_path / "a-0", ("p", value[:2], "4 2 0,2:-"))
    save(tmp_path / "a-1", ("p", value[2:], "4 2 2,2:-"), ("q", 7))

    pattern = str(tmp_path / "a-?")
    np.testing.assert_array_equal(load(pattern, "p", "float64"), value)
    np.testing.assert_array_equal(load(pattern, "p", "float64", "4 2 1,2:1,1"), value[1:3, 1:])
    assert load(pattern, "q", "int64") == 7
    with pytest.raises(InvalidArgumentError, match="could not find all of tensor 'p'"):
        load(str(tmp_path / "a-0"), "p", "float64")


def test_what_is_not_there_or_is_of_another_kind_is_told_in_tensorflows_words(tmp_path):
    path = save(tmp_path / "a", ("w", np.eye(2, dtype=np.float32)))

    with pytest.raises(NotFoundError, match='Tensor name "zz" not found in checkpoint files'):
        load(path, "zz", "float32")
    with pytest.raises(
        InvalidArgumentError,
        match="Expected to restore a tensor of type int32, got a tensor of type float instead: tensor_name = w",
    ):
        load(path, "w", "int32")
    with pytest.raises(InvalidArgumentError, match=r"the save file: \[3,2\], save file shape: \[2,2\]"):
        load(path, "w", "float32", "3 2 -:-")
    with pytest.raises(
        NotFoundError, match="Unsuccessful TensorSliceReader constructor: Failed to find any matching files"
    ):
        load(str(tmp_path / "none*"), "w", "float32")


@pytest.mark.parametrize("name", ["bfloat16", "uint32", "uint64", "uint16"])
def test_types_that_the_format_lacks_are_not_saved(tmp_path, name):
    with pytest.raises(UnimplementedError, match=f"Saving data type {name} not yet supported"):
        save(tmp_path / "a", ("x", np.zeros(2, dt.as_dtype(name).numpy)))


def test_parts_of_one_name_are_of_one_tensor(tmp_path):
    with pytest.raises(InvalidArgumentError, match="Mismatching shapes or types"):
        save(tmp_path / "a", ("p", np.zeros(2), "4 0,2"), ("p", np.zeros(2), "5 2,2"))


def test_a_file_that_was_cut_anywhere_is_told(tmp_path):
    path = tmp_path / "a"
    whole = bytes.fromhex(GOLDEN)

    for left in range(len(whole)):
        path.write_bytes(whole[:left])
        with pytest.raises(DataLossError):
            load(str(path), "w", "float32")


def rewrite(path: str, key: bytes, change: Any) -> None:
    """Change the content of a table, and recompute its checksum."""
    entries = read_table(path)
    saved = SavedTensorSlices.FromString(entries[key])
    change(saved)
    entries[key] = saved.SerializeToString()
    write_table(path, entries)


@pytest.mark.parametrize("sizes", [(-1, 2), (1 << 40, 1 << 40), (1 << 30, 1 << 28), (4, 2)], ids=str)
def test_a_shape_that_cannot_be_allocates_nothing(tmp_path, sizes):
    path = save(tmp_path / "a", ("w", np.eye(2, dtype=np.float32)))

    def change(saved: Any) -> None:
        for dim, size in zip(saved.meta.tensor[0].shape.dim, sizes, strict=True):
            dim.size = size

    rewrite(path, b"", change)

    with pytest.raises(DataLossError):
        load(path, "w", "float32")


def test_types_and_parts_that_cannot_be_are_told(tmp_path):
    path = save(tmp_path / "a", ("w", np.eye(2, dtype=np.float32)))
    rewrite(path, b"", lambda saved: saved.meta.tensor[0].slice[0].extent.add())
    with pytest.raises(InvalidArgumentError, match="Mismatching ranks"):
        load(path, "w", "float32")

    rewrite(path, b"", lambda saved: setattr(saved.meta.tensor[0], "type", 21))
    with pytest.raises(DataLossError, match="unknown dtype 21"):
        load(path, "w", "float32")

    rewrite(path, b"", lambda saved: setattr(saved.meta.versions, "min_consumer", 2))
    with pytest.raises(InvalidArgumentError, match="min consumer version"):
        load(path, "w", "float32")
