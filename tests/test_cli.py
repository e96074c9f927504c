"""The command line finds its subcommands in a table and loads only the chosen one."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from aioexec import cli
from aioexec.errors import NotFoundError


def command(name, run):
    """The module of a subcommand made up for a test, with an argument `name`."""
    module = ModuleType(f"aioexec_test_{name}")
    module.__dict__["add_arguments"] = lambda parser: parser.add_argument("name")
    module.__dict__["run"] = run
    return module


@pytest.fixture
def subcommand(monkeypatch):
    def install(name, run):
        module = command(name, run)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(cli.COMMANDS, name, cli.Command(module.__name__, f"{name} someone"))

    return install


def test_a_subcommand_gets_its_arguments_and_returns_its_status(subcommand, capsys):
    subcommand("greet", lambda arguments: print(f"hello {arguments.name}") or 3)

    status = cli.main(["greet", "world"])

    assert (status, capsys.readouterr().out) == (3, "hello world\n")


def test_help_lists_the_subcommands_without_loading_them(capsys, monkeypatch):
    monkeypatch.setitem(cli.COMMANDS, "absent", cli.Command("aioexec_test_absent", "cannot be loaded"))

    with pytest.raises(SystemExit) as left:
        cli.main(["--help"])

    assert left.value.code == 0
    assert "cannot be loaded" in capsys.readouterr().out


def test_an_unknown_subcommand_is_refused(capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["dance"])

    assert left.value.code == 2
    assert "invalid choice: 'dance'" in capsys.readouterr().err


def test_without_a_subcommand_the_help_is_shown(capsys):
    status = cli.main([])

    assert status == 2
    assert "usage: aioexec" in capsys.readouterr().out


# Failures


def failing(error):
    def run(arguments):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (NotFoundError("no graph\nin x.pb"), "NotFoundError: no graph; in x.pb"),
        (FileNotFoundError(2, "No such file or directory", "x.pb"), "x.pb: No such file or directory"),
        (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero (--debug shows where)"),
    ],
)
def test_a_failure_is_one_line_and_status_1(subcommand, capsys, error, line):
    subcommand("fail", failing(error))

    status = cli.main(["fail", "now"])

    assert (status, *capsys.readouterr()) == (1, "", f"aioexec fail: {line}\n")


@pytest.mark.parametrize("arguments", [["--debug", "fail", "now"], ["fail", "now", "--debug"]])
def test_with_debug_the_exception_itself_is_seen(subcommand, arguments):
    subcommand("fail", failing(NotFoundError("gone")))

    with pytest.raises(NotFoundError, match="gone"):
        cli.main(arguments)


def test_an_interrupt_is_status_130(subcommand):
    subcommand("wait", failing(KeyboardInterrupt()))

    assert cli.main(["wait", "long"]) == 130


def command_line(*words: str, **options) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-m", "aioexec.cli", *words], stderr=subprocess.PIPE, env=environment, **options
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [["completion", "bash"], ["inspect", "small.pb"]])
def test_a_reader_that_ends_early_is_no_error_worth_a_message(tmp_path, words):
    (tmp_path / "small.pb").write_text('node { name: "a" op: "NoOp" }')
    reading, writing = os.pipe()
    os.close(reading)
    with command_line(*words, stdout=writing, cwd=tmp_path) as process:
        os.close(writing)
        _, shown = process.communicate()

    assert (process.returncode, shown) == (1, b"")


@pytest.mark.slow
def test_a_process_ends_with_the_status_and_one_line(tmp_path):
    with command_line("inspect", str(tmp_path / "gone.pb"), stdout=subprocess.PIPE) as process:
        output, shown = process.communicate()

    assert (process.returncode, output, shown.count(b"\n")) == (1, b"", 1)
    assert b"gone.pb" in shown
    assert b"Traceback" not in shown


# Help and completion


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each subcommand, also of those below another one, by what is typed to reach it."""

    def below(parser, path):
        inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
        if not inner:
            return {path: parser}
        return {
            name: found
            for choices in inner
            for word, each in choices.choices.items()
            for name, found in below(each, f"{path} {word}").items()
        }

    return below(cli.full_parser(), "aioexec")


@pytest.mark.slow
def test_every_command_explains_its_arguments_and_has_examples_that_parse():
    whole = cli.full_parser()

    for name, parser in parsers().items():
        assert parser.description, name
        assert [action.dest for action in parser._actions if not action.help] == [], name
        lines = re.findall(r"^ *((?:\w+=\S+ )?aioexec .*)", parser.epilog or "", flags=re.MULTILINE)
        assert lines, name
        for line in lines:
            words = shlex.split(line.split(" | ")[0].split(" > ")[0].split(" && ")[0])
            whole.parse_args(words[words.index("aioexec") + 1 :])


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_has_all_commands_and_is_valid(shell, capsys, tmp_path):
    assert cli.main(["completion", shell]) == 0

    script = capsys.readouterr().out
    assert [name for name in cli.COMMANDS if name not in script] == []
    if shutil.which(shell):
        (tmp_path / "script").write_text(script, encoding="utf-8")
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "expected"), [("aioexec exp", "explain"), ("aioexec explain --fe", "--feed --fetch")]
)
def test_bash_completes_commands_and_options(typed, expected, tmp_path, capsys):
    cli.main(["completion", "bash"])
    words = typed.split()
    (tmp_path / "script").write_text(capsys.readouterr().out, encoding="utf-8")
    program = f"""
    source {shlex.quote(str(tmp_path / "script"))}
    COMP_WORDS=({typed}) COMP_CWORD={len(words) - 1}
    _shtab_aioexec aioexec {words[-1]} {words[-2]}
    echo "${{COMPREPLY[@]}}"
    """

    shown = subprocess.run(["bash", "-c", program], check=True, capture_output=True, text=True).stdout

    assert sorted(shown.split()) == sorted(expected.split())
