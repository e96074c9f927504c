"""The executor of a plan: runs steps of it, any number at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.errors import DeadlineExceededError, InvalidArgumentError
from aioexec.execution.budget import TICK_NS
from aioexec.execution.engine import Engine
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.partition_run import PartitionExecutor, PartitionRun
from aioexec.execution.prompt import PromptRunner, is_prompt
from aioexec.execution.propagator import DEAD
from aioexec.execution.reference import HEAVY_BYTES
from aioexec.execution.step import DEFAULT, Step, StepSettings
from aioexec.graph.node import Operation
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition, Plan
from aioexec.resources.variable import Variable


class Executor:
    """Runs steps of one plan; holds what outlives a step: the item runners with their programs.

    `step_count` counts the steps begun. `_only` is the runner of a plan that is one program; `_whole` runs an item that is all
    of a step: bind the feeds, run it, hand out its outputs.
    """

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self.plan = plan
        self.engine = engine
        self.step_count = 0
        self.partitions = [PartitionExecutor(partition, engine) for partition in plan.partitions]
        self._only = self.runners[0] if _is_one_program(plan) else None
        self._whole: ItemRunner | PromptRunner | None = None
        if self._only is not None and _is_nothing_else(plan.client):
            self._whole = self._only
        elif is_prompt(plan):
            self._whole = PromptRunner(plan.client, engine)
        self._dtypes = [tensor.dtype.numpy for tensor in plan.signature.feeds]

    @property
    def runners(self) -> list[ItemRunner]:
        """Those of all programs."""
        return [runner for each in self.partitions for runner in each.runners if runner is not None]

    def run_at_once(self, feeds: Iterable[Any]) -> list[Any] | None:
        """A step without suspending: of a plan that is one item, with a program that fits the feeds as they are.

        None: there is no such program, or this is not the moment; nothing was run.

        Raises:
            OpError: of the node that failed.
        """
        runner = self._whole
        if runner is None or self.engine.budget.spent > TICK_NS:
            return None
        inputs = list(feeds)
        for value, dtype in zip(inputs, self._dtypes, strict=True):
            if type(value) is not np.ndarray or value.dtype is not dtype:
                return None
        outputs = runner.run_at_once(inputs)
        if outputs is not None:
            self.step_count += 1
        return outputs

    async def step(self, feeds: Sequence[Any], settings: StepSettings = DEFAULT) -> list[Any]:
        """Run one step: values of the feeds, in the signature's order, to values of the fetches.

        Raises:
            DeadlineExceededError: the deadline passed; the step was cancelled.
            OpError: of the node that failed first.
        """
        if self.engine.budget.spent > TICK_NS:
            await self.engine.budget.turn()
        self.step_count += 1
        step = Step(self.engine, settings)
        partition = self.plan.client
        values, fresh = list(partition.values), set[int]()
        for value, fed in zip(partition.feeds, feeds, strict=True):
            values[value] = fed
        try:
            if self._only is not None and settings.deadline is None and settings.collector is None:
                rest = self._only.begin(values, fresh, step)
                if rest is not None:
                    await rest
            else:
                runs = [PartitionRun(each, step) for each in self.partitions[1:]]
                await _run_all([PartitionRun(self.partitions[0], step, values, fresh), *runs], step)
            return await self._fetched(values, fresh, feeds, step)
        finally:
            step.close()

    async def _fetched(
        self, values: Sequence[Any], fresh: set[int], feeds: Sequence[Any], step: Step
    ) -> list[Any]:
        """The caller's own arrays: what nobody else holds goes out as it is, once; all else is copied, on a worker if large."""
        results: list[Any] = []
        large: list[int] = []
        partition = self.plan.client
        for position, value in enumerate(partition.fetches):
            held = values[value]
            if held is DEAD:
                raise _no_value(partition, position)
            if position in partition.fed_fetches:
                held = feeds[partition.fed_fetches[position]]
            elif value in fresh:
                fresh.remove(value)
            elif _is_handle(partition, position, held):
                pass
            elif _bytes(held) > HEAVY_BYTES:
                held = held.read() if isinstance(held, Variable) else held
                large.append(position)
            else:
                held = _copied(held)
            results.append(held)
        if large:
            await step.workers.submit(partial(_copy_in_place, results, large)).result()
        return results

    def open(self, settings: StepSettings = DEFAULT) -> PartialStep:
        """Begin a step whose feeds come one after the other; the plan's signature is a partial one."""
        self.step_count += 1
        return PartialStep(self, settings)

    async def built(self) -> None:
        """Wait until no program is being made."""
        for runner in self.runners:
            await runner.built()


