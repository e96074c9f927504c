"""Arguments that several subcommands have, and their types."""

import argparse
import math


def add_examples(parser: argparse.ArgumentParser, text: str) -> None:
    """Show examples below a command's help: lines of `aioexec …`, each below a line that says what it does."""
    lines = [f"  {line}" if line.startswith("aioexec ") else line for line in text.strip().splitlines()]
    parser.epilog = "\n".join(["examples:", *(f"  {line}".rstrip() for line in lines)])


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")


def positive_int(text: str) -> int:
    """An integer of at least 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return number


def seconds(text: str) -> float:
    """A finite number of seconds, at least 0."""
    number = _float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got {text!r}")
    return number


def positive_seconds(text: str) -> float:
    """A finite number of seconds above 0."""
    number = _float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text!r}")
    return number


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
