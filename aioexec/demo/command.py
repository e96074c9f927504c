"""`aioexec demo`: its arguments, its event loop and its exit status."""

import argparse
import asyncio
import functools
import signal
import sys

from rich.console import Console

from aioexec.command_line.arguments import add_examples, add_json, positive_int, positive_seconds
from aioexec.command_line.output import print_json
from aioexec.demo import digits, display, training
from aioexec.demo.progress import REQUIRED_ACCURACY, Outcome

try:
    from uvloop import new_event_loop
except ImportError:  # not available on Windows
    from asyncio import new_event_loop  # type: ignore[assignment]

_SECONDS = 15.0
_MOST_SECONDS = 45.0
_FOLDER = "aioexec-demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--seconds",
        type=positive_seconds,
        help=f"train this long; by default {_SECONDS:g}, and up to {_MOST_SECONDS:g} where the machine is busy",
    )
    parser.add_argument("--batch-size", type=positive_int, default=32, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the start and the order")
    parser.add_argument(
        "--folder",
        default=_FOLDER,
        help="of checkpoints and events; training continues from what is there (default: %(default)s)",
    )
    add_json(parser)
    add_examples(
        parser,
        """
train on handwritten digits and answer predictions meanwhile; again: go on from there
aioexec demo
a short run whose result a script reads
aioexec demo --seconds 3 --folder /tmp/demo --json
""",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the demo and return 0 if the network has learnt, else 1."""
    console = Console(highlight=False, stderr=arguments.json)
    data = digits.load(arguments.seed)
    settings = training.Settings(
        seconds=arguments.seconds or _SECONDS,
        most_seconds=arguments.seconds or _MOST_SECONDS,
        batch_size=arguments.batch_size,
        seed=arguments.seed,
        folder=arguments.folder,
    )
    watch = functools.partial(display.watch, console)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            outcome, interrupted = runner.run(_until_interrupted(settings, data, watch))
    except KeyboardInterrupt:  # the second one
        return 130
    if arguments.json:
        print_json(outcome)
    else:
        console.print(display.summary(outcome))
    if interrupted:
        return 130
    if outcome.accuracy < REQUIRED_ACCURACY:
        print(f"accuracy below {REQUIRED_ACCURACY}: {outcome.accuracy:.4f}", file=sys.stderr)
        return 1
    return 0


async def _until_interrupted(
    settings: training.Settings, data: digits.Digits, watch: training.Watch
) -> tuple[Outcome, bool]:
    """Run the demo; the first SIGINT ends the training and saves it, a second one interrupts everything."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def interrupt() -> None:
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        return await training.run(settings, data, watch, stop), stop.is_set()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
