"""`ax.gfile` and `ax.io.gfile`: file objects and operations on the file system."""

from __future__ import annotations

import os

import pytest

from aioexec import errors, gfile, io


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, content):
    with open(name, "wb") as file:
        file.write(content)


def test_text_is_read_by_bytes_and_decoded():
    write("a.txt", "héllo\nworld\r\nend".encode())

    with gfile.GFile("a.txt") as file:
        first, place = file.read(3), file.tell()
        lines = [file.readline(), *file]
        rest = file.read()

    assert (first, place) == ("hé", 3)
    assert lines == ["llo\n", "world\n", "end"]
    assert rest == ""


def test_a_binary_file_gives_bytes():
    write("a", b"x\r\ny")

    with gfile.Open("a", "rb") as file:
        assert (file.read(), file.size(), file.name, file.mode) == (b"x\r\ny", 4, "a", "rb")


def test_lines_are_what_next_returns():
    write("a", b"1\n2\n")
    file = gfile.FastGFile("a")

    assert (next(file), file.next()) == ("1\n", "2\n")
    with pytest.raises(StopIteration):
        next(file)
    file.close()


def test_what_is_written_is_on_the_disk_after_a_flush():
    with gfile.GFile("a", "w") as file:
        file.write("é")
        file.write(b"12")
        before, place = file.size(), file.tell()
        file.flush()
        after = file.size()

    assert (before, place, after) == (0, 4, 4)


def test_a_file_can_be_appended_to_and_read():
    write("a", b"abc")

    with gfile.GFile("a", "a+") as file:
        file.write("def")
        file.flush()
        assert file.read() == "abcdef"


def test_a_closed_file_is_opened_again_by_the_next_call():
    write("a", b"abc")
    file = gfile.GFile("a")
    file.read()
    file.close()

    assert file.read() == "abc"
    file.close()


@pytest.mark.parametrize(
    ("offset", "whence", "place"), [(1, 0, 1), (2, 1, 3), (-2, 2, 4), (6, 0, 6), (0, 2, 6)]
)
def test_the_position_of_reading_can_be_set(offset, whence, place):
    write("a", b"abcdef")

    with gfile.GFile("a") as file:
        file.read(1)
        file.seek(offset, whence)
        assert file.tell() == place
        assert file.seekable()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "offset argument required"),
        ({"offset": 1, "position": 1}, TypeError, "may not be set simultaneously"),
        ({"offset": 1, "whence": 7}, errors.InvalidArgumentError, "Invalid whence argument: 7"),
        ({"offset": -1}, errors.InvalidArgumentError, "negative position: -1"),
        ({"offset": 7}, errors.OutOfRangeError, "reached end of file"),
    ],
)
def test_a_bad_position_is_an_error(arguments, error, message):
    write("a", b"abcdef")

    with gfile.GFile("a") as file, pytest.raises(error, match=message):
        file.seek(**arguments)


def test_the_mode_says_what_is_allowed():
    write("a", b"")
    with pytest.raises(errors.InvalidArgumentError, match="mode is not"):
        gfile.GFile("a", "x")
    with pytest.raises(errors.PermissionDeniedError, match="isn't open for writing"):
        gfile.GFile("a").write("")
    with pytest.raises(errors.PermissionDeniedError, match="isn't open for reading"):
        gfile.GFile("a", "w").read()


def test_a_missing_file_is_an_error_when_it_is_read():
    file = gfile.GFile("missing")

    with pytest.raises(errors.NotFoundError, match="missing; No such file"):
        file.read()
    with pytest.raises(errors.NotFoundError, match="no/such"):
        gfile.GFile("no/such", "w").write("")
    with pytest.raises(errors.FailedPreconditionError, match="Is a directory"):
        gfile.GFile(".").read()


def test_folders_are_made_and_listed():
    gfile.MkDir("a")
    gfile.MkDir("a")
    gfile.MakeDirs("b/c")
    gfile.MakeDirs("b/c")
    write("b/1", b"")

    assert sorted(gfile.ListDirectory("b")) == ["1", "c"]
    assert (gfile.IsDirectory("b/c"), gfile.IsDirectory("b/1"), gfile.IsDirectory("d")) == (
        True,
        False,
        False,
    )
    assert list(gfile.Walk("b")) == [("b", ["c"], ["1"]), ("b/c", [], [])]
    assert list(gfile.Walk("b", in_order=False)) == [("b/c", [], []), ("b", ["c"], ["1"])]