def start(runs: Sequence[PartitionRun], step: Step) -> list[asyncio.Task[Any]]:
    """Begin the partitions, the client's first, and let them hand each other what is there at once.

    Those but the client's that must wait for something get a task each.
    """
    woken: list[Callable[[], None]] = []
    step.woken = woken
    for run in runs:
        run.start()
    while woken:
        woken.pop(0)()
    step.woken = None
    return [asyncio.create_task(run.ended()) for run in runs[1:] if not run.has_ended]


async def _run_all(runs: Sequence[PartitionRun], step: Step) -> None:
    """Run the partitions of a step.

    Raises:
        DeadlineExceededError: the step's deadline passed.
        OpError: of the node that failed first, in whichever partition.
    """
    timer = None if step.deadline is None else fail_at(step.deadline, step)
    try:
        tasks = start(runs, step)
        cancelled = None if runs[0].has_ended else await runs[0].ended()
        if tasks:
            cancelled = await _all_done(tasks, step) or cancelled
    finally:
        if timer is not None:
            timer.cancel()
    if cancelled is not None:
        raise cancelled
    if step.error is not None:
        raise step.error


async def _all_done(tasks: Sequence[asyncio.Task[Any]], step: Step) -> asyncio.CancelledError | None:
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


class PartialStep:
    """A step whose feeds come one after the other: it runs from the beginning; `cancel` or `finish` must be called.

    State: `_feeds`, what has come; `_finished`, the items that have run, as far as anybody wants to know; `_tasks` run the
    partitions but the client's, and `_arrivals` are those who wait for something to happen.
    """

    def __init__(self, executor: Executor, settings: StepSettings) -> None:
        self._step = step = Step(executor.engine, settings)
        feeds = len(executor.plan.signature.feeds)
        self._runs = [
            PartitionRun(partition, step, missing_feeds=0 if k else feeds)
            for k, partition in enumerate(executor.partitions)
        ]
        self._client = self._runs[0]
        self._feeds: dict[int, Any] = {}
        self._finished: set[tuple[PartitionRun, int]] = set()
        self._arrivals: list[asyncio.Future[None]] = []
        if executor.plan.signature.targets:
            self._listen()
        self._timer = None if step.deadline is None else fail_at(step.deadline, step)
        self._tasks = start(self._runs, step)
        step.stops.append(self._tell)

    @property
    def is_over(self) -> bool:
        """Everything has run, or an error ended it."""
        return all(run.has_ended for run in self._runs)

    @property
    def error(self) -> BaseException | None:
        """What ended the step, if it was an error."""
        return self._step.error

    def _listen(self) -> None:
        """Be told of every item from now on."""
        for run in self._runs:
            run.on_finished = self._note

    def _note(self, run: PartitionRun, item: int) -> None:
        self._finished.add((run, item))
        if self._arrivals:
            self._tell()

    def _tell(self) -> None:
        arrivals, self._arrivals = self._arrivals, []
        for arrival in arrivals:
            if not arrival.done():
                arrival.set_result(None)

    def feed(self, position: int, value: Any) -> None:
        """Bring the feed at a position of the signature, an array; each comes once."""
        self._feeds[position] = value
        self._client.feed(position, value)

    def fetch_at_once(self, positions: Sequence[int], targets: Sequence[Operation] = ()) -> list[Any] | None:
        """What `fetch` gives, if it has come and these targets have run; else None.

        Raises:
            OpError: the step failed.
        """
        if self._step.error is not None:
            raise self._step.error
        if targets and not self._items_of(targets) <= self._finished:
            return None
        return self._taken(positions) if all(map(self._has, positions)) else None

    async def fetch(self, positions: Sequence[int]) -> list[Any]:
        """Wait for the fetches at these positions; values as `Executor.step` gives them.

        Raises:
            OpError: the step failed.
        """
        for position in positions:
            while not self._has(position):
                await self._wait()
        return self._taken(positions)

    def _taken(self, positions: Sequence[int]) -> list[Any]:
        results = []
        partition = self._client.partition
        for position in positions:
            held = self._client.values[partition.fetches[position]]
            fed = partition.fed_fetches.get(position)
            if held is DEAD:
                raise _no_value(partition, position)
            if fed is not None:
                held = self._feeds[fed]
            elif type(held) is np.ndarray:
                held = held.copy()
            elif not _is_handle(partition, position, held):
                held = _copied(held)
            results.append(held)
        return results

    def _has(self, position: int) -> bool:
        """Whether the value has come; that its item has run would not do: an Exit also runs in iterations it does not leave."""
        partition = self._client.partition
        fed = partition.fed_fetches.get(position)
        if fed is not None:
            return fed in self._feeds
        return self._client.values[partition.fetches[position]] is not None

    async def ran(self, targets: Sequence[Operation]) -> None:
        """Wait until these targets of the signature have run.

        Raises:
            OpError: the step failed.
        """
        items = self._items_of(targets)
        while not items <= self._finished:
            await self._wait()

    def _items_of(self, targets: Sequence[Operation]) -> set[tuple[PartitionRun, int]]:
        return {
            (run, item.index)
            for run in self._runs
            for item in run.partition.items
            if any(instruction.node.op in targets for instruction in item.instructions)
        }

    async def _wait(self) -> None:
        """Wait until something has happened.

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
        """End a step whose partitions have all run well, without waiting; whether it was one."""
        if not self.is_over or self._step.error is not None or any(not task.done() for task in self._tasks):
            return False
        self._close()
        return True

    async def finish(self) -> None:
        """Wait until everything has run.

        Raises:
            OpError: the step failed.
        """
        cancelled = await self._quiet()
        if cancelled is not None:
            raise cancelled
        if self._step.error is not None:
            raise self._step.error

    async def cancel(self, error: BaseException) -> None:
        """End the step with an error and wait until it is quiet."""
        if not self.is_over:
            self._step.fail(error)
        cancelled = await self._quiet()
        if cancelled is not None:
            raise cancelled

    async def _quiet(self) -> asyncio.CancelledError | None:
        cancelled = None if self._client.has_ended else await self._client.ended()
        if self._tasks:
            cancelled = await _all_done(self._tasks, self._step) or cancelled
        self._close()
        return cancelled

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._step.close()


def _is_one_program(plan: Plan) -> bool:
    items = plan.client.items
    return len(plan.partitions) == 1 and len(items) == 1 and items[0].kind is Kind.PROGRAM


def _is_nothing_else(partition: Partition) -> bool:
    return (
        partition.items[:1] != ()
        and partition.items[0].inputs == partition.feeds
        and partition.items[0].outputs == partition.fetches
        and not partition.fed_fetches
        and not partition.fetch_references
    )


def _no_value(partition: Partition, position: int) -> InvalidArgumentError:
    node, index = partition.subgraph.fetches[position]
    return InvalidArgumentError(
        f"Retval[{position}] does not have value: {node.name}:{index} is dead, on a branch that was not taken"
    )


def _bytes(value: Any) -> int:
    content = value.buffer if isinstance(value, Variable) else value
    return content.nbytes if isinstance(content, np.ndarray) else 0


def _is_handle(partition: Partition, position: int, held: Any) -> bool:
    """Whether a fetched variable is the thing itself, which can be fed to another step; a reference is read instead."""
    return isinstance(held, Variable) and position not in partition.fetch_references


def _copied(value: Any) -> Any:
    if isinstance(value, Variable):
        value = value.require()
    return np.array(value, copy=True) if isinstance(value, np.ndarray) else value


def _copy_in_place(results: list[Any], positions: Sequence[int]) -> None:
    for position in positions:
        results[position] = _copied(results[position])
