"""`aioexec completion`: writes the script that completes commands, options and file names in a shell.

The script is made by shtab from the parsers of all subcommands. It contains the words, so a completion starts no Python.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from aioexec import cli
from aioexec.command_line.arguments import add_examples

SHELLS = ("bash", "zsh", "fish")

_FILES = frozenset({"CHECKPOINT", "DIR", "FILE", "FILE|DIR", "GRAPH", "MODEL", "OUTPUT"})
"""The metavars of arguments that name a file or folder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    add_examples(
        parser,
        """
in this bash only
aioexec completion bash > completion.bash && source completion.bash
for every new bash
aioexec completion bash > ~/.local/share/bash-completion/completions/aioexec
for zsh, in a folder of $fpath
aioexec completion zsh > ~/.zfunc/_aioexec
for fish
aioexec completion fish > ~/.config/fish/completions/aioexec.fish
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the script, and return the exit status."""
    parser = cli.full_parser()
    for action in _actions(parser):
        if action.metavar in _FILES or action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # read by shtab
    print(shtab.complete(parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)
