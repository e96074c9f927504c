"""Matrices of checkpoints reordered by another vocabulary. Files are in a folder of this process."""

from __future__ import annotations

import itertools
import os
import tempfile
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, node

_folder = tempfile.TemporaryDirectory(prefix="aioexec-parity-")
_numbers = itertools.count()
GRID = sample("float32", (4, 3))


def vocabulary(*words: str, end: str = "\n") -> bytes:
    path = f"{_folder.name}/{next(_numbers)}.txt"
    with open(path, "w", newline="") as file:
        file.write("\n".join(words) + end)
    return path.encode()


OLD = vocabulary("a", "b", "c", "d")
NEW = vocabulary("c", "x", "a", "d", "y")
REPEATED = vocabulary("a", "b", "a")
EMPTY = vocabulary(end="")
UNENDED = vocabulary("d", "a", end="")
WITH_RETURNS = vocabulary("a\r", "b\r")
BLANK = vocabulary("a", "", "b")
MISSING = os.path.join(_folder.name, "nothing").encode()


def remapping(new: Any, old: Any, offset: int, count: int, old_size: int = -1, **options: Any) -> Case:
    attrs = {"new_vocab_offset": offset, "num_new_vocab": count, "old_vocab_size": old_size}
    return case("GenerateVocabRemapping", new, old, attrs=attrs, **options)


def loaded(
    matrix: Any,
    rows: list[int],
    columns: list[int],
    fill: list[float],
    shape: tuple[int, int],
    block: int = -1,
    name: bytes = b"m",
    place: bytes = b"",
    **options: Any,
) -> Case:
    """A matrix saved in one step, loaded in the next."""
    where = f"{_folder.name}/{next(_numbers)}".encode()
    saving = node("SaveV2", where, [b"m"], [place], [matrix])
    attrs = {"num_rows": shape[0], "num_cols": shape[1], "max_rows_in_memory": block}
    given = np.array(rows, np.int64), np.array(columns, np.int64), np.array(fill, np.float32)
    return case(
        "LoadAndRemapMatrix",
        where,
        name,
        *given,
        attrs=attrs,
        steps=lambda loading: [[saving], [loading]],
        **options,
    )


CASES: list[Case] = [
    remapping(NEW, OLD, 0, 5),
    remapping(NEW, OLD, 1, 3),
    remapping(NEW, OLD, 0, 5, 2),
    remapping(NEW, OLD, 0, 5, 4),
    remapping(REPEATED, OLD, 0, 3),
    remapping(NEW, OLD, 0, 0),
    remapping(UNENDED, OLD, 0, 2),
    remapping(NEW, UNENDED, 0, 4),
    remapping(WITH_RETURNS, OLD, 0, 2),
    remapping(NEW, OLD, 1, 6, bad=True),
    remapping(NEW, OLD, 9, 2, bad=True),
    remapping(NEW, OLD, 0, 5, 9, bad=True),
    remapping(NEW, REPEATED, 0, 3, bad=True),
    remapping(BLANK, OLD, 0, 3, bad=True),
    remapping(NEW, BLANK, 0, 3, bad=True),
    remapping(EMPTY, OLD, 0, 2, bad=True),
    remapping(NEW, EMPTY, 0, 2, bad=True),
    remapping(MISSING, OLD, 0, 2, bad=True),
    remapping(NEW, MISSING, 0, 2, bad=True),
    remapping(NEW, OLD, 0, 5, 0, bad=True),
    remapping([NEW], [OLD], 0, 2, bad=True),
    loaded(GRID, [2, -1, 0], [1, -1], [91, 92, 93, 94], (3, 2)),
    loaded(GRID, [2, -1, 0], [], [91, 92, 93], (3, 3)),
    loaded(GRID, [-1, -1], [1, 0], [1, 2, 3, 4], (2, 2)),
    loaded(GRID, [3, 1, 0], [1, 0], [], (3, 2), block=2),
    loaded(GRID, [3, 1, 0], [1, 0], [], (3, 2), block=1),
    loaded(GRID, [2, -1], [-1, -1, -1], [1, 2, 3, 4, 5, 6], (2, 3)),
    loaded(GRID, [], [], [], (0, 3)),
    loaded(GRID, [-5], [], [1, 2, 3], (1, 3)),
    loaded(sample("float32", (0, 3)), [-1], [], [1, 2, 3], (1, 3)),
    loaded(GRID, [2, -1, 0], [], [91, 92, 93], (3, 2), bad=True),
    loaded(GRID, [2, -1, 0], [1, -1], [91, 92, 93], (3, 2), bad=True),
    loaded(GRID, [2, -1, 0], [1, -1], [91, 92, 93, 94, 95], (3, 2), bad=True),
    loaded(GRID, [2, 2, 0], [1, -1], [91, 92, 93, 94], (3, 2), bad=True),
    loaded(GRID, [2, 1, 0], [1, 1], [], (3, 2), bad=True),
    loaded(GRID, [2, 1], [1, 0], [], (3, 2), bad=True),
    loaded(GRID, [2, 1], [1, 0], [], (2, 3), bad=True),
    loaded(GRID, [1], [], [], (1, 3), name=b"other", bad=True),
    loaded(sample("int32", (4, 3)), [2, 1], [1, 0], [], (2, 2), bad=True),
    loaded(sample("float32", (3,)), [2, 1], [1, 0], [], (2, 2), bad=True),
]
