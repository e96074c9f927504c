"""Files beside a program, under the names of `tf.resource_loader`; relative paths are those of the calling file's folder."""

from __future__ import annotations

import os
import sys


def _folder(depth: int) -> str:
    """Return the folder of the file that called the public function."""
    return os.path.dirname(sys._getframe(depth + 1).f_code.co_filename)


def load_resource(path: str) -> bytes:
    """Return the content of a file beside the calling one. Blocks while reading.

    Raises:
        OSError: the file cannot be read.
    """
    with open(os.path.join(_folder(1), path), "rb") as file:
        return file.read()


def get_data_files_path() -> str:
    """Return the folder of the calling file."""
    return _folder(1)


def get_root_dir_with_all_resources() -> str:
    """Return the folder of the calling file: there are no run files of Bazel here."""
    return _folder(1)


def get_path_to_datafile(path: str) -> str:
    """Return the path of a file beside the calling one."""
    return os.path.join(_folder(1), path)


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    """Return the path: files are not read ahead."""
    return path
