"""What commands print: JSON that every parser reads, tables, sizes."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from aioexec.command_line import output


@dataclass
class Point:
    x: float
    name: bytes


def test_json_has_what_numpy_and_dataclasses_have(capsys):
    output.print_json(
        {
            "point": Point(1.5, b"\xffa"),
            "array": np.array([[1, 2]], np.int8),
            "scalar": np.float32(0.5),
            "odd": [float("nan"), float("inf"), float("-inf")],
            "complex": np.array(1 + 2j),
            "tuple": (True, None, "é"),
        }
    )

    assert json.loads(capsys.readouterr().out) == {
        "point": {"x": 1.5, "name": "\\xffa"},
        "array": [[1, 2]],
        "scalar": 0.5,
        "odd": ["NaN", "Infinity", "-Infinity"],
        "complex": [1.0, 2.0],
        "tuple": [True, None, "é"],
    }


def test_a_table_has_headings_and_rows_and_no_markup(capsys):
    output.print_table(["name", "size"], [["[red]x", "3"], ["yy", "14"]], right=["size"], title="all")

    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["all"],
        ["name", "size"],
        ["[red]x", "3"],
        ["yy", "14"],
    ]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")]
)
def test_sizes_have_units(size, text):
    assert output.byte_size(size) == text


@pytest.mark.parametrize(("shape", "text"), [(None, "unknown"), ((), "[]"), ((None, 3), "[?, 3]")])
def test_shapes_are_written_with_question_marks(shape, text):
    assert output.shape_text(shape) == text
