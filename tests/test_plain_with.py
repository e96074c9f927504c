"""A `with` statement around what `async with` enters: the error names the line, and what to write there."""

import re

import pytest

import aioexec as ax


def plain_with(manager):
    with manager as entered:
        return entered


def two_managers(manager):
    with ax.Graph().as_default(), manager as entered:
        return entered


@pytest.mark.parametrize(
    "make",
    [
        lambda path: ax.Session(),
        lambda path: ax.train.MonitoredTrainingSession(),
        lambda path: ax.train.SingularMonitoredSession(),
        lambda path: ax.summary.FileWriter(path),
    ],
)
def test_the_error_says_which_line_becomes_what(make, tmp_path):
    manager = make(tmp_path)

    with pytest.raises(TypeError, match="async with") as caught:
        plain_with(manager)

    expected = (
        r"it is entered by `async with`. At \S*test_plain_with\.py:11 write `async with manager as entered:` for "
        r"`with manager as entered:`, in an `async def` function .*`aioexec port test_plain_with\.py` rewrites"
    )
    assert re.search(expected, str(caught.value))
    assert isinstance(caught.value, ax.errors.InvalidArgumentError)


def test_one_of_several_managers_needs_a_statement_of_its_own():
    with pytest.raises(
        TypeError, match=r"py:16 give it an `async with` statement of its own, inside or around"
    ):
        two_managers(ax.Session())


def test_code_without_a_file_gets_the_error_too():
    with pytest.raises(TypeError, match=r"write `async with` for `with`.*`aioexec port` rewrites"):
        exec("with manager: pass", {"manager": ax.Session()})
