"""Tensor bundles: TensorFlow's bytes, and round trips."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import (
    InvalidArgumentError,
    NotFoundError,
    OpError,
)
from aioexec.formats.bundle_reader import BundleReader
from aioexec.formats.bundle_writer import BundleWriter, merge, write_index
from aioexec.formats.crc32c import crc32c, masked, unmasked
from aioexec.formats.protos import BundleEntryProto
from tests.formats.bundles import GOLDEN, load, rewrite_index, save, save_parts

DATA = "0000803f000000400102bfdfdb7a78797a"
INDEX = (
    "00000608011a02080100010f610801120412020802280835593ce535000311622f730807120412020802200828093599c75aef0000000001000000"
    "00f59687c1000000000100000000c0f2a1b000010263003b0000000001000000002097220240084d0e"
    + "00" * 36
    + "57fb808b247547db"
)
"""TensorFlow's index of `GOLDEN`."""
STORABLE = [
    each for each in map(dt.as_dtype, range(1, 24)) if each not in (dt.resource, dt.variant, dt.string)
]


def numbers(dtype: DType, shape: tuple[int, ...]) -> Any:
    raw = np.random.default_rng(5).integers(0, 256, (*shape, dtype.size), np.uint8)
    if dtype is dt.bool_:
        return raw[..., 0] > 127
    return raw.view(dtype.numpy)[..., 0]


# Checksums


def test_the_checksum_is_crc_32c():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"\0" * 32) == 0x8A9136AA
    assert crc32c(b"") == 0
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283
    assert crc32c(np.arange(3 << 20, dtype=np.uint8)) == crc32c(np.arange(3 << 20, dtype=np.uint8).tobytes())


def test_other_threads_run_while_a_checksum_of_much_is_computed():
    content, turns, seen = np.zeros(16 << 20, np.uint8), [0], []
    interval = sys.getswitchinterval()

    def compute() -> None:
        before = turns[0]
        crc32c(content)
        seen.append(turns[0] - before)

    sys.setswitchinterval(1e3)  # no thread is made to release the interpreter
    try:
        with open("/dev/zero", "rb", buffering=0) as zeros:
            while not any(seen):  # sometimes the checksum is ready before this thread is woken
                computing, count = threading.Thread(target=compute), len(seen)
                computing.start()
                while len(seen) == count:
                    zeros.read(1)  # releases the interpreter
                    turns[0] += 1
                computing.join()
    finally:
        sys.setswitchinterval(interval)


def test_a_masked_checksum_is_unmasked():
    assert masked(0xE3069283) == 0xC78AB0E5
    assert all(unmasked(masked(value)) == value for value in (0, 1, 0xE3069283, 0xFFFFFFFF))


# Whole tensors


def test_the_files_are_byte_for_byte_those_of_tensorflow(tmp_path):
    prefix = save(tmp_path / "a", GOLDEN)

    assert Path(f"{prefix}.data-00000-of-00001").read_bytes().hex() == DATA
    assert Path(f"{prefix}.index").read_bytes().hex() == INDEX
    assert sorted(os.listdir(tmp_path)) == ["a.data-00000-of-00001", "a.index"]


@pytest.mark.parametrize("dtype", STORABLE, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (2, 3, 5)], ids=str)
def test_numbers_come_back_as_they_were(tmp_path, dtype, shape):
    value = numbers(dtype, shape)
    prefix = save(tmp_path / "a", [("x", value, dtype)])

    result = load(prefix, "x", dtype)

    assert (result.dtype, result.shape) == (dtype.numpy, shape)
    assert result.tobytes() == value.tobytes()
    assert result.flags.owndata
    assert result.flags.writeable


@pytest.mark.parametrize(
    "value",
    [b"one", [], [b""], [b"a", b"", b"\0\xff" * 200], [[b"x" * 300_000, b"y" * 1_200_000], [b"z", b""]]],
    ids=["scalar", "none", "empty", "some", "large"],
)
def test_strings_come_back_as_they_were(tmp_path, value):
    array = np.array(value, object)
    prefix = save(tmp_path / "a", [("x", array, dt.string)])

    np.testing.assert_array_equal(load(prefix, "x", dt.string), array)


