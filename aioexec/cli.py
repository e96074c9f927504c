"""The command `aioexec`: a table of subcommands, each imported when it is used.

The module of a subcommand defines `add_arguments(parser)` and `run(arguments) -> int` (the exit status).
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from typing import Protocol, cast

from aioexec.data_classes import dataclass


class CommandModule(Protocol):
    """The interface of a subcommand's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the subcommand's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the subcommand, and return the exit status."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand."""

    module: str
    summary: str


COMMANDS = {
    "demo": Command(
        "aioexec.demo.command", "train on real data while the same event loop serves predictions"
    ),
    "explain": Command(
        "aioexec.inspection.explain_command", "show how a step of a graph in a file is executed"
    ),
    "port": Command(
        "aioexec.porting.command", "rewrite programs of TensorFlow 1.x: imports, `async` and `await`"
    ),
    "server": Command(
        "aioexec.distributed.server.command", "serve one task of a cluster to sessions elsewhere"
    ),
    "trace": Command(
        "aioexec.inspection.trace_command",
        "run a graph in a file and write what its rows do when, for Perfetto",
    ),
    "warm": Command(
        "aioexec.inspection.warm_command",
        "compile the kernels of a graph in a file, or the usual ones, before they are needed",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser, subparsers = _parser()
    chosen = next((word for word in arguments if not word.startswith("-")), None)
    if chosen not in COMMANDS:
        parser.parse_args(arguments)  # prints help, version or errors, and exits
        parser.print_help()
        return 2
    module = cast(CommandModule, import_module(COMMANDS[chosen].module))
    module.add_arguments(subparsers[chosen])
    return module.run(parser.parse_args(arguments))


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(
        prog="aioexec", description="TensorFlow 1.x's session runtime for asyncio"
    )
    parser.add_argument("--version", action="version", version=f"aioexec {_version()}")
    choices = parser.add_subparsers(title="commands", metavar="COMMAND")
    return parser, {
        name: choices.add_parser(name, help=command.summary, description=command.summary)
        for name, command in COMMANDS.items()
    }


def _version() -> str:
    try:
        return metadata.version("aioexec")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