def test_a_folder_that_cannot_be_made_or_listed_is_an_error():
    write("a", b"")

    with pytest.raises(errors.NotFoundError, match="b/c"):
        gfile.MkDir("b/c")
    with pytest.raises(errors.FailedPreconditionError, match="a is not a directory"):
        gfile.MakeDirs("a/b")
    with pytest.raises(errors.FailedPreconditionError, match="a is not a directory"):
        gfile.MakeDirs("a")
    with pytest.raises(errors.NotFoundError, match="Could not find directory c"):
        gfile.ListDirectory("c")


def test_a_folder_that_cannot_be_listed_is_left_out_of_a_walk():
    found: list[errors.OpError] = []

    assert list(io.gfile.walk("missing", onerror=found.append)) == []
    assert [type(error) for error in found] == [errors.NotFoundError]


def test_files_are_copied_and_renamed():
    write("a", b"1")
    write("b", b"2")

    gfile.Copy("a", "c")
    with pytest.raises(errors.AlreadyExistsError, match="file already exists"):
        gfile.Copy("a", "b")
    gfile.Copy("a", "b", overwrite=True)
    gfile.Copy("b", "b", overwrite=True)
    with pytest.raises(errors.AlreadyExistsError, match="file already exists"):
        gfile.Rename("a", "c")
    gfile.Rename("a", "d")
    gfile.Rename("d", "c", overwrite=True)

    assert sorted(os.listdir()) == ["b", "c"]
    assert gfile.Open("b").read() == gfile.Open("c").read() == "1"


def test_what_cannot_be_copied_or_renamed_is_an_error():
    gfile.MkDir("folder")

    with pytest.raises(errors.NotFoundError, match="missing"):
        gfile.Copy("missing", "a")
    with pytest.raises(errors.InvalidArgumentError, match="got a folder"):
        gfile.Copy("folder", "a")
    with pytest.raises(errors.NotFoundError, match="missing"):
        gfile.Rename("missing", "a")


def test_files_and_folders_are_deleted():
    gfile.MakeDirs("a/b")
    write("a/b/1", b"")
    write("c", b"")

    gfile.Remove("c")
    with pytest.raises(errors.FailedPreconditionError):
        gfile.Remove("a")
    with pytest.raises(errors.NotFoundError):
        gfile.Remove("c")
    gfile.DeleteRecursively("a")
    with pytest.raises(errors.NotFoundError, match="a not found"):
        gfile.DeleteRecursively("a")
    assert os.listdir() == []


def test_a_link_is_deleted_and_not_what_it_points_to():
    gfile.MkDir("a")
    write("a/1", b"")
    os.symlink("a", "b")

    gfile.DeleteRecursively("b")

    assert (gfile.Exists("b"), gfile.Exists("a/1")) == (False, True)


def test_patterns_match_paths():
    gfile.MakeDirs("q/w")
    for name in ("q/1.txt", "q/2.txt", "q/w/3.txt", "q/.h", "q/*"):
        write(name, b"")

    assert gfile.Glob("q/*.txt") == ["q/1.txt", "q/2.txt"]
    assert gfile.Glob("q/*") == ["q/*", "q/.h", "q/1.txt", "q/2.txt", "q/w"]
    assert gfile.Glob(["q/[^1].txt", "q/w/?.txt"]) == ["q/2.txt", "q/w/3.txt"]
    assert gfile.Glob("q/\\*") == ["q/*"]
    assert gfile.Glob("missing/*") == []


def test_a_status_has_length_time_and_kind():
    write("a", b"123")

    found = gfile.Stat("a")

    assert (found.length, found.mtime_nsec, found.is_directory) == (3, os.stat("a").st_mtime_ns, False)
    assert gfile.Stat(".").is_directory
    with pytest.raises(errors.NotFoundError, match="b; No such file"):
        gfile.Stat("b")


def test_a_path_may_have_a_scheme_or_be_an_object(folder):
    write("a", b"1")

    assert gfile.Exists(f"file://{folder}/a")
    assert gfile.Exists(folder / "a")
    assert gfile.Exists(b"a")
    assert gfile.Glob(f"file://{folder}/*") == [f"file://{folder}/a"]
    assert gfile.Open(f"file://localhost{folder}/a").read() == "1"
    with pytest.raises(errors.UnimplementedError, match="scheme 'gs' not implemented"):
        gfile.Exists("gs://bucket/a")
    assert not gfile.IsDirectory("gs://bucket")


def test_parts_of_a_path_are_joined():
    assert io.gfile.join("a", "b", "c") == "a/b/c"
    assert io.gfile.join("gs://a", "b") == "gs://a/b"
    assert io.gfile.get_registered_schemes() == ["", "file"]
