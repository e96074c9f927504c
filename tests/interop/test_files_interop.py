"""Files, records and Examples beside TensorFlow's: the same calls in two folders have the same results and errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import aioexec

pytestmark = pytest.mark.interop


def write_and_append(gfile: Any) -> Iterator[Any]:
    with gfile.GFile("a", "w") as file:
        file.write("héllo\nworld\n")
        yield file.tell(), file.size()
        file.flush()
        yield file.size()
    with gfile.Open("a", "a") as file:
        file.write(b"x\r\ny")
        yield file.tell()
    with gfile.FastGFile("a", "w+") as file:
        file.write("abc")
        file.flush()
        yield file.read()
    with gfile.FastGFile("a", "r+") as file:
        file.write("Z")
    yield gfile.GFile("a", "rb").read()


def read(gfile: Any) -> Iterator[Any]:
    with gfile.GFile("text") as file:
        yield file.read(3), file.tell(), file.readline(), file.readlines(), file.read()
        file.seek(1)
        yield file.read(0), file.read(2)
        file.seek(-2, 2)
        yield file.read(), file.seekable(), file.mode
    yield list(gfile.GFile("text"))


def folders(gfile: Any) -> Iterator[Any]:
    gfile.MkDir("d")
    gfile.MkDir("d")
    gfile.MakeDirs("q/w/e")
    gfile.MakeDirs("q/w/e")
    gfile.MakeDirs("")
    gfile.Copy("text", "q/.hidden")
    gfile.Copy("text", "q/w/1.txt")
    yield [(top, inner, sorted(files)) for top, inner, files in gfile.Walk("q")]
    yield [top for top, _, _ in gfile.Walk("q", in_order=False)]
    yield list(gfile.Walk("missing"))
    yield gfile.IsDirectory("q"), gfile.IsDirectory("text"), gfile.IsDirectory("missing")
    yield sorted(gfile.ListDirectory("q")), sorted(gfile.ListDirectory(b"q/w"))
    yield [
        gfile.Glob(pattern)
        for pattern in ("q/*", "q/w/?.txt", "q/w/[0-9].txt", "q/w/[^1].txt", "missing/*", "q/.*")
    ]
    yield gfile.Glob(["q/w/*.txt", "q/w/*"])
    found = gfile.Stat("q/w/1.txt")
    yield found.length, found.is_directory, gfile.Stat("q").is_directory
    gfile.DeleteRecursively("q")
    yield gfile.Exists("q"), gfile.Exists("text"), gfile.Exists("")
    gfile.Rename("text", "moved")
    gfile.Rename("d", "e")
    yield sorted(gfile.ListDirectory("."))


ERRORS: dict[str, Callable[[Any], Any]] = {
    "read a missing file": lambda gfile: gfile.GFile("missing").read(),
    "read a folder": lambda gfile: gfile.GFile(".").read(),
    "write into a missing folder": lambda gfile: gfile.GFile("no/such", "w").write(""),
    "mode": lambda gfile: gfile.GFile("a", "x"),
    "write a file opened for reading": lambda gfile: gfile.GFile("text").write(""),
    "read a file opened for writing": lambda gfile: gfile.GFile("a", "w").read(),
    "seek nowhere": lambda gfile: gfile.GFile("text").seek(),
    "seek from nowhere": lambda gfile: gfile.GFile("text").seek(1, 7),
    "seek before the start": lambda gfile: gfile.GFile("text").seek(-1),
    "seek after the end": lambda gfile: gfile.GFile("text").seek(1000),
    "make a folder in a missing one": lambda gfile: gfile.MkDir("no/such"),
    "make a folder where a file is": lambda gfile: gfile.MakeDirs("text"),
    "make a folder in a file": lambda gfile: gfile.MakeDirs("text/a"),
    "copy a missing file": lambda gfile: gfile.Copy("missing", "a"),
    "copy a folder": lambda gfile: gfile.Copy("folder", "a"),
    "copy onto a file": lambda gfile: gfile.Copy("text", "text"),
    "rename a missing file": lambda gfile: gfile.Rename("missing", "a"),
    "rename onto a file": lambda gfile: gfile.Rename("folder", "text"),
    "rename a file onto a folder": lambda gfile: gfile.Rename("text", "folder", True),
    "remove a missing file": lambda gfile: gfile.Remove("missing"),
    "remove a folder": lambda gfile: gfile.Remove("folder"),
    "remove a missing folder": lambda gfile: gfile.DeleteRecursively("missing"),
    "list a missing folder": lambda gfile: gfile.ListDirectory("missing"),
    "list a file": lambda gfile: gfile.ListDirectory("text"),
    "status of a missing file": lambda gfile: gfile.Stat("missing"),
    "unknown scheme": lambda gfile: gfile.Exists("unknown://a"),
}


def in_new_folder(path: Any, monkeypatch: Any, module: Any, calls: Callable[[Any], Any]) -> Any:
    os.makedirs(path / "folder")
    (path / "text").write_bytes("héllo\nworld\r\ny".encode())
    monkeypatch.chdir(path)
    return calls(module)


@pytest.mark.parametrize("calls", [write_and_append, read, folders])
def test_calls_have_the_same_results(tf, tmp_path, monkeypatch, calls):
    theirs = in_new_folder(tmp_path / "theirs", monkeypatch, tf.gfile, lambda gfile: list(calls(gfile)))
    ours = in_new_folder(tmp_path / "ours", monkeypatch, aioexec.gfile, lambda gfile: list(calls(gfile)))

    assert ours == theirs


@pytest.mark.parametrize("name", ERRORS)
def test_calls_have_the_same_errors(tf, tmp_path, monkeypatch, name):
    def error(gfile: Any) -> tuple[Any, str]:
        with pytest.raises(Exception, match=r"\w") as raised:
            ERRORS[name](gfile)
        code = getattr(raised.value, "error_code", None)
        return code, str(raised.value).partition(";")[2] or str(raised.value)

    (code, text) = in_new_folder(tmp_path / "theirs", monkeypatch, tf.gfile, error)
    (our_code, our_text) = in_new_folder(tmp_path / "ours", monkeypatch, aioexec.gfile, error)

    assert (our_code if code else None) == code
    assert text in our_text or name == "copy a folder"


OPTIONS = {
    "none": lambda io: None,
    "number": lambda io: io.TFRecordCompressionType.GZIP,
    "zlib": lambda io: io.TFRecordOptions(io.TFRecordCompressionType.ZLIB),
    "stored": lambda io: io.TFRecordOptions("ZLIB", compression_level=0),
    "gzip": lambda io: "GZIP",
}
RECORDS = [b"", b"abc" * 10, b"\0" * 100_000]


@pytest.mark.parametrize("options", OPTIONS)
def test_records_are_read_and_written_as_by_tensorflow(tf, tmp_path, options):
    writers = {"theirs": tf.python_io, "ours": aioexec.python_io}
    for name, io in writers.items():
        with io.TFRecordWriter(str(tmp_path / name), OPTIONS[options](io)) as writer:
            for record in RECORDS:
                writer.write(record)

    for name in writers:
        for io in writers.values():
            assert list(io.tf_record_iterator(str(tmp_path / name), OPTIONS[options](io))) == RECORDS
    if options == "none":
        assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_an_example_has_the_same_bytes(tf):
    def example(train: Any) -> Any:
        return train.SequenceExample(
            context=train.Features(
                feature={
                    "a": train.Feature(int64_list=train.Int64List(value=[1, -2])),
                    "b": train.Feature(float_list=train.FloatList(value=[0.5])),
                    "c": train.Feature(bytes_list=train.BytesList(value=[b"x", b""])),
                }
            ),
            feature_lists=train.FeatureLists(
                feature_list={
                    "d": train.FeatureList(
                        feature=[train.Feature(), train.Feature(int64_list=train.Int64List())]
                    )
                }
            ),
        )

    ours, theirs = example(aioexec.train), example(tf.train)

    assert ours.SerializeToString(deterministic=True) == theirs.SerializeToString(deterministic=True)
    assert aioexec.train.SequenceExample.FromString(theirs.SerializeToString()) == ours
