"""Starts processes that save, train or serve and are killed: `python -m tests.train.kills.nursery`.

It has imported what they need, so that a forked process is ready in milliseconds. A line of its input defines a process, as
JSON; its output has a line for each save that was acknowledged, and one for the end of the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from aioexec.train.checkpoints.checkpoint_state import get_checkpoint_state
from aioexec.train.off_loop import off_loop
from tests.train.kills.model import model
from tests.train.kills.serving import serve_checkpoint
from tests.train.kills.training import train

TOUCHING = ("open", "write", "fsync", "link", "replace", "unlink", "mkdir", "rmdir")
"""Calls after which the disk may be otherwise."""


@dataclass
class Life:
    """A process that saves the steps from `first` on, `saves` times. In the manner "training" it trains that many
    steps, in the manner "serving" it serves.

    It is killed before the call number `die_before` that touches the disk, or `die_after` seconds after it began.
    """

    folder: str
    manner: str
    first: int
    saves: int
    die_before: int | None = None
    die_after: float | None = None


class Fate:
    """Counts the calls that touch the disk, and kills the process before one."""

    def __init__(self, die_before: int | None) -> None:
        self.count = 0
        self._die_before = die_before

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count == self._die_before:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)

        return wrapped


def say(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def arm(life: Life) -> Fate:
    """From now on the process counts its calls that touch the disk, and is killed when it shall be."""
    fate = Fate(life.die_before)
    for name in TOUCHING:
        # what a killed process has written the system keeps, be it on the disk or not
        call = getattr(os, name) if name != "fsync" else lambda descriptor: None
        setattr(os, name, fate.wrap(call))
    if life.die_after is not None:
        signal.setitimer(signal.ITIMER_REAL, life.die_after)  # the signal has no handler: it kills
    return fate


async def live(life: Life) -> int:
    if life.manner in ("training", "serving"):
        fate = arm(life)
        if life.manner == "training":
            await train(life.folder, life.saves, say)
        else:
            await serve_checkpoint(life.folder, say)
        return fate.count
    lived = model(life.manner)
    state = await off_loop(get_checkpoint_state, life.folder)
    if state is not None:
        await off_loop(lived.saver.recover_last_checkpoints, list(state.all_model_checkpoint_paths))
    async with lived.session() as session:
        fate = arm(life)
        for step in range(life.first, life.first + life.saves):
            await lived.save(session, life.folder, step)
            say(saved=step)
    return fate.count


def main() -> None:
    say(ready=True)
    for line in sys.stdin:
        life = Life(**json.loads(line))
        child = os.fork()
        if not child:
            count = asyncio.run(live(life))
            say(calls=count)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        say(ended=os.waitstatus_to_exitcode(status))


def as_line(life: Life) -> str:
    return json.dumps(asdict(life)) + "\n"


if __name__ == "__main__":
    main()
