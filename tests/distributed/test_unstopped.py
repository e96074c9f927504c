"""Servers that are never stopped, and sessions that are never closed, do no harm, as in TensorFlow's programs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.distributed.unstopped_programs import PROGRAMS


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_leaves_them_ends_well_and_says_nothing(program: str) -> None:
    command = [sys.executable, "-m", "tests.distributed.unstopped_programs", program, "5"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.network
@pytest.mark.slow
def test_a_warning_names_the_place_where_a_server_was_made() -> None:
    module = "tests.distributed.unstopped_programs"
    command = [sys.executable, "-W", "default::ResourceWarning", "-m", module, "one_loop_after_another", "1"]

    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0
    assert "unstopped_programs.py:" in ended.stderr
    assert "was never stopped" in ended.stderr
