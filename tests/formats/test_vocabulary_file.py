"""Tables in text files: columns, whole lines and their numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aioexec import dtypes as dt
from aioexec.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
)
from aioexec.formats.vocabulary_file import LINE_NUMBER, WHOLE_LINE, Layout, read


def entries(path: Path, content: bytes, *types: Any, **layout: Any) -> list[tuple[Any, Any]]:
    file = path / "vocabulary.txt"
    file.write_bytes(content)
    given = {"key_index": WHOLE_LINE, "value_index": LINE_NUMBER, **layout}
    return list(zip(*read(str(file), Layout(**given), *(types or (dt.string, dt.int64))), strict=True))


def test_lines_are_numbered(tmp_path: Path):
    assert entries(tmp_path, b"a\r\nb") == [(b"a", 0), (b"b", 1)]
    assert entries(tmp_path, b"a\nb\nc\n", vocab_size=2, offset=5) == [(b"a", 5), (b"b", 6)]


def test_columns_are_parsed(tmp_path: Path):
    content = b"x, 7 ,1.5\ny,-8,2e3\n"

    assert entries(tmp_path, content, dt.string, dt.int32, key_index=0, value_index=1, delimiter=",") == [
        (b"x", 7),
        (b"y", -8),
    ]
    assert entries(tmp_path, content, dt.int64, dt.float32, key_index=1, value_index=2, delimiter=",") == [
        (7, 1.5),
        (-8, 2000.0),
    ]


def test_line_numbers_may_be_keys(tmp_path: Path):
    layout = {"key_index": LINE_NUMBER, "value_index": WHOLE_LINE}

    assert entries(tmp_path, b"a\na\n", dt.int64, dt.string, **layout) == [(0, b"a"), (1, b"a")]


@pytest.mark.parametrize(
    ("content", "types", "layout", "kind", "message"),
    [
        (b"a\n\nb\n", (), {}, InvalidArgumentError, "empty line found at position 3"),
        (b"a\n", (), {"vocab_size": 2}, InvalidArgumentError, "Invalid vocab_size in .*: expected 2 but got 1"),
        (b"", (), {}, OutOfRangeError, "Finished reading 0 of lines"),
        (b"a\n", (dt.string, dt.int32), {}, InvalidArgumentError, "requires table value dtype of int64, got int32"),
        (b"x\n", (), {"key_index": 0, "value_index": 1}, InvalidArgumentError, r"line 0 \(x\) : expected at least 2 got 1"),
        (b"x\t1q\n", (), {"key_index": 0, "value_index": 1}, InvalidArgumentError, "Field 1q in line 0 is not a valid int64"),
        (b"x\t4294967296\n", (dt.string, dt.int32), {"key_index": 0, "value_index": 1}, InvalidArgumentError, "valid int32"),
        (b"x\tq\n", (dt.string, dt.float32), {"key_index": 0, "value_index": 1}, InvalidArgumentError, "not a valid float"),
        (b"x\tq\n", (dt.string, dt.bool_), {"key_index": 0, "value_index": 1}, InvalidArgumentError, "bool not supported"),
        (b"x\n", (), {"delimiter": "::"}, InvalidArgumentError, "only 1 char"),
    ],
)  # fmt: skip
def test_lines_that_are_no_entries_are_refused(
    tmp_path: Path, content: bytes, types: Any, layout: Any, kind: type[OpError], message: str
):
    with pytest.raises(kind, match=message):
        entries(tmp_path, content, *types, **layout)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    layout = Layout(WHOLE_LINE, LINE_NUMBER)

    with pytest.raises(NotFoundError, match="nowhere; No such file"):
        read(str(tmp_path / "nowhere"), layout, dt.string, dt.int64)
    with pytest.raises(FailedPreconditionError, match="Is a directory"):
        read(str(tmp_path), layout, dt.string, dt.int64)
