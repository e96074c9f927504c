"""The command `aioexec`: a table of subcommands, each imported when it is used.

The module of a subcommand defines `add_arguments(parser)` and `run(arguments) -> int` (the exit status). What `run` raises
becomes one line and status 1 (see `command_line.failures`).
"""

import argparse
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from typing import Protocol, cast

from aioexec.command_line.failures import exit_status
from aioexec.data_classes import dataclass

_WIDTH = 100
"""The line width of descriptions, in characters."""


class CommandModule(Protocol):
    """The interface of a subcommand's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the subcommand's arguments, and examples (see `command_line.arguments`)."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the subcommand, and return the exit status."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand."""

    module: str
    summary: str


COMMANDS = {
    "bench": Command(
        "aioexec.inspection.bench_command", "measure latency and throughput of a step of a model in files"
    ),
    "checkpoint": Command(
        "aioexec.checkpoint_tools.command", "list, compare, average and convert checkpoints"
    ),
    "completion": Command("aioexec.completion", "write the script that completes this command in a shell"),
    "demo": Command(
        "aioexec.demo.command", "train on real data while the same event loop serves predictions"
    ),
    "explain": Command(
        "aioexec.inspection.explain_command", "show how a step of a graph in a file is executed"
    ),
    "inspect": Command(
        "aioexec.inspection.inspect_command", "show what a model or checkpoint in files consists of"
    ),
    "port": Command(
        "aioexec.porting.command", "rewrite programs of TensorFlow 1.x: imports, `async` and `await`"
    ),
    "run": Command(
        "aioexec.inspection.run_command", "run a step of a model in files, with feeds from the command line"
    ),
    "saved-model": Command(
        "aioexec.saved_model.command", "show what a SavedModel holds, and run its signatures"
    ),
    "serve": Command(
        "aioexec.serving.command", "serve SavedModels over HTTP, with TensorFlow Serving's interface"
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
    module = _complete(chosen, subparsers[chosen])
    parsed = parser.parse_args(arguments)
    return exit_status(chosen, lambda: module.run(parsed), debug=parsed.debug)


def full_parser() -> argparse.ArgumentParser:
    """The parser with the arguments of all subcommands, whose modules are imported."""
    parser, subparsers = _parser()
    for name in COMMANDS:
        _complete(name, subparsers[name])
    return parser


def _parser() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """The parser, and those of the subcommands, still without their arguments."""
    parser = argparse.ArgumentParser(
        prog="aioexec",
        description="TensorFlow 1.x's session runtime for asyncio",
        epilog="`aioexec COMMAND --help` explains a command, with examples. Exit status: 0 success, 1 failure, 2 wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"aioexec {_version()}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    choices = parser.add_subparsers(title="commands", metavar="COMMAND")
    return parser, {
        name: choices.add_parser(name, help=command.summary, description=command.summary)
        for name, command in COMMANDS.items()
    }


def _complete(name: str, parser: argparse.ArgumentParser) -> CommandModule:
    """Add the arguments of a subcommand to its parser, and return its module."""
    module = cast(CommandModule, import_module(COMMANDS[name].module))
    module.add_arguments(parser)
    _finish(parser)
    return module


def _finish(parser: argparse.ArgumentParser) -> None:
    """Add `--debug` to a subcommand's parser, and to those below it; keep the lines of the examples."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = textwrap.fill(parser.description or "", _WIDTH)
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    if not inner:
        parser.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,
            help="show the traceback of a failure",
        )
    for choices in inner:
        for each in choices.choices.values():
            _finish(each)


def _version() -> str:
    try:
        return metadata.version("aioexec")
    except metadata.PackageNotFoundError:  # run from a source tree that is not installed
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())
