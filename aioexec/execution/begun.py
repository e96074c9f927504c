"""Steps that have begun: the partitions' runs of one step, and what the caller awaits for its fetches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from aioexec.execution.fetched import Fetched
from aioexec.execution.partition_group import Run, fail_at, start, wait_finished
from aioexec.execution.step import Step


class Pending(Protocol):
    """A step that has begun; `finish` must be awaited."""

    async def finish(self) -> list[Any]:
        """Wait for its results."""
        ...


NowaitResult = list[Any] | Pending | None
"""The fetches of a step that has ended; one that must be awaited; None: the step cannot begin now, and nothing was run."""


class Begun:
    """A step that has begun; unless `results_nowait` returns its fetches, `finish` must be awaited.

    `_under_way` are the runs that have not ended, for `when_over`.
    """

    __slots__ = ("_fetched", "_runs", "_step", "_timer", "_under_way")

    def __init__(self, step: Step, runs: Sequence[Run], fetched: Fetched) -> None:
        self._step = step
        self._runs = runs
        self._fetched = fetched
        self._timer = None if step.deadline is None else fail_at(step.deadline, step)
        self._under_way = 0
        start(runs, step)

    @property
    def has_ended(self) -> bool:
        """Whether everything has run."""
        return all(run.has_ended for run in self._runs)

    def fail(self, error: BaseException) -> None:
        """End it; only the first error counts."""
        self._step.fail(error)

    def when_over(self, notify: Callable[[], object]) -> None:
        """Register a callback for the end of all runs, which has not come; then call `results_nowait` or `finish`."""
        for run in self._runs:
            if not run.has_ended:
                self._under_way += 1
                run.when_ended(partial(self._run_ended, notify))

    def _run_ended(self, notify: Callable[[], object]) -> None:
        self._under_way -= 1
        if self._under_way:
            return
        if self._step.error is None:
            notify()
        else:  # the step is being failed, and the caller of `fail` has not returned
            asyncio.get_running_loop().call_soon(notify)

    def results_nowait(self) -> list[Any] | None:
        """The fetches, if everything has run and none is large.

        Raises:
            OpError: of the node that failed first.
        """
        for run in self._runs:
            if not run.has_ended:
                return None
        if self._step.error is None and self._fetched.are_large():
            return None
        try:
            if self._step.error is not None:
                raise self._step.error
            return self._fetched.take()
        finally:
            self._step.close()

    async def finish(self) -> list[Any]:
        """Wait until everything has run; if this is cancelled, the step is.

        Raises:
            DeadlineExceededError: the step's deadline passed.
            OpError: of the node that failed first.
        """
        try:
            await wait_finished(self._runs, self._timer, self._step)
            return await self._fetched.collect(self._step)
        finally:
            self._step.close()
