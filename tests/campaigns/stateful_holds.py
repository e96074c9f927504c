"""The time that stateful ops block the event loop: each step of some programs, first with few elements, then with many.

A seed is a program and a content of `stateful_programs`. The longest callback of the loop is measured, in processor time of its
thread, so other load on the machine matters little.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from time import thread_time
from typing import Any
from unittest import mock

import aioexec as ax
from aioexec.graph.graph import Graph
from tests.campaigns import campaign
from tests.campaigns.stateful_programs import Build, Content, Feeds, Program, Step, cases

BOUND_MS = 2.0
_FEW = 3
_ROUNDS = 3


class Longest:
    """The longest callback of the running loop since the last `clear`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def clear(self) -> None:
        self.seconds = 0.0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            began = thread_time()
            run(handle)
            self.seconds = max(self.seconds, thread_time() - began)

        with mock.patch.object(asyncio.Handle, "_run", timed):
            yield


def longest_holds(build: Build, content: Content, rounds: int = _ROUNDS) -> dict[str, float]:
    """Milliseconds of the longest callback of each step, at best of some rounds."""
    found: dict[str, float] = {}
    gc.collect()
    gc.disable()  # its pauses are the process's, not the op's
    try:
        for _ in range(rounds):
            for name, milliseconds in asyncio.run(_round(build, content)).items():
                found[name] = min(milliseconds, found.get(name, milliseconds))
    finally:
        gc.enable()
    return found


async def _round(build: Build, content: Content) -> dict[str, float]:
    longest, found = Longest(), {}
    with Graph().as_default():
        program = Program(content)
        build(program)
        config = ax.ConfigProto()
        config.aioexec.jit = "off"
        async with ax.Session(config=config) as session:
            for count in (_FEW, content.count):
                feeds = program.feeds(count)
                with longest.measured():
                    for step in program.steps:
                        if step.is_last and count == _FEW:
                            continue
                        found[step.name] = await _milliseconds(session, step, feeds, count, longest)
    return found


async def _milliseconds(session: Any, step: Step, feeds: Feeds, count: int, longest: Longest) -> float:
    """Of the longest callback of a step."""
    most, fed = 0.0, step.fed(feeds)
    for _ in range(min(count, 100) if step.for_each else 1):
        await asyncio.sleep(0)  # the present callback has begun before the step
        longest.clear()
        await asyncio.gather(*[session.run(fetch, fed) for fetch in step.fetches])
        await asyncio.sleep(0)
        most = max(most, longest.seconds)
    return most * 1000


def case(seed: int) -> str | None:
    """Return which steps of a program hold the loop for too long, if any."""
    for number, (name, build, content) in enumerate(cases()):
        if number == seed:
            found = longest_holds(build, content)
            bad = {step: f"{ms:.1f} ms" for step, ms in found.items() if ms > BOUND_MS}
            return f"{name} of {content.name} holds the loop: {bad}" if bad else None
    return None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
