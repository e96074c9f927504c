"""Event files: TensorFlow's records, and the handling of damaged, truncated or removed files."""

from __future__ import annotations

import errno
import itertools
import os
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from aioexec.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnknownError,
)
from aioexec.formats import event_files
from aioexec.formats.crc32c import crc32c, masked
from aioexec.formats.event_files import VERSION, EventFile, What, encode_event, summary_iterator, write_asset
from aioexec.formats.protos import Event, Summary
from aioexec.formats.records import encode_record

STEPS = st.integers(-(1 << 63), (1 << 63) - 1)
HEADER = 12


def scalar(tag: str, value: float) -> bytes:
    return Summary(value=[Summary.Value(tag=tag, simple_value=value)]).SerializeToString()


def record(step: int, tag: str = "loss") -> bytes:
    return encode_record(encode_event(1.5, step, What.SUMMARY, scalar(tag, step)))


def steps_in(file: EventFile) -> list[int]:
    assert file.path is not None
    return [event.step for event in summary_iterator(file.path)]


def write(directory: Path, *records: bytes, suffix: str = "") -> Path:
    file = EventFile(str(directory), suffix)
    file.append(b"".join(records))
    file.close()
    assert file.path is not None
    return Path(file.path)


# Bytes


def test_the_first_record_is_the_golden_one():
    encoded = encode_record(encode_event(1.0, 0, What.FILE_VERSION, VERSION))

    assert encoded[:HEADER].hex() == "1800000000000000a37f4b22"
    assert encoded[HEADER:-4].hex() == "09000000000000f03f1a0d" + b"brain.Event:2".hex()


@given(
    wall_time=st.floats(1e-3, 4e9),
    step=STEPS,
    value=st.floats(width=32, allow_nan=False),
    tag=st.text(max_size=300),
)
def test_a_summary_event_has_the_bytes_of_the_proto(wall_time, step, value, tag):
    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
    expected = Event(wall_time=wall_time, step=step, summary=summary)

    assert (
        encode_event(wall_time, step, What.SUMMARY, summary.SerializeToString())
        == expected.SerializeToString()
    )


@pytest.mark.parametrize("what", [What.GRAPH_DEF, What.META_GRAPH_DEF])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16383, 16384, 1 << 21])
def test_an_event_of_bytes_has_the_bytes_of_the_proto(what, size):
    content = b"\x01" * size
    expected = Event(wall_time=2.5, step=-1, **{what.name.lower(): content})

    assert encode_event(2.5, -1, what, content) == expected.SerializeToString()


@pytest.mark.parametrize("step", [1 << 63, -(1 << 63) - 1])
def test_a_step_of_more_than_64_bits_is_refused(step):
    with pytest.raises(InvalidArgumentError, match="Value out of range"):
        encode_event(1.0, step, What.SUMMARY, b"")


# Files


def test_a_file_is_named_after_when_where_and_by_whom_it_was_begun(tmp_path):
    path = write(tmp_path, record(1))

    assert re.fullmatch(rf"events\.out\.tfevents\.\d{{10}}\..+\.{os.getpid()}\.\d+", path.name)


def test_two_files_of_the_same_second_have_different_names(tmp_path):
    assert write(tmp_path, record(1)) != write(tmp_path, record(2))


def test_files_are_in_order_by_name_also_those_of_the_same_second(tmp_path, monkeypatch):
    monkeypatch.setattr(event_files, "_numbers", itertools.count(8))

    names = [write(tmp_path, record(step)).name for step in range(4)]

    assert names == sorted(names)


def test_a_suffix_ends_the_name(tmp_path):
    assert write(tmp_path, record(1), suffix=".eval").name.endswith(".eval")


@pytest.mark.parametrize("suffix", ["/x", "../x", "\0"])
def test_a_suffix_cannot_lead_elsewhere(tmp_path, suffix):
    with pytest.raises(InvalidArgumentError, match="filename_suffix"):
        EventFile(str(tmp_path), suffix)


def test_a_file_and_its_directories_begin_with_the_first_record(tmp_path):
    directory = tmp_path / "runs" / "first"
    file = EventFile(str(directory))
    file.sync()
    assert not directory.exists()

    file.append(record(3))
    file.sync()
    file.close()

    (path,) = directory.iterdir()
    version, event = summary_iterator(path)
    assert version.file_version == "brain.Event:2"
    assert (event.wall_time, event.step, event.summary.value[0].tag) == (1.5, 3, "loss")


