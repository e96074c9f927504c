"""One simulation: a scenario on a cluster in memory, with faults planned from a seed.

Three attempts are made while faults occur; each succeeds or fails in an allowed way, in time. Then every task is running and
every message arrives: the next attempts must succeed, in the same session unless its server was killed. At the end nothing may
be left on any server, nor in the loop.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aioexec import errors
from aioexec.testing import DeterministicLoop, InMemoryCluster, LeakCheck
from aioexec.testing.faults import Fault, FaultInjector, planned
from tests.distributed.simulation.quiet import check_idle, check_quiet
from tests.distributed.simulation.scenarios import ALLOWED, DEADLINE, SCENARIOS, Scenario

JOBS = {"master": 1, "worker": 2}
LATE = 1.0
"""Seconds after its deadline by which an attempt must be over."""
AFTERMATH = 2
"""Attempts after the faults that may still fail because of them."""
SETTLED = 7 * 3600.0
"""Seconds after which servers have dropped what clients have left: abandoned sessions, idle steps."""
TOO_LONG = 1000.0
"""Seconds after which a simulation hangs."""


class BreachError(AssertionError):
    """Something that no fault may bring about."""


@dataclass
class Story:
    """The events of a simulation; `breach` is the violated rule, "" for none."""

    scenario: str
    seed: int
    log: list[str] = field(default_factory=list)
    breach: str = ""
    messages: int = 0

    def __str__(self) -> str:
        return "\n".join(
            [f"{self.scenario}, seed {self.seed}: {self.breach or 'as it should be'}", *self.log]
        )


def scenario_of(seed: int) -> type[Scenario]:
    """Seeds go round the scenarios."""
    return SCENARIOS[seed % len(SCENARIOS)]


@cache
def usual_messages(kind: type[Scenario]) -> int:
    """How many messages a scenario takes when nothing happens."""
    story = _story(kind, 0, ())
    if story.breach:
        raise BreachError(f"without any fault: {story}")
    return story.messages


def simulate(seed: int) -> Story:
    """The story of a seed; the same each time."""
    kind = scenario_of(seed)
    count = 1 + (seed // len(SCENARIOS)) % 3
    return _story(kind, seed, planned(seed, usual_messages(kind), count))


def _story(kind: type[Scenario], seed: int, faults: Sequence[Fault]) -> Story:
    story = Story(kind.name, seed)
    logging.disable(logging.ERROR)  # recovering sessions log what they recover from
    try:
        with asyncio.Runner(loop_factory=DeterministicLoop) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: _blame(story, context))
            runner.run(_simulated(kind(), story, faults))
    except Exception as error:
        story.breach = story.breach or f"{type(error).__name__}: {error}"
    finally:
        logging.disable(logging.NOTSET)
    return story


def _blame(story: Story, context: dict[str, Any]) -> None:
    story.breach = story.breach or f"{context['message']}: {context.get('exception')!r}"


async def _simulated(scenario: Scenario, story: Story, faults: Sequence[Fault]) -> None:
    async with LeakCheck(threads=False, descriptors=False):
        bits = random.Random(story.seed).getrandbits
        async with InMemoryCluster(JOBS, bits=bits) as cluster:
            cluster.network.log = story.log.append
            async with FaultInjector(cluster, faults) as injector:
                try:
                    async with asyncio.timeout(TOO_LONG):
                        await _Play(scenario, cluster, injector, story).run()
                except TimeoutError:
                    raise BreachError(f"hangs for {TOO_LONG} s") from None
                story.messages = injector.seen
            await asyncio.sleep(SETTLED)
            for server in cluster.servers:
                check_quiet(server)
            check_idle()
            scenario.check()


class _Play:
    """The attempts of one simulation. `_number` counts them."""

    def __init__(
        self, scenario: Scenario, cluster: InMemoryCluster, injector: FaultInjector, story: Story
    ) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._injector = injector
        self._story = story
        self._number = 0

    async def run(self) -> None:
        master = self._cluster.server("master")
        try:
            async with self._scenario.open(self._cluster) as session:
                for _ in range(self._scenario.attempts):
                    await self._attempt(session)
                await self._injector.settle()
                await asyncio.sleep(LATE)
                if self._cluster.server("master") is master:
                    await self._must_work(session)
                    return
        except ALLOWED as error:
            self._record("session", error)
        await self._injector.settle()
        async with self._scenario.open(self._cluster) as session:
            await self._must_work(session)

    async def _must_work(self, session: Any) -> None:
        """The session works again, and steps that are over leave nothing, though it stays open."""
        for _ in range(AFTERMATH):
            if await self._attempt(session) is None:
                break
        await asyncio.sleep(LATE)
        before = self._steps()
        error = await self._attempt(session)
        if error is not None:
            raise BreachError(f"still fails when everything is up: {error!r}")
        await asyncio.sleep(LATE)
        if self._steps() > before:
            raise BreachError(f"a step is over and yet known: {self._steps()} after {before}")

    def _steps(self) -> int:
        return sum(len(server.worker.steps) for server in self._cluster.servers)

    async def _attempt(self, session: Any) -> errors.OpError | None:
        """One attempt; the allowed error it came to, if it did."""
        self._number += 1
        loop = asyncio.get_running_loop()
        began = loop.time()
        found: errors.OpError | None = None
        try:
            await self._scenario.attempt(session, self._number)
        except ALLOWED as error:
            found = error
        self._record(f"attempt {self._number}", found)
        if loop.time() - began > DEADLINE * self._scenario.calls + LATE:
            raise BreachError(f"attempt {self._number} took {loop.time() - began} s")
        return found

    def _record(self, what: str, error: errors.OpError | None) -> None:
        self._cluster.network.note(f"{what}: {'right' if error is None else type(error).__name__}")
