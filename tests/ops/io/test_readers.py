"""Readers and files in sessions: records, waits, and errors of files."""

from __future__ import annotations

import asyncio
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    OutOfRangeError,
    UnimplementedError,
)
from aioexec.formats.records import encode_record
from aioexec.testing import all_tasks_blocked

RECORDS = b"".join(map(encode_record, (b"x", b"", b"yyy")))


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def written(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


class Reading:
    """A reader, its queue, and what tests run of them."""

    def __init__(self, reader: ax.ReaderBase) -> None:
        self.queue = ax.FIFOQueue(10, ax.string, shapes=[[]])
        self._names = ax.placeholder(ax.string, [None])
        self._enqueue = self.queue.enqueue_many(self._names)
        self._close = self.queue.close()
        self.next = list(reader.read(self.queue))
        self.some = list(reader.read_up_to(self.queue, 3))
        self.counts = [reader.num_records_produced(), reader.num_work_units_completed()]
        self.reset = reader.reset()
        self.state = reader.serialize_state()

    async def begin(self, session: ax.Session, *files: str) -> None:
        await session.run(self._enqueue, {self._names: list(files)})
        await session.run(self._close)

    async def all(self, session: ax.Session) -> list[Any]:
        found = []
        while True:
            try:
                found.append(await session.run(self.next))
            except OutOfRangeError:
                return found


async def test_lines_come_file_after_file_each_with_its_number(tmp_path: Path):
    first, second = written(tmp_path, "a", b"h\none\r\n\nlast"), written(tmp_path, "b", b"h\ntwo\n")
    reading = Reading(ax.TextLineReader(skip_header_lines=1))
    async with ax.Session() as session:
        await reading.begin(session, first, second)

        found = await reading.all(session)

        assert [value for _, value in found] == [b"one", b"", b"last", b"two"]
        assert [key.decode() for key, _ in found] == [f"{first}:2", f"{first}:3", f"{first}:4", f"{second}:2"]
        assert [int(count) for count in await session.run(reading.counts)] == [4, 2]


@pytest.mark.parametrize(
    ("compression", "compress"), [("", bytes), ("ZLIB", zlib.compress), ("GZIP", gzip.compress)]
)
async def test_records_are_read_whatever_they_are_compressed_with(
    tmp_path: Path, compression: str, compress: Callable[[bytes], bytes]
):
    reading = Reading(ax.TFRecordReader(options=compression))
    async with ax.Session() as session:
        await reading.begin(session, written(tmp_path, "t", compress(RECORDS)))

        assert [value for _, value in await reading.all(session)] == [b"x", b"", b"yyy"]


@pytest.mark.parametrize("damage", ["cut", "length", "data"])
async def test_a_damaged_record_is_told_each_time_it_is_asked_for(tmp_path: Path, damage: str):
    content = bytearray(RECORDS[:-2] if damage == "cut" else RECORDS)
    if damage != "cut":
        content[33 + (5 if damage == "length" else 12)] ^= 1
    reading = Reading(ax.TFRecordReader())
    async with ax.Session() as session:
        await reading.begin(session, written(tmp_path, "t", bytes(content)))
        assert [(await session.run(reading.next))[1] for _ in range(2)] == [b"x", b""]

        for _ in range(2):
            with pytest.raises(DataLossError, match=f"record at {45 if damage == 'data' else 33}"):
                await session.run(reading.next)


async def test_a_batch_ends_with_its_file(tmp_path: Path):
    name = written(tmp_path, "a", b"1\n2\n3\n4\n")
    reading = Reading(ax.TextLineReader())
    async with ax.Session() as session:
        await reading.begin(session, name, name)

        batches = [list((await session.run(reading.some))[1]) for _ in range(4)]

        assert batches == [[b"1", b"2", b"3"], [b"4"], [b"1", b"2", b"3"], [b"4"]]


async def test_a_file_that_is_not_there_is_left_out(tmp_path: Path):
    reading = Reading(ax.TextLineReader())
    async with ax.Session() as session:
        await reading.begin(session, str(tmp_path / "none"), written(tmp_path, "a", b"1"))

        with pytest.raises(NotFoundError):
            await session.run(reading.next)
        assert (await session.run(reading.next))[1] == b"1"


async def test_records_of_one_length_may_overlap(tmp_path: Path):
    reading = Reading(ax.FixedLengthRecordReader(3, header_bytes=1, hop_bytes=2))
    async with ax.Session() as session:
        await reading.begin(session, written(tmp_path, "a", b"h0123456"))

        assert [value for _, value in await reading.all(session)] == [b"012", b"234", b"456"]


async def test_a_read_waits_for_a_file_and_may_be_given_up(tmp_path: Path):
    reading = Reading(ax.IdentityReader())
    async with ax.Session() as session:
        waiting = asyncio.create_task(session.run(reading.next))
        await all_tasks_blocked()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        await reading.begin(session, "a")

        assert await session.run(reading.next) == [b"a", b"a"]


async def test_whole_files_are_counted_reset_and_told_as_a_state(tmp_path: Path):
    reader = ax.WholeFileReader()
    reading, state = Reading(reader), ax.placeholder(ax.string, [])
    restore, name = reader.restore_state(state), written(tmp_path, "a", b"all of it\n")
    async with ax.Session() as session:
        await reading.begin(session, name, name)
        assert await session.run(reading.next) == [name.encode(), b"all of it\n"]
        kept = await session.run(reading.state)

        await session.run(reading.reset)
        assert [int(count) for count in await session.run(reading.counts)] == [0, 0]
        await session.run(restore, {state: kept})
        assert [int(count) for count in await session.run(reading.counts)] == [1, 1]
        with pytest.raises(InvalidArgumentError):
            await session.run(restore, {state: b"\x22\xff\xff"})


async def test_readers_of_lines_keep_no_state():
    reading = Reading(ax.TextLineReader())
    async with ax.Session() as session:
        with pytest.raises(UnimplementedError):
            await session.run(reading.state)


async def test_files_are_written_with_their_folders_read_and_found(tmp_path: Path):
    name = str(tmp_path / "new" / "file")
    write, read = ax.write_file(name, "text"), ax.read_file(name)
    names = ax.matching_files([f"{tmp_path}/new/*", f"{tmp_path}/none*"])
    async with ax.Session() as session:
        await session.run(write)

        assert await session.run(read) == b"text"
        assert list(await session.run(names)) == [name.encode()]


@pytest.mark.parametrize(
    "make",
    [ax.TFRecordReader, ax.TextLineReader, ax.WholeFileReader, lambda: ax.FixedLengthRecordReader(1)],
    ids=["records", "lines", "whole", "fixed"],
)
async def test_a_reader_does_not_wait_for_who_writes_a_pipe(
    tmp_path: Path, make: Callable[[], ax.ReaderBase]
):
    os.mkfifo(tmp_path / "pipe")
    reading = Reading(make())
    async with ax.Session() as session:
        await reading.begin(session, str(tmp_path / "pipe"))

        with pytest.raises(InvalidArgumentError, match="Illegal seek"):
            await session.run(reading.next)


async def test_a_pipe_is_neither_read_nor_waited_for_as_a_file(tmp_path: Path):
    name = str(tmp_path / "pipe")
    os.mkfifo(name)
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="Illegal seek"):
            await session.run(ax.read_file(name))
        with pytest.raises(NotFoundError):
            await session.run(ax.write_file(name, "text"))
        with pytest.raises(NotFoundError):
            await session.run(ax.print("text", output_stream=f"file://{name}"))


async def test_values_are_shown_with_their_text(capsys: pytest.CaptureFixture[str]):
    shown = ax.print("x =", ax.constant([1, 2]), output_stream="stdout")
    async with ax.Session() as session:
        await session.run(shown)

    assert capsys.readouterr().out == "x = [1 2]\n"