def test_a_full_disk_leaves_whole_records(tmp_path, monkeypatch):
    file = EventFile(str(tmp_path))
    file.append(record(1))
    real, calls = os.write, iter([5])

    def write_little(descriptor: int, data: bytes) -> int:
        if (left := next(calls, None)) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:left])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_little)
        with pytest.raises(ResourceExhaustedError, match="No space left on device"):
            file.append(record(2))
    file.append(record(3))
    file.close()

    assert steps_in(file) == [0, 1, 3]


def test_a_file_that_cannot_be_begun_is_not_there(tmp_path, monkeypatch):
    def refuse(descriptor: int, data: bytes) -> int:
        raise OSError(errno.EIO, "Input/output error")

    file = EventFile(str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", refuse)
        with pytest.raises(UnknownError, match="Input/output error"):
            file.append(record(1))

    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_a_file_is_told_as_such(tmp_path):
    (tmp_path / "taken").write_text("")

    with pytest.raises(FailedPreconditionError, match="taken"):
        EventFile(str(tmp_path / "taken" / "run")).append(record(1))


def test_a_removed_file_is_reported_once_and_another_one_begins(tmp_path):
    file = EventFile(str(tmp_path))
    file.append(record(1))
    assert file.path is not None
    os.unlink(file.path)

    with pytest.raises(NotFoundError, match="has disappeared"):
        file.sync()
    file.append(record(2))
    file.sync()
    file.close()

    assert steps_in(file) == [0, 2]


def test_an_asset_is_written_with_its_directories(tmp_path):
    write_asset(str(tmp_path / "plugins" / "mine" / "a.txt"), "ä".encode())

    assert (tmp_path / "plugins" / "mine" / "a.txt").read_text(encoding="utf-8") == "ä"


def test_an_asset_whose_place_is_taken_is_told(tmp_path):
    (tmp_path / "plugins").write_text("")

    with pytest.raises(FailedPreconditionError, match="plugins"):
        write_asset(str(tmp_path / "plugins" / "mine" / "a.txt"), b"")


def test_an_asset_that_cannot_be_named_is_told(tmp_path):
    with pytest.raises(InvalidArgumentError, match="null byte"):
        write_asset(str(tmp_path / "a\0b"), b"")


# Reading


def test_a_file_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(NotFoundError, match="nowhere; No such file or directory"):
        list(summary_iterator(tmp_path / "nowhere"))


def test_an_empty_file_has_no_events(tmp_path):
    (tmp_path / "empty").write_bytes(b"")

    assert list(summary_iterator(tmp_path / "empty")) == []


@pytest.mark.slow
def test_each_flipped_bit_is_detected_and_what_stands_before_is_read(tmp_path):
    whole = write(tmp_path, record(1), record(2)).read_bytes()
    starts = [0, len(whole) - 2 * len(record(1)), len(whole) - len(record(1))]
    path = tmp_path / "damaged"

    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        events = summary_iterator(path)
        hit = max(index for index, start in enumerate(starts) if start <= bit // 8)
        place = starts[hit] + (0 if bit // 8 < starts[hit] + HEADER else HEADER)

        assert len([next(events) for _ in range(hit)]) == hit
        with pytest.raises(DataLossError, match=f"corrupted record at {place}"):
            next(events)


def test_a_cut_file_ends_within_a_header_and_is_truncated_within_data(tmp_path):
    whole = write(tmp_path, record(1)).read_bytes()
    start = len(whole) - len(record(1))
    path = tmp_path / "cut"

    for length in range(start, len(whole)):
        path.write_bytes(whole[:length])
        events = summary_iterator(path)
        assert next(events).file_version

        if length - start < HEADER:
            assert list(events) == []
        else:
            with pytest.raises(DataLossError, match=f"truncated record at {start}'"):
                next(events)


def test_a_length_beyond_reason_is_a_truncated_record(tmp_path):
    length = struct.pack("<Q", (1 << 64) - 1)
    (tmp_path / "long").write_bytes(length + struct.pack("<I", masked(crc32c(length))) + b"x" * 100)

    with pytest.raises(DataLossError, match="truncated record at 0'"):
        list(summary_iterator(tmp_path / "long"))


def test_a_record_that_is_no_event_is_data_loss(tmp_path):
    (tmp_path / "other").write_bytes(encode_record(b"\xff\xff\xff"))

    with pytest.raises(DataLossError, match="the record at 0 is no event"):
        list(summary_iterator(tmp_path / "other"))


def test_a_pipe_has_no_events_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InvalidArgumentError, match="Illegal seek"):
        next(summary_iterator(tmp_path / "pipe"))


def test_a_name_that_no_file_can_have_is_an_invalid_argument():
    with pytest.raises(InvalidArgumentError, match="null"):
        next(summary_iterator("a\0b"))
