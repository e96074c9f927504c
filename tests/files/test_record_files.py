"""`ax.python_io`: record files."""

from __future__ import annotations

import gzip
import zlib

import pytest

from aioexec import errors, python_io
from aioexec.python_io import TFRecordCompressionType, TFRecordOptions, TFRecordWriter, tf_record_iterator


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "records")


def content(path):
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize(
    ("options", "plain"),
    [
        (None, bytes),
        ("", bytes),
        (TFRecordCompressionType.NONE, bytes),
        (TFRecordOptions(), bytes),
        ("ZLIB", zlib.decompress),
        (TFRecordCompressionType.ZLIB, zlib.decompress),
        ("GZIP", gzip.decompress),
        (TFRecordOptions(TFRecordCompressionType.GZIP), gzip.decompress),
        (TFRecordOptions(TFRecordOptions("GZIP")), gzip.decompress),
    ],
)
def test_records_are_read_as_they_were_written(path, options, plain):
    with TFRecordWriter(path, options) as writer:
        writer.write(b"abc")
        writer.write("é")
        writer.write(b"")

    assert list(tf_record_iterator(path, options)) == [b"abc", "é".encode(), b""]
    assert plain(content(path))[:12] == (3).to_bytes(8, "little") + plain(content(path))[8:12]
    assert plain(content(path))[12:15] == b"abc"


def test_flushed_records_can_be_read(path):
    writer = TFRecordWriter(path)
    writer.write(b"abc")
    writer.flush()

    assert list(tf_record_iterator(path)) == [b"abc"]
    writer.close()


def test_a_flush_mode_of_zlib_makes_compressed_records_readable(path):
    writer = TFRecordWriter(path, TFRecordOptions("ZLIB", flush_mode=zlib.Z_SYNC_FLUSH))
    writer.write(b"abc")
    writer.flush()

    assert zlib.decompressobj().decompress(content(path))[12:15] == b"abc"
    writer.close()


def test_zlib_gets_its_options(path):
    with TFRecordWriter(path, TFRecordOptions("ZLIB", compression_level=0, window_bits=9)) as writer:
        writer.write(b"abc" * 10)

    assert b"abc" * 10 in content(path)
    assert content(path)[0] >> 4 == 1  # log2(window) - 8


def test_a_closed_writer_takes_no_more(path):
    writer = TFRecordWriter(path)
    writer.close()
    writer.close()

    with pytest.raises(errors.FailedPreconditionError, match="Writer is closed"):
        writer.write(b"")
    with pytest.raises(errors.FailedPreconditionError, match="Writer is closed"):
        writer.flush()


def test_bad_arguments_are_errors(path, tmp_path):
    with pytest.raises(ValueError, match="Not a valid compression_type"):
        TFRecordOptions("LZ4")
    with pytest.raises(errors.NotFoundError, match="no"):
        TFRecordWriter(str(tmp_path / "no" / "such"))
    with pytest.raises(errors.NotFoundError, match="records"):
        tf_record_iterator(path)


def test_a_damaged_file_is_an_error(path):
    with open(path, "wb") as file:
        file.write(b"this is no file of records")

    with pytest.raises(errors.DataLossError, match="corrupted record at 0"):
        list(python_io.tf_record_iterator(path))