def test_a_tensor_of_several_pieces_that_is_not_contiguous_comes_back(tmp_path):
    value = np.arange(3 << 20, dtype=np.float32).reshape(3, -1).T
    prefix = save(tmp_path / "a", [("x", value, dt.float32), ("y", value[5:7], dt.float32)])

    np.testing.assert_array_equal(load(prefix, "x", dt.float32), value)
    np.testing.assert_array_equal(load(prefix, "y", dt.float32), value[5:7])


def test_an_index_of_many_blocks_is_read_in_order(tmp_path):
    names = [f"layer_{k:05d}/{'x' * 40}" for k in range(9000)]
    prefix = save(tmp_path / "a", [(name, np.int32(k), dt.int32) for k, name in enumerate(names)])

    with BundleReader(prefix) as reader:
        assert list(reader.tensors()) == [(name, dt.int32, ()) for name in names]
        assert all(reader.read(name, dt.int32) == k for k, name in enumerate(names) if k % 500 == 0)


def test_a_bundle_of_the_other_byte_order_is_read(tmp_path):
    prefix = save(tmp_path / "a", [("x", np.array([1.5, -2.0], ">f4").view("<f4"), dt.float32)])
    header = bytes.fromhex("080110011a020801")  # endianness BIG
    rewrite_index(prefix, lambda entries: entries.update({b"": header}))

    assert load(prefix, "x", dt.float32).tolist() == [1.5, -2.0]


@pytest.mark.parametrize("dtype", [dt.resource, dt.variant])
def test_handles_are_not_saved(tmp_path, dtype):
    with pytest.raises(InvalidArgumentError, match="are not kept in checkpoints"):
        save(tmp_path / "a", [("x", np.array(None, object), dtype)])

    assert os.listdir(tmp_path) == []


def test_a_name_is_saved_once(tmp_path):
    with pytest.raises(InvalidArgumentError, match="Adding duplicate key: a"):
        save(tmp_path / "a", [GOLDEN[0], GOLDEN[0]])

    assert os.listdir(tmp_path) == []


def test_what_is_not_there_or_is_of_another_type_is_told_in_tensorflows_words(tmp_path):
    prefix = save(tmp_path / "a", GOLDEN)

    with pytest.raises(NotFoundError, match="Key zz not found in checkpoint"):
        load(prefix, "zz", dt.float32)
    with pytest.raises(NotFoundError, match="not found in checkpoint"):
        load(prefix, "", dt.float32)
    with pytest.raises(
        InvalidArgumentError,
        match="tensor_name = a; expected dtype int32 does not equal original dtype float",
    ):
        load(prefix, "a", dt.int32)
    with pytest.raises(NotFoundError, match="No such file or directory"):
        load(str(tmp_path / "b"), "a", dt.int32)


# Parts


@pytest.mark.parametrize(
    ("place", "index"),
    [
        ("4 6 -:-", np.s_[:, :]),
        ("4 6 1,2:-", np.s_[1:3]),
        ("4 6 -:2,3", np.s_[:, 2:5]),
        ("4 6 3,1:5,1", np.s_[3:, 5:]),
        ("4 6 0,4:0,6", np.s_[:, :]),
    ],
)
def test_any_part_of_a_whole_tensor_is_read(tmp_path, place, index):
    value = np.arange(24.0).reshape(4, 6)
    text = np.array([b"%d" % k for k in range(24)], object).reshape(4, 6)
    prefix = save(tmp_path / "a", [("x", value, dt.float64), ("s", text, dt.string)])

    np.testing.assert_array_equal(load(prefix, "x", dt.float64, place), value[index])
    np.testing.assert_array_equal(load(prefix, "s", dt.string, place), text[index])


