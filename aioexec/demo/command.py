"""`aioexec demo`: its arguments, its event loop and its exit status."""

import argparse
import asyncio
import functools
import sys

from rich.console import Console

from aioexec.demo import digits, display, training

try:
    import uvloop
except ImportError:  # there is none for Windows
    uvloop = None  # type: ignore[assignment]

REQUIRED_ACCURACY = 0.96
"""Of the test images; with less the exit status is 1."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--epochs", type=_positive, default=150, help="default: %(default)s")
    parser.add_argument("--batch-size", type=_positive, default=32, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the start and the order")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and return 0 if the network has learnt, else 1."""
    console = Console(highlight=False)
    data = digits.load(arguments.seed)
    settings = training.Settings(arguments.epochs, arguments.batch_size, arguments.seed)
    watch = functools.partial(display.watch, console)
    loop_factory = None if uvloop is None else uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            outcome = runner.run(training.run(settings, data, watch))
    except KeyboardInterrupt:
        return 130
    console.print(display.summary(outcome))
    if outcome.accuracy < REQUIRED_ACCURACY:
        print(f"accuracy below {REQUIRED_ACCURACY}: {outcome.accuracy:.4f}", file=sys.stderr)
        return 1
    return 0


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"expected a positive number, got {text!r}")
    return number
