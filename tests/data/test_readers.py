"""Datasets of the records of files."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import DataLossError, InvalidArgumentError, NotFoundError
from aioexec.formats.records import encode_record
from tests.data.elements import elements, rest

RECORDS = [bytes([k]) * (k * 4000) for k in range(1, 60)]


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
@pytest.mark.parametrize("size", [None, 1, 10_000_000])
async def test_records(tmp_path: Path, compression: str, size: int | None):
    compress: Any = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[compression]
    lines = [b"x" * length for length in (3, 0, 400_000, 7)]
    contents = {
        "records": b"".join(map(encode_record, RECORDS)),
        "lines": b"\n".join(lines),
        "fixed": b"head" + b"".join(b"%05d" % k for k in range(20_000)) + b"foot",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(compress(content))
    records = ax.data.TFRecordDataset([str(tmp_path / "records")] * 2, compression, size)
    text = ax.data.TextLineDataset(str(tmp_path / "lines"), compression, size)
    fixed = ax.data.FixedLengthRecordDataset(str(tmp_path / "fixed"), 5, 4, 4, size, compression)

    assert await elements(records) == RECORDS * 2
    assert await elements(text) == lines
    found = await elements(fixed.batch(500).prefetch(1))
    assert [row for batch in found for row in batch] == [b"%05d" % k for k in range(20_000)]


async def test_several_files_are_read_at_once(tmp_path: Path):
    for number in range(3):
        (tmp_path / str(number)).write_bytes(b"".join(map(encode_record, [b"%d" % number] * 2)))
    names = [str(tmp_path / str(number)) for number in range(3)]

    assert await elements(ax.data.TFRecordDataset(names, num_parallel_reads=2)) == [
        b"0",
        b"1",
        b"0",
        b"1",
        b"2",
        b"2",
    ]


async def test_a_damaged_file_is_passed_over(tmp_path: Path):
    whole = b"".join(map(encode_record, [b"aaaa", b"bbbb", b"cccc"]))
    (tmp_path / "damaged").write_bytes(whole.replace(b"bbbb", b"bxbb"))
    (tmp_path / "short").write_bytes(whole[:-1])
    (tmp_path / "whole").write_bytes(whole)
    names = [str(tmp_path / name) for name in ("damaged", "short", "whole")]
    element = ax.data.TFRecordDataset(names).make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        assert await session.run(element) == b"aaaa"
        with pytest.raises(DataLossError, match="corrupted record at 32"):
            await session.run(element)
        assert [await session.run(element) for _ in range(2)] == [b"aaaa", b"bbbb"]
        with pytest.raises(DataLossError, match="truncated record at 40"):
            await session.run(element)
        assert await rest(session, element) == [b"aaaa", b"bbbb", b"cccc"]


async def test_what_cannot_be_read_fails_the_step(tmp_path: Path):
    (tmp_path / "seven").write_bytes(b"1234567")
    missing = ax.data.TextLineDataset(str(tmp_path / "none")).make_one_shot_iterator().get_next()
    uneven = ax.data.FixedLengthRecordDataset(str(tmp_path / "seven"), 4).make_one_shot_iterator().get_next()
    unknown = ax.data.TFRecordDataset("x", "LZ").make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        with pytest.raises(NotFoundError, match="none"):
            await session.run(missing)
        with pytest.raises(InvalidArgumentError, match="not an exact multiple of the record"):
            await session.run(uneven)
        with pytest.raises(InvalidArgumentError, match="Unsupported compression_type"):
            await session.run(unknown)


async def test_files_are_listed(tmp_path: Path):
    for name in ("a.txt", "b.txt", "c.md"):
        (tmp_path / name).write_text(name)
    pattern = os.path.join(tmp_path, "*.txt")
    names = ax.data.Dataset.list_files(pattern)
    none = ax.data.Dataset.list_files(str(tmp_path / "*.no")).make_initializable_iterator()

    assert sorted(await elements(names)) == [os.fsencode(tmp_path / name) for name in ("a.txt", "b.txt")]
    assert sorted(await elements(names.flat_map(ax.data.TextLineDataset))) == [b"a.txt", b"b.txt"]
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="No files matched pattern"):
            await session.run(none.initializer)
