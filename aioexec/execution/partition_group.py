"""The partitions of one step, begun together and awaited together."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from aioexec.errors import DeadlineExceededError
from aioexec.execution.step import SharedStep, Step


class Run(abc.ABC):
    """One partition in one step: a `PartitionRun`, or what stands here for partitions in another process.

    Once the step has failed it ends too, as soon as it can; from its own failure it makes the step's, by `Step.fail`.
    Driven by events: `_mark_ended` is one's own to call, last. State: `has_ended`, nothing of it runs any more; `_waiting`,
    who is told of that.
    """

    __slots__ = ("_waiting", "has_ended", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.has_ended = False
        self._waiting: list[Callable[[], object]] | None = None

    @property
    @abc.abstractmethod
    def receives(self) -> int:
        """How many values come from other partitions: those that wait for few begin first."""

    @abc.abstractmethod
    def start(self) -> None:
        """Begin."""

    def when_ended(self, tell: Callable[[], object]) -> None:
        """Have somebody told of the end, if it has not come, in the turn of the loop in which it does."""
        self._waiting = [*(self._waiting or ()), tell]

    async def ended(self) -> asyncio.CancelledError | None:
        """Wait for the end, however often we are cancelled: that ends the step, and is told."""
        cancelled = None
        while not self.has_ended:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.when_ended(partial(_wake, waiting))
            try:
                await waiting
            except asyncio.CancelledError as error:
                cancelled = error
                self.step.fail(error)
        return cancelled

    def _mark_ended(self) -> None:
        self.has_ended = True
        for tell in self._waiting or ():
            tell()


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class RemoteParts(Protocol):
    """The partitions of one plan that are in other processes."""

    def new_step(self) -> SharedStep:
        """The identity of a step that begins."""
        ...

    def runs(self, step: Step) -> Sequence[Run]:
        """What runs them in one step. They may have begun: what is on its way to them is so while we begin ours."""
        ...


def start(runs: Sequence[Run], step: Step) -> None:
    """Begin the partitions and let them hand each other what is there at once."""
    woken: list[Callable[[], None]] = []
    step.woken = woken
    for run in runs if len(runs) == 1 else sorted(runs, key=_receives):
        run.start()
    while woken:
        woken.pop(0)()
    step.woken = None


def _receives(run: Run) -> int:
    """How much a partition waits for from the others: those that need nothing begin."""
    return run.receives


async def finished(runs: Sequence[Run], timer: asyncio.TimerHandle | None, step: Step) -> None:
    """Wait until partitions that were started have ended.

    Raises:
        DeadlineExceededError: the step's deadline passed.
        OpError: of the node that failed first, in whichever partition.
    """
    try:
        cancelled = await all_ended(runs)
    finally:
        if timer is not None:
            timer.cancel()
    if cancelled is not None:
        raise cancelled
    if step.error is not None:
        raise step.error


async def all_ended(runs: Sequence[Run]) -> asyncio.CancelledError | None:
    """Wait for the end of all, however often we are cancelled: that ends the step, and is told."""
    cancelled = None
    for run in runs:
        if not run.has_ended:
            cancelled = await run.ended() or cancelled
    return cancelled


def fail_at(deadline: float, step: Step) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_at(deadline, _expire, step)


def _expire(step: Step) -> None:
    step.fail(DeadlineExceededError("Timed out waiting for notification: the step's deadline passed"))
