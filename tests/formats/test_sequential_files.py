"""Files opened by untrusted names: none blocks, and each is read to its end or refused."""

from __future__ import annotations

import os
import socket

import pytest

from aioexec.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from aioexec.formats.sequential_files import open_input, open_output, read_whole


def test_a_file_is_read_from_its_beginning(tmp_path):
    (tmp_path / "a").write_bytes(b"content")

    assert read_whole(str(tmp_path / "a")) == b"content"
    assert read_whole(os.fsencode(tmp_path / "a")) == b"content"


def test_the_null_device_is_an_empty_file():
    assert read_whole(os.devnull) == b""


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "a")

    with pytest.raises(InvalidArgumentError, match="Illegal seek"):
        open_input(str(tmp_path / "a"))


def test_a_pipe_that_has_a_writer_is_refused_too():
    reading, writing = os.pipe()
    try:
        with pytest.raises(InvalidArgumentError, match="Illegal seek"):
            open_input(f"/proc/self/fd/{reading}")
    finally:
        os.close(reading)
        os.close(writing)


def test_a_socket_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "a"))

        with pytest.raises(NotFoundError, match="No such device"):
            open_input(str(tmp_path / "a"))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_without_an_end_is_refused(device):
    with pytest.raises(FailedPreconditionError, match="that has an end"):
        open_input(device)


def test_a_folder_is_told_as_such(tmp_path):
    with pytest.raises(FailedPreconditionError, match="Is a directory"):
        open_input(str(tmp_path))


def test_a_name_that_no_file_has_is_told(tmp_path):
    with pytest.raises(NotFoundError):
        open_input(str(tmp_path / "a"))
    with pytest.raises(InvalidArgumentError):
        open_input("a\0b")


def test_what_is_refused_is_closed(tmp_path):
    before = os.listdir("/proc/self/fd")

    for path in (str(tmp_path), "/dev/zero"):
        with pytest.raises(FailedPreconditionError):
            open_input(path)

    assert os.listdir("/proc/self/fd") == before


def test_a_file_is_written_anew_or_appended_to(tmp_path):
    path = str(tmp_path / "a")

    for content, appends in ((b"first", False), (b"second", False), (b", third", True)):
        with open_output(path, appends=appends) as file:
            file.write(content)

    assert read_whole(path) == b"second, third"


def test_a_pipe_without_a_reader_is_refused_without_waiting_for_one(tmp_path):
    os.mkfifo(tmp_path / "a")

    with pytest.raises(NotFoundError, match="No such device"):
        open_output(str(tmp_path / "a"))


def test_a_pipe_that_is_read_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "a")
    reading = os.open(tmp_path / "a", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open_output(str(tmp_path / "a")) as file:
            file.write(b"content")

        assert os.read(reading, 100) == b"content"
    finally:
        os.close(reading)
