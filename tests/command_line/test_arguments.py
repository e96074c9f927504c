"""Types of arguments refuse what is no such number; progress is shown on a terminal only."""

import argparse

import pytest

from aioexec.command_line import arguments
from aioexec.command_line.progress import progress


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (arguments.positive_int, "3", 3),
        (arguments.seconds, "0", 0.0),
        (arguments.positive_seconds, "0.5", 0.5),
    ],
)
def test_a_number_is_read(kind, text, value):
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (arguments.positive_int, ["0", "-1", "x", "1.5"]),
        (arguments.seconds, ["-1", "nan", "inf", "x"]),
        (arguments.positive_seconds, ["0", "nan", "inf", "x"]),
    ],
)
def test_another_text_is_refused_with_what_was_expected(kind, texts):
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError, match=f"expected .*, got '{text}'"):
            kind(text)


def test_progress_is_not_shown_without_a_terminal(capsys):
    with progress("counting", 2) as advance:
        advance(1)

    assert tuple(capsys.readouterr()) == ("", "")
