"""Runs the programs of `sources/`: with aioexec after `aioexec port`, or with TensorFlow as they are.

A program is a file, or a folder with a `main.py`. Its function `main(steps)` trains and returns numbers: losses, and what it
measures at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import io
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.porting.port import port
from aioexec.train.hooks.file_writer_cache import FileWriterCache

SOURCES = Path(__file__).parent / "sources"
REFERENCES = Path(__file__).parent / "references"


@dataclass(frozen=True)
class Program:
    """A program, and the number of steps for which its test runs it.

    `tolerance`: relative, and absolute, of the numbers it returns.
    """

    name: str
    steps: int
    tolerance: float = 1e-4

    @property
    def texts(self) -> dict[str, str]:
        """Its files by their paths."""
        place = SOURCES / self.name
        paths = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        folder = place if place.is_dir() else SOURCES
        return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}

    @property
    def reference(self) -> dict[str, str]:
        """What TensorFlow runs: the program, or an equivalent one if the installed TensorFlow lacks its names."""
        equivalent = REFERENCES / f"{self.name}.py"
        return (
            {equivalent.name: equivalent.read_text(encoding="utf-8")} if equivalent.exists() else self.texts
        )

    @property
    def module(self) -> str:
        return "main" if (SOURCES / self.name).is_dir() else self.name


def run_ported(program: Program, folder: Path) -> list[float]:
    """What a program returns after the port, which must leave nothing to do by hand; the ported files are in `folder`."""
    results = port(program.texts)
    assert [str(finding) for result in results.values() for finding in result.findings] == []
    write(folder, {path: result.text for path, result in results.items()})
    with ax.Graph().as_default(), imported(folder, program.module) as module:
        returned = module.main(program.steps)
        values = numbers(asyncio.run(returned) if inspect.iscoroutine(returned) else returned)
    asyncio.run(FileWriterCache.clear())  # as at the end of a process
    return values


def run_tensorflow(tf: Any, program: Program, folder: Path) -> list[float]:
    """What a program, or its reference, returns with TensorFlow's interface of 1.x in place of the module `tensorflow`."""
    write(folder, program.reference)
    known = sys.modules["tensorflow"]
    sys.modules["tensorflow"] = tf
    tf.disable_v2_tensorshape()  # dimensions have a `value`
    try:
        with tf.Graph().as_default(), imported(folder, program.module) as module:
            return numbers(module.main(program.steps))
    finally:
        sys.modules["tensorflow"] = known
        tf.enable_v2_tensorshape()


def write(folder: Path, texts: dict[str, str]) -> None:
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


@contextlib.contextmanager
def imported(folder: Path, name: str) -> Iterator[Any]:
    """A module that is imported from a folder, and removed again with all others from there; its output is dropped."""
    before, arguments, directory = set(sys.modules), sys.argv, tempfile.tempdir
    sys.path.insert(0, str(folder))
    tempfile.tempdir = str(folder)
    sys.argv = [name]  # flags are parsed at their first use
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        sys.argv, tempfile.tempdir = arguments, directory
        for each in set(sys.modules) - before:
            if str(getattr(sys.modules[each], "__file__", "")).startswith(str(folder)):
                del sys.modules[each]


def numbers(values: Any) -> list[float]:
    return [float(np.asarray(value)) for value in values]
