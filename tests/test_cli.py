"""The command line finds its subcommands in a table and loads only the chosen one."""

import sys
from types import ModuleType

import pytest

from aioexec import cli


@pytest.fixture
def greet(monkeypatch):
    """A subcommand made up for the test."""
    module = ModuleType("aioexec_test_greet")
    module.__dict__["add_arguments"] = lambda parser: parser.add_argument("name")
    module.__dict__["run"] = lambda arguments: print(f"hello {arguments.name}") or 3
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(cli.COMMANDS, "greet", cli.Command(module.__name__, "greet someone"))


def test_a_subcommand_gets_its_arguments_and_returns_its_status(greet, capsys):
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