def test_a_part_of_a_tensor_of_several_pieces_is_read(tmp_path):
    value = np.arange(3 << 18, dtype=np.int64).reshape(3, 1 << 10, 1 << 8)
    prefix = save(tmp_path / "a", [("x", value, dt.int64)])

    for place, index in (("0,2:-:-", np.s_[0:2]), ("1,1:-:-", np.s_[1:2]), ("1,2:3,4:-", np.s_[1:3, 3:7])):
        np.testing.assert_array_equal(load(prefix, "x", dt.int64, f"3 1024 256 {place}"), value[index])


@pytest.mark.parametrize("kind", [float, object])
def test_a_tensor_saved_in_parts_is_joined(tmp_path, kind):
    value = (
        np.arange(20.0).reshape(5, 4) if kind is float else np.array([b"%d" % k for k in range(20)], object)
    )
    value = value.reshape(5, 4)
    dtype = dt.float64 if kind is float else dt.string
    prefix = save_parts(
        tmp_path / "a",
        "p",
        [("5 4 0,2:-", value[:2]), ("5 4 2,3:0,1", value[2:, :1]), ("5 4 2,3:1,3", value[2:, 1:])],
    )

    np.testing.assert_array_equal(load(prefix, "p", dtype), value)
    np.testing.assert_array_equal(load(prefix, "p", dtype, "5 4 1,3:0,2"), value[1:4, :2])
    with BundleReader(prefix) as reader:
        assert list(reader.tensors()) == [("p", dtype, (5, 4))]


def test_a_part_that_is_everything_is_saved_as_a_whole(tmp_path):
    prefix = save_parts(tmp_path / "a", "p", [("2 2 0,2:-", np.eye(2))])

    assert load(prefix, "p", dt.float64).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(NotFoundError):
        load(f"{prefix}.none", "p", dt.float64)


def test_parts_that_do_not_cover_what_is_wanted_are_not_enough(tmp_path):
    prefix = save_parts(tmp_path / "a", "p", [("6 0,2", np.arange(2)), ("6 3,3", np.arange(3))])

    assert load(prefix, "p", dt.int64, "6 4,2").tolist() == [1, 2]
    with pytest.raises(
        InvalidArgumentError,
        match="Does not have sufficient slices for partitioned tensor p to restore in slice_spec: 1,3",
    ):
        load(prefix, "p", dt.int64, "6 1,3")
    with pytest.raises(InvalidArgumentError, match="slice_spec: -"):
        load(prefix, "p", dt.int64)


@pytest.mark.parametrize(
    ("second", "value"),
    [("4 0,2", np.arange(2)), ("5 2,2", np.arange(2)), ("4 2,2", np.arange(2.0))],
    ids=["the same part", "another shape", "another type"],
)
def test_parts_of_one_name_are_of_one_tensor(tmp_path, second, value):
    with pytest.raises(InvalidArgumentError, match="Adding duplicate key"):
        save_parts(tmp_path / "a", "p", [("4 0,2", np.arange(2)), (second, value)])


def test_a_part_of_a_tensor_of_another_shape_is_refused(tmp_path):
    prefix = save(tmp_path / "a", [("x", np.eye(2), dt.float64)])

    with pytest.raises(InvalidArgumentError, match=r"spec \[3,2\] does not match .* in checkpoint: \[2,2\]"):
        load(prefix, "x", dt.float64, "3 2 0,1:-")


# Merging


def test_bundles_are_merged_into_one_whose_data_files_they_were(tmp_path):
    first = save(tmp_path / "one", [("a", np.arange(3), dt.int64)])
    second = save(tmp_path / "two", [("b", np.arange(2.0), dt.float64)])

    merge([first, second], str(tmp_path / "all"))

    assert sorted(os.listdir(tmp_path)) == ["all.data-00000-of-00002", "all.data-00001-of-00002", "all.index"]
    assert load(str(tmp_path / "all"), "a", dt.int64).tolist() == [0, 1, 2]
    assert load(str(tmp_path / "all"), "b", dt.float64).tolist() == [0, 1]


