"""Processes of a cluster that are killed and frozen while a step needs them.

    python -m tests.distributed.kills --count 100 --seed 7

Each fault occurs at a random moment of a random kind of step, on a random task. Required: the step ends with an error within
NOTICED seconds, the other tasks release the step and continue, and the same session runs steps on all tasks within AGAIN
seconds after the process has returned. If it was the master, its session raises `AbortedError`, and a new one has to work in
time.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import aioexec as ax
from aioexec.errors import AbortedError, OpError, UnavailableError
from tests.distributed.processes import ServerProcess, servers

TASKS = (("worker", 0), ("worker", 1), ("ps", 0))
MASTER = TASKS[0]
DEPUTY = TASKS[1]
"""By whose master the others are asked while the master is dead."""
FAULTS = ("killed", "frozen")
STEPS = ("waits", "edges", "large", "loop")
NOTICED = {"killed": 0.1, "frozen": 3.0}
AGAIN = 1.0
HANGS = 10.0
"""Seconds after which a step counts as hung."""

Task = tuple[str, int]


@dataclass(frozen=True)
class Program:
    """A graph on some tasks: by task, what uses its queue and nothing else."""

    graph: ax.Graph
    put: dict[Task, Any]
    taken: dict[Task, Any]
    size: dict[Task, Any]


def device(task: Task) -> str:
    return f"/job:{task[0]}/task:{task[1]}"


def program(tasks: Sequence[Task]) -> Program:
    made = Program(ax.Graph(), {}, {}, {})
    with made.graph.as_default():
        for task in tasks:
            with ax.device(device(task)):
                queue = ax.FIFOQueue(10, ax.float32, shapes=[[]], shared_name="held")
                made.put[task], made.taken[task], made.size[task] = (
                    queue.enqueue(1.0),
                    queue.dequeue(),
                    queue.size(),
                )
    return made


def steps(made: Program) -> tuple[dict[str, Any], Any]:
    """Steps that use all tasks, of which "waits" does not end by itself; and what initialises their variable."""
    with made.graph.as_default():
        with ax.device(device(("ps", 0))):
            variable = ax.Variable(0.0, name="count", use_resource=False)
            counted = ax.assign_add(variable, 1.0)
        found = {
            "waits": list(made.taken.values()),
            "edges": _handed_around(counted, 10),
            "large": ax.reduce_sum(_handed_around(ax.random_uniform([1 << 20]), 2)),
            "loop": _looped(counted),
        }
        return found, ax.global_variables_initializer()


def _handed_around(value: Any, rounds: int) -> Any:
    for _ in range(rounds):
        for task in TASKS:
            with ax.device(device(task)):
                value = value + 1.0
    return value


def _looped(first: Any) -> Any:
    """A loop whose body is on all tasks."""
    _, value = ax.while_loop(lambda n, _: n < 5, lambda n, v: (n + 1, _handed_around(v, 1)), [0, first])
    return value


@dataclass
class Life:
    """The outcome of one fault."""

    task: Task
    fault: str
    step: str
    noticed: float = float("inf")
    error: OpError | None = None
    again: float = float("inf")
    failures: list[str] = field(default_factory=list)

    def line(self) -> str:
        """A row of the table."""
        kind = "nothing" if self.error is None else type(self.error).__name__
        return (
            f"{self.task[0]}:{self.task[1]:<3} {self.fault:7} {self.step:6} {1e3 * self.noticed:8.1f} ms  {kind:18} "
            f"{1e3 * self.again:8.1f} ms  {'; '.join(self.failures) or 'ok'}"
        )


class Trial:
    """One cluster, and the session that is used for as long as its master lives.

    Args:
        slack: how many times as long everything may take.
    """

    def __init__(self, cluster: dict[Task, ServerProcess], chance: random.Random, slack: float) -> None:
        self._cluster = cluster
        self._chance = chance
        self._slack = slack
        self._program = program(TASKS)
        self._steps, self._init = steps(self._program)
        self._session: ax.Session | None = None

    async def __aenter__(self) -> Trial:
        try:
            await self._works_again()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _new_session(self) -> None:
        self._session = ax.Session(self._cluster[MASTER].target, graph=self._program.graph)
        await self._run(self._init)

    async def _close(self) -> None:
        if self._session is not None:
            with suppress(OpError):  # its master is gone
                await self._session.close(grace=0)
            self._session = None

    async def _run(self, fetches: Any) -> Any:
        assert self._session is not None
        async with asyncio.timeout(HANGS * self._slack):
            return await self._session.run(fetches)

    async def live(self, fault: str, task: Task, step: str) -> Life:
        """Have a fault happen while steps run; what came of it."""
        life = Life(task, fault, step)
        await (
            self._works_again()
        )  # on a busy machine a process that waits for its turn is taken for a frozen one
        steps = asyncio.create_task(self._steps_until_error(life))
        await asyncio.sleep(self._chance.uniform(0.0, 0.05))
        at = asyncio.get_running_loop().time()
        self._cluster[task].freeze() if fault == "frozen" else self._cluster[task].signal(signal.SIGKILL)
        try:
            life.noticed = await steps - at
            await self._check(life)
        except TimeoutError:
            life.failures.append("hung")
        await self._bring_back(life)
        return life

    async def _steps_until_error(self, life: Life) -> float:
        """Run steps until one fails; when."""
        while True:
            try:
                await self._run(self._steps[life.step])
            except OpError as error:
                life.error = error
                return asyncio.get_running_loop().time()

    async def _check(self, life: Life) -> None:
        """Check the cluster while the task is gone."""
        if not isinstance(life.error, UnavailableError | AbortedError):
            life.failures.append(f"unexpected {life.error!r}")
        if life.noticed > NOTICED[life.fault] * self._slack:
            life.failures.append("noticed late")
        others = [task for task in TASKS if task != life.task]
        if life.task != MASTER:
            await self._check_released(life, self._program, self._session)
        elif life.fault == "killed":
            config = ax.ConfigProto(device_filters=map(device, others))
            target, made = self._cluster[DEPUTY].target, program(others)
            async with ax.Session(target, graph=made.graph, config=config) as deputy:
                await self._check_released(life, made, deputy)

    async def _check_released(
        self, life: Life, made: Program, session: Any, tasks: Sequence[Task] | None = None
    ) -> None:
        """Whether tasks work, by default all others, and nothing of a step that waits for their queues is left on them."""
        for task in tasks or [task for task in TASKS if task != life.task]:
            try:
                async with asyncio.timeout(HANGS * self._slack):
                    await session.run(made.put[task])
                    if await session.run(made.size[task]) == 1:
                        await session.run(made.taken[task])
                    else:
                        life.failures.append(f"a step is left on {task}")
            except OpError as error:
                life.failures.append(f"{task} is unusable: {error!r}"[:200])

    async def _bring_back(self, life: Life) -> None:
        """Restart the task, and measure the time until steps use it again."""
        process = self._cluster[life.task]
        if life.fault == "frozen":
            process.thaw()
        else:
            await process.ended()
            await process.start()
        if life.task == MASTER and life.fault == "killed":
            await self._check_lost(life)
            await self._close()
        at = asyncio.get_running_loop().time()
        try:
            await self._works_again()
        except (TimeoutError, OpError) as error:
            life.failures.append(f"does not work again: {error!r}"[:300])
            await self._close()
            await self._new_session()
        life.again = asyncio.get_running_loop().time() - at
        if life.again > AGAIN * self._slack:
            life.failures.append("late again")
        await self._check_released(life, self._program, self._session, TASKS)

    async def _check_lost(self, life: Life) -> None:
        """A session whose master was restarted gets a specific error as soon as it reaches the new one."""
        while True:
            try:
                await self._run(self._init)
            except UnavailableError:
                await asyncio.sleep(0.01)
            except AbortedError:
                return
            else:
                life.failures.append("the session outlived its master")
                return

    async def _works_again(self) -> None:
        """Run steps on all tasks, again and again until it works.

        Raises:
            OpError: it does not after HANGS seconds.
        """
        at = asyncio.get_running_loop().time()
        while True:
            try:
                if self._session is None:
                    await self._new_session()
                else:
                    await self._run(self._init)
                await self._run([self._steps["edges"], self._steps["loop"]])
            except (AbortedError, UnavailableError):
                if asyncio.get_running_loop().time() - at > HANGS * self._slack:
                    raise
                await asyncio.sleep(0.01)
            else:
                return


Fault = tuple[str, Task, str]
"""A kind of fault, the task, and the kind of the step."""


def faults(count: int, seed: int) -> Iterator[Fault]:
    """So many faults at random."""
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.choice(FAULTS), chance.choice(TASKS), chance.choice(STEPS)


async def lives(planned: Iterable[Fault], seed: int, slack: float = 1.0) -> AsyncIterator[Life]:
    """The outcomes of faults, one after another, in one cluster."""
    chance = random.Random(seed)
    async with servers("ps", "worker", "worker") as cluster, Trial(cluster, chance, slack) as trial:
        for fault, task, step in planned:
            yield await trial.live(fault, task, step)


async def run(count: int, seed: int) -> int:
    """Print the outcomes of faults; returns the number of failures."""
    print("task     fault   step      noticed  error                 again")
    found = []
    async for life in lives(faults(count, seed), seed):
        print(life.line(), flush=True)
        found.append(life)
    for fault in FAULTS:
        those = [life for life in found if life.fault == fault]
        if those:
            noticed, again = sorted(life.noticed for life in those), sorted(life.again for life in those)
            print(
                f"{fault}: {len(those)}, noticed after {1e3 * median(noticed):.0f} ms, at most {1e3 * noticed[-1]:.0f}; "
                f"again after {1e3 * median(again):.0f} ms, at most {1e3 * again[-1]:.0f}; "
                f"{dict(Counter(type(life.error).__name__ for life in those))}"
            )
    failed = sum(bool(life.failures) for life in found)
    print(f"{len(found) - failed} of {len(found)} as they should be (seed {seed})")
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill and freeze processes of a cluster.")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    return 1 if asyncio.run(run(asked.count, asked.seed)) else 0


if __name__ == "__main__":
    sys.exit(main())
