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
    """One partition in one step: a `PartitionRun`, or a proxy for partitions in another process.

    Once the step has failed, the run ends as soon as it can; its own failure becomes the step's, by `Step.fail`. A subclass
    calls `_mark_ended` as its last action. State: `has_ended`, nothing of it runs any more; `_waiting`, the callbacks for that
    event.
    """

    __slots__ = ("_waiting", "has_ended", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.has_ended = False
        self._waiting: list[Callable[[], object]] | None = None

    @property
    @abc.abstractmethod
    def receives(self) -> int:
        """How many values it receives from other partitions; runs that receive few begin first."""

    @abc.abstractmethod
    def start(self) -> None:
        """Begin."""

    def when_ended(self, notify: Callable[[], object]) -> None:
        """Register a callback for the end, which has not come; it is called in the same callback of the loop."""
        self._waiting = [*(self._waiting or ()), notify]

    async def wait_ended(self) -> asyncio.CancelledError | None:
        """Wait for the end. A cancellation meanwhile fails the step; it is returned, not raised."""
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
        for notify in self._waiting or ():
            notify()


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


class RemoteParts(Protocol):
    """The partitions of one plan that are in other processes."""

    def new_step(self) -> SharedStep:
        """The identity of a step that begins."""
        ...

    def runs(self, step: Step) -> Sequence[Run]:
        """Their runs in one step. The requests to other processes may be sent before the local partitions begin."""
        ...


def start(runs: Sequence[Run], step: Step) -> None:
    """Begin the partitions, and deliver the values that they send each other at once."""
    step.start_deferring()
    for run in runs if len(runs) == 1 else sorted(runs, key=_receives):
        run.start()
    step.run_deferred()


def _receives(run: Run) -> int:
    """The sort key: partitions that receive nothing begin first."""
    return run.receives


async def wait_finished(runs: Sequence[Run], timer: asyncio.TimerHandle | None, step: Step) -> None:
    """Wait until partitions that were started have ended.

    Raises:
        DeadlineExceededError: the step's deadline passed.
        OpError: of the node that failed first, in whichever partition.
    """
    try:
        cancelled = await wait_all_ended(runs)
    finally:
        if timer is not None:
            timer.cancel()
    if cancelled is not None:
        raise cancelled
    if step.error is not None:
        raise step.error


async def wait_all_ended(runs: Sequence[Run]) -> asyncio.CancelledError | None:
    """Wait for the end of all. A cancellation meanwhile fails the step; it is returned, not raised."""
    cancelled = None
    for run in runs:
        if not run.has_ended:
            cancelled = await run.wait_ended() or cancelled
    return cancelled


def fail_at(deadline: float, step: Step) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_at(deadline, _expire, step)


def _expire(step: Step) -> None:
    step.fail(DeadlineExceededError("Timed out waiting for notification: the step's deadline passed"))