def test_parts_in_several_bundles_are_one_tensor_when_merged(tmp_path):
    prefixes = [
        save_parts(tmp_path / f"part{k}", "p", [(f"4 {2 * k},2", np.arange(2 * k, 2 * k + 2))])
        for k in (0, 1)
    ]

    merge(prefixes, str(tmp_path / "all"))

    assert load(str(tmp_path / "all"), "p", dt.int64).tolist() == [0, 1, 2, 3]


def test_bundles_with_tensors_of_one_name_stay_as_they_are(tmp_path):
    prefixes = [save(tmp_path / name, GOLDEN) for name in ("one", "two")]
    before = sorted(os.listdir(tmp_path))

    with pytest.raises(
        InvalidArgumentError, match="Duplicate tensor keyed by a encountered, when merging prefix"
    ):
        merge(prefixes, str(tmp_path / "all"))

    assert sorted(os.listdir(tmp_path)) == before


def test_bundles_that_are_missing_are_left_out_if_that_is_allowed(tmp_path):
    prefix, missing = save(tmp_path / "one", GOLDEN), str(tmp_path / "none")

    with pytest.raises(
        InvalidArgumentError, match=r"allow_missing_files was set to false and .*none did not exist"
    ):
        merge([prefix, missing], str(tmp_path / "all"))
    merge([missing, prefix], str(tmp_path / "all"), allow_missing_files=True)
    with pytest.raises(InvalidArgumentError, match="At least one prefix checkpoint file must exist"):
        merge([missing], str(tmp_path / "more"), allow_missing_files=True)

    assert load(str(tmp_path / "all"), "a", dt.float32).tolist() == [1, 2]


# Interrupted saves


def test_an_error_leaves_the_former_bundle_and_nothing_else(tmp_path):
    prefix = save(tmp_path / "a", GOLDEN)

    def give_up() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), BundleWriter(prefix, give_up) as writer:
        writer.add("a", np.zeros(1000), dt.float64)

    assert sorted(os.listdir(tmp_path)) == ["a.data-00000-of-00001", "a.index"]
    assert load(prefix, "a", dt.float32).tolist() == [1, 2]


def test_a_bundle_in_the_making_has_no_name_yet(tmp_path):
    with BundleWriter(str(tmp_path / "a")) as writer:
        writer.add("a", np.zeros(1000), dt.float64)

        assert [name for name in os.listdir(tmp_path) if ".tempstate" not in name] == []


def test_where_files_need_a_name_it_is_another_one_and_goes_with_an_error(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)

    with pytest.raises(InvalidArgumentError), BundleWriter(str(tmp_path / "a")) as writer:
        assert [".tempstate" in name for name in os.listdir(tmp_path)] == [True]
        writer.add("", np.zeros(1), dt.float64)
    assert os.listdir(tmp_path) == []

    assert load(save(tmp_path / "a", GOLDEN), "a", dt.float32).tolist() == [1, 2]
    assert sorted(os.listdir(tmp_path)) == ["a.data-00000-of-00001", "a.index"]


def test_the_folder_is_made_but_not_the_one_around_it(tmp_path):
    save(tmp_path / "new" / "a", GOLDEN)

    with pytest.raises(NotFoundError, match="No such file or directory"):
        save(tmp_path / "no" / "such" / "a", GOLDEN)


def test_a_place_that_is_no_folder_is_told(tmp_path):
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(OpError):
        save(tmp_path / "file" / "a", GOLDEN)
    with pytest.raises(InvalidArgumentError, match="null"):
        save(tmp_path / "a\0b", GOLDEN)


def test_an_index_written_for_several_data_files_needs_them(tmp_path):
    prefix = save(tmp_path / "a", GOLDEN)
    entry = BundleEntryProto(dtype=1, shard_id=1, size=4)  # type: ignore[arg-type]
    write_index(prefix, {b"x": entry}, 2)

    with pytest.raises(NotFoundError, match="data-00001-of-00002"):
        load(prefix, "x", dt.float32)
