"""`ax.app` and `ax.flags`, each program in a process of its own: flags belong to the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FLAGS = """
import sys
import aioexec as ax

ax.flags.DEFINE_string("name", "a", "A name.")
ax.app.flags.DEFINE_integer("count", default_value=2, docstring="A count.")
ax.flags.DEFINE_boolean(flag_name="fast", default=False, help="Whether it is fast.")
ax.flags.DEFINE_list("parts", ["x"], "Parts.")
ax.flags.DEFINE_enum("kind", "big", ["big", "small"], "A kind.")
FLAGS = ax.flags.FLAGS
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_a_plain_main_gets_the_rest_of_the_command_line():
    program = (
        FLAGS
        + "ax.app.run(lambda argv: print(FLAGS.name, FLAGS.count, FLAGS.fast, FLAGS.parts, argv[1:]) or 3)"
    )

    result = run(program, "--name=b", "--count", "5", "--fast", "--parts=1,2", "--other=1", "rest")

    assert (result.stdout, result.stderr) == ("b 5 True ['1', '2'] ['--other=1', 'rest']\n", "")
    assert result.returncode == 3


@pytest.mark.slow
def test_a_coroutine_function_runs_in_a_loop():
    program = (
        FLAGS
        + """
async def main(argv):
    async with ax.Session() as session:
        print(await session.run(ax.constant(FLAGS.count)))

ax.app.run(argv=["program", "--count=7"])
"""
    )

    result = run(program)

    assert (result.stdout, result.stderr, result.returncode) == ("7\n", "", 0)


@pytest.mark.slow
def test_reading_a_flag_parses_the_command_line():
    result = run(FLAGS + "print(FLAGS.is_parsed(), FLAGS.count, FLAGS.is_parsed())", "--count=4")

    assert (result.stdout, result.stderr) == ("False 4 True\n", "")


@pytest.mark.slow
def test_flags_can_be_set_listed_and_removed():
    program = (
        FLAGS
        + """
FLAGS(["program"])
FLAGS.count = 9
print(FLAGS.count, FLAGS["count"].value, "count" in FLAGS, "other" in FLAGS, "count" in dir(FLAGS), "count" in list(FLAGS))
print(len(FLAGS) == len(list(FLAGS)), "A count." in str(FLAGS), FLAGS.flag_values_dict()["kind"])
del FLAGS.count
print("count" in FLAGS)
"""
    )

    result = run(program)

    assert (result.stdout, result.stderr) == ("9 9 True False True True\nTrue True big\nFalse\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(("argument", "status"), [("--count=x", 1), ("--kind=none", 1), ("--help", 1)])
def test_a_wrong_flag_and_help_end_the_program(argument, status):
    result = run(FLAGS + "ax.app.run(lambda argv: print('never'))", argument)

    assert (result.returncode, "never" in result.stdout) == (status, False)
    assert ("A count." if argument == "--help" else argument[2:7]) in result.stdout + result.stderr


@pytest.mark.slow
def test_the_flags_of_a_program_are_its_key_flags():
    result = run(FLAGS + "print(sorted(flag.name for flag in FLAGS.get_key_flags_for_module(sys.argv[0])))")

    assert (result.stdout, result.stderr) == ("['count', 'fast', 'kind', 'name', 'parts']\n", "")


@pytest.mark.slow
def test_a_program_without_flags_needs_no_absl():
    program = """
import sys
sys.modules["absl"] = None
import aioexec as ax

def main(argv):
    try:
        ax.flags.DEFINE_string
    except ImportError as error:
        print(argv[1:], error)

ax.app.run(main)
"""

    result = run(program, "a")

    assert result.stdout == "['a'] aioexec.flags needs absl-py; install it with: pip install aioexec[flags]\n"
    assert (result.stderr, result.returncode) == ("", 0)


@pytest.mark.slow
def test_importing_the_modules_does_not_import_absl():
    program = "import sys; import aioexec as ax; ax.app.run; ax.flags; print('absl' in sys.modules)"

    assert run(program).stdout == "False\n"
