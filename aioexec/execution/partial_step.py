"""Partial steps: feeds arrive and fetches are taken one after another while the step runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.execution.fetched import copy_value, is_handle, no_value
from aioexec.execution.partition_executor import PartitionExecutor
from aioexec.execution.partition_group import Run, fail_at, start, wait_all_ended
from aioexec.execution.partition_run import PartitionRun
from aioexec.execution.propagator import DEAD
from aioexec.execution.step import Step
from aioexec.graph.node import Operation
from aioexec.planning.plan import Plan


class PartialStep:
    """A step whose feeds arrive one after another; it runs from its creation on; `cancel` or `finish` must be called.

    `_runs` are the partitions in this process, `_all_runs` include those elsewhere. State: `_feeds`, the feeds that arrived;
    `_finished`, the items that have run, recorded once a caller waits for targets; `_arrivals`, futures of the callers that
    wait for the next event.
    """

    def __init__(
        self, plan: Plan, partitions: Sequence[PartitionExecutor], step: Step, remote: Sequence[Run] = ()
    ) -> None:
        self._step = step
        self._partitions = partitions
        feeds = len(plan.signature.feeds)
        self._runs = [
            PartitionRun(each, step, missing_feeds=0 if k else feeds) for k, each in enumerate(partitions)
        ]
        self._client = self._runs[0]
        self._all_runs: Sequence[Run] = (*self._runs, *remote)
        self._feeds: dict[int, Any] = {}
        self._finished: set[tuple[Run, int]] = set()
        self._arrivals: list[asyncio.Future[None]] = []
        if plan.signature.targets:
            self._listen()
        self._timer = None if step.deadline is None else fail_at(step.deadline, step)
        start(self._all_runs, step)
        step.stops.append(self._tell)

    @property
    def is_over(self) -> bool:
        """Whether everything has run, or an error has ended it."""
        for run in self._all_runs:  # noqa: SIM110 (a generator takes longer than all of it)
            if not run.has_ended:
                return False
        return True

    @property
    def error(self) -> BaseException | None:
        """The error that ended the step, if any."""
        return self._step.error

    def _listen(self) -> None:
        """Record every item that finishes from now on."""
        for run in self._runs:
            run.on_finished = self._note

    def _note(self, run: Run, item: int) -> None:
        self._finished.add((run, item))
        if self._arrivals:
            self._tell()

    def _tell(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        for arrival in arrivals:
            if not arrival.done():
                arrival.set_result(None)

    def feed(self, position: int, value: Any) -> None:
        """Set the feed at a position of the signature, an array; once for each position."""
        self._feeds[position] = value
        self._client.feed(position, value)

    def fetch_nowait(self, positions: Sequence[int], targets: Sequence[Operation] = ()) -> list[Any] | None:
        """The result of `fetch`, if it is available and these targets have run; else None.

        Raises:
            OpError: the step failed.
        """
        if self._step.error is not None:
            raise self._step.error
        if targets and not self._items_of(targets) <= self._finished:
            return None
        partition, values, results = self._client.partition, self._client.values, []
        for position in positions:
            held = values[partition.fetches[position]]
            if type(held) is not np.ndarray or position in partition.fed_fetches:
                return self._take(positions) if all(map(self._has, positions)) else None
            results.append(held.copy())
        return results

    async def fetch(self, positions: Sequence[int]) -> list[Any]:
        """Wait for the fetches at these positions; values as `Executor.step` gives them.

        Raises:
            OpError: the step failed.
        """
        for position in positions:
            while not self._has(position):
                await self._wait()
        return self._take(positions)

    def _take(self, positions: Sequence[int]) -> list[Any]:
        results = []
        partition = self._client.partition
        for position in positions:
            held = self._client.values[partition.fetches[position]]
            fed = partition.fed_fetches.get(position)
            if held is DEAD:
                raise no_value(partition, position)
            if fed is not None:
                held = self._feeds[fed]
            elif type(held) is np.ndarray:
                held = held.copy()
            elif not is_handle(partition, position, held):
                held = copy_value(held)
            results.append(held)
        return results

    def _has(self, position: int) -> bool:
        """Whether the value is there. That its item has run is not enough: an Exit also runs, dead, in each iteration."""
        partition = self._client.partition
        fed = partition.fed_fetches.get(position)
        if fed is not None:
            return fed in self._feeds
        return self._client.values[partition.fetches[position]] is not None

    async def wait_for_targets(self, targets: Sequence[Operation]) -> None:
        """Wait until these targets of the signature have run.

        Raises:
            OpError: the step failed.
        """
        items = self._items_of(targets)
        while not items <= self._finished:
            await self._wait()

    def _items_of(self, targets: Sequence[Operation]) -> set[tuple[Run, int]]:
        return {
            (run, partition.targets[op])
            for run, partition in zip(self._runs, self._partitions, strict=True)
            for op in targets
            if op in partition.targets
        }

    async def _wait(self) -> None:
        """Wait for the next event of the step.

        Raises:
            OpError: the step failed.
        """
        if self._step.error is not None:
            raise self._step.error
        if self.is_over:
            raise InvalidArgumentError("the step is over, and this was never computed")
        self._listen()
        arrival = asyncio.get_running_loop().create_future()
        self._arrivals.append(arrival)
        await arrival

    def close_if_over(self) -> bool:
        """End a step whose partitions have all run without an error; False: it is not such a step."""
        if not self.is_over or self._step.error is not None:
            return False
        self._close()
        return True

    async def finish(self) -> None:
        """Wait until everything has run.

        Raises:
            OpError: the step failed.
        """
        cancelled = await self._wait_until_quiet()
        if cancelled is not None:
            raise cancelled
        if self._step.error is not None:
            raise self._step.error

    async def cancel(self, error: BaseException) -> None:
        """End the step with an error and wait until nothing of it runs."""
        if not self.is_over:
            self._step.fail(error)
        cancelled = await self._wait_until_quiet()
        if cancelled is not None:
            raise cancelled

    async def _wait_until_quiet(self) -> asyncio.CancelledError | None:
        cancelled = await wait_all_ended(self._all_runs)
        self._close()
        return cancelled

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for run in self._runs:
            run.on_finished = None  # breaks a reference cycle
        self._step.close()
