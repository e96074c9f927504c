"""The partitions of one step, begun together and awaited together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from aioexec.errors import DeadlineExceededError
from aioexec.execution.step import SharedStep, Step


class Run(Protocol):
    """One partition in one step: a `PartitionRun`, or what stands here for partitions in another process.

    Once the step has failed it ends too, as soon as it can; from its own failure it makes the step's, by `Step.fail`.
    """

    @property
    def receives(self) -> int:
        """How many values come from other partitions: those that wait for few begin first."""
        ...

    @property
    def has_ended(self) -> bool:
        """Nothing of it runs any more."""
        ...

    def start(self) -> None:
        """Begin."""

    async def ended(self) -> asyncio.CancelledError | None:
        """Wait for the end, however often we are cancelled: that ends the step, and is told."""
        ...


class RemoteParts(Protocol):
    """The partitions of one plan that are in other processes."""

    def new_step(self) -> SharedStep:
        """The identity of a step that begins."""
        ...

    def runs(self, step: Step) -> Sequence[Run]:
        """What runs them in one step."""
        ...


def start(runs: Sequence[Run], step: Step) -> list[asyncio.Task[Any]]:
    """Begin the partitions and let them hand each other what is there at once; the client's is the first of `runs`.

    Those but the client's that must wait for something get a task each.
    """
    woken: list[Callable[[], None]] = []
    step.woken = woken
    for run in runs if len(runs) == 1 else sorted(runs, key=_receives):
        run.start()
    while woken:
        woken.pop(0)()
    step.woken = None
    return [asyncio.create_task(run.ended()) for run in runs[1:] if not run.has_ended]


def _receives(run: Run) -> int:
    """How much a partition waits for from the others: those that need nothing begin."""
    return run.receives


async def finished(
    runs: Sequence[Run],
    tasks: Sequence[asyncio.Task[Any]],
    timer: asyncio.TimerHandle | None,
    step: Step,
) -> None:
    """Wait until partitions that were started have ended.

    Raises:
        DeadlineExceededError: the step's deadline passed.
        OpError: of the node that failed first, in whichever partition.
    """
    try:
        cancelled = None if runs[0].has_ended else await runs[0].ended()
        if tasks:
            cancelled = await all_done(tasks, step) or cancelled
    finally:
        if timer is not None:
            timer.cancel()
    if cancelled is not None:
        raise cancelled
    if step.error is not None:
        raise step.error


async def all_done(tasks: Sequence[asyncio.Task[Any]], step: Step) -> asyncio.CancelledError | None:
    """Wait for tasks, however often we are cancelled: that ends the step, and is told."""
    cancelled = None
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
            step.fail(error)
    return cancelled


def fail_at(deadline: float, step: Step) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_at(deadline, _expire, step)


def _expire(step: Step) -> None:
    step.fail(DeadlineExceededError("Timed out waiting for notification: the step's deadline passed"))
