"""The executor of a plan: runs steps of it, any number at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.errors import DeadlineExceededError, InvalidArgumentError
from aioexec.execution.budget import TICK_NS
from aioexec.execution.engine import Engine
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.partition_run import PartitionExecutor, PartitionRun
from aioexec.execution.propagator import DEAD
from aioexec.execution.reference import HEAVY_BYTES
from aioexec.execution.step import DEFAULT, Step, StepSettings
from aioexec.graph.node import Operation
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition, Plan
from aioexec.resources.variable import Variable


class Executor:
    """Runs steps of one plan; holds what outlives a step: the item runners with their programs.

    `_whole` is the runner of a plan that is one program, and nothing but feeds before and fetches behind it.
    """

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self.plan = plan
        self.engine = engine
        self.partitions = [PartitionExecutor(partition, engine) for partition in plan.partitions]
        self._whole = self.runners[0] if _is_one_program(plan) else None
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
        return runner.run_at_once(inputs)

    async def step(self, feeds: Sequence[Any], settings: StepSettings = DEFAULT) -> list[Any]:
        """Run one step: values of the feeds, in the signature's order, to values of the fetches.

        Raises:
            DeadlineExceededError: the deadline passed; the step was cancelled.
            OpError: of the node that failed first.
        """
        if self.engine.budget.spent > TICK_NS:
            await self.engine.budget.turn()
        step = Step(self.engine, settings)
        runs = [PartitionRun(partition, step) for partition in self.partitions]
        client = runs[0]
        for value, fed in zip(client.partition.feeds, feeds, strict=True):
            client.values[value] = fed
        try:
            if settings.deadline is None:
                await _run_all(runs, step)
            else:
                await _run_until(settings.deadline, runs, step)
            return await self._fetched(client, feeds, step)
        finally:
            step.close()

    async def _fetched(self, client: PartitionRun, feeds: Sequence[Any], step: Step) -> list[Any]:
        """The caller's own arrays: what nobody else holds goes out as it is, once; all else is copied, on a worker if large."""
        results: list[Any] = []
        large: list[int] = []
        partition = client.partition
        for position, value in enumerate(partition.fetches):
            held = client.values[value]
            if held is DEAD:
                raise _no_value(partition, position)
            if position in partition.fed_fetches:
                held = feeds[partition.fed_fetches[position]]
            elif value in client.fresh:
                client.fresh.remove(value)
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
        return PartialStep(self, settings)

    async def built(self) -> None:
        """Wait until no program is being made."""
        for runner in self.runners:
            await runner.built()


async def _run_all(runs: Sequence[PartitionRun], step: Step) -> None:
    """Run the partitions of a step: the client's in the caller's task, each other one in a task of its own.

    Raises:
        OpError: of the node that failed first, in whichever partition.
    """
    if len(runs) == 1:
        await runs[0].run()
        return
    step.stops.extend(run.stop for run in runs)
    tasks = [asyncio.create_task(run.run()) for run in runs[1:]]
    cancelled: asyncio.CancelledError | None = None
    try:
        await runs[0].run()
    except asyncio.CancelledError as error:
        cancelled = error
    except Exception:
        assert step.error is not None  # it is what ended the step, or followed from that
    while pending := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(pending)
        except asyncio.CancelledError as error:
            cancelled = error
            step.fail(error)
    for task in tasks:
        task.exception()
    if cancelled is not None:
        raise cancelled
    if step.error is not None:
        raise step.error


async def _run_until(deadline: float, runs: Sequence[PartitionRun], step: Step) -> None:
    timeout = asyncio.timeout_at(deadline)
    try:
        async with timeout:
            await _run_all(runs, step)
    except TimeoutError as error:
        if not timeout.expired():
            raise
        raise DeadlineExceededError(
            "Timed out waiting for notification: the step's deadline passed"
        ) from error


class PartialStep:
    """A step whose feeds come one after the other.

    Its partitions run in a task from the beginning; `cancel` or `finish` must be called. State: `_task` runs the step;
    `_finished` are the items that have run; `_arrival` wakes those who wait for one.
    """

    def __init__(self, executor: Executor, settings: StepSettings) -> None:
        self._executor = executor
        self._step = step = Step(executor.engine, settings)
        feeds = len(executor.plan.signature.feeds)
        self._runs = [
            PartitionRun(partition, step, 0 if k else feeds)
            for k, partition in enumerate(executor.partitions)
        ]
        self._client = self._runs[0]
        self._feeds: dict[int, Any] = {}
        self._finished: set[tuple[PartitionRun, int]] = set()
        self._arrival: asyncio.Future[None] | None = None
        for run in self._runs:
            run.on_finished = partial(self._note, run)
        self._task = asyncio.create_task(self._run(settings.deadline))
        self._task.add_done_callback(self._ended)

    @property
    def is_over(self) -> bool:
        """Everything has run, or an error ended it."""
        return self._task.done()

    @property
    def error(self) -> BaseException | None:
        """What ended the step, if it was an error."""
        return self._step.error

    async def _run(self, deadline: float | None) -> None:
        try:
            if deadline is None:
                await _run_all(self._runs, self._step)
            else:
                await _run_until(deadline, self._runs, self._step)
        finally:
            self._step.close()

    def _note(self, run: PartitionRun, item: int) -> None:
        self._finished.add((run, item))
        self._tell()

    def _ended(self, task: asyncio.Future[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._step.error = task.exception()
        self._tell()

    def _tell(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def feed(self, position: int, value: Any) -> None:
        """Bring the feed at a position of the signature, an array; each comes once."""
        self._feeds[position] = value
        self._client.feed(position, value)

    async def fetch(self, positions: Sequence[int]) -> list[Any]:
        """Wait for the fetches at these positions; values as `Executor.step` gives them.

        Raises:
            OpError: the step failed.
        """
        for position in positions:
            while not self._has(position):
                await self._wait()
        results = []
        for position in positions:
            held = self._client.values[self._client.partition.fetches[position]]
            fed = self._client.partition.fed_fetches.get(position)
            if held is DEAD:
                raise _no_value(self._client.partition, position)
            results.append(_copied(held) if fed is None else self._feeds[fed])
        return results

    def _has(self, position: int) -> bool:
        partition = self._client.partition
        value = partition.fetches[position]
        fed = partition.fed_fetches.get(position)
        if fed is not None:
            return fed in self._feeds
        producer = partition.producers.get(value)
        return producer is None or (self._client, producer) in self._finished

    async def ran(self, targets: Sequence[Operation]) -> None:
        """Wait until these targets of the signature have run.

        Raises:
            OpError: the step failed.
        """
        items = {
            (run, item.index)
            for run in self._runs
            for item in run.partition.items
            if any(instruction.node.op in targets for instruction in item.instructions)
        }
        while not items <= self._finished:
            await self._wait()

    async def _wait(self) -> None:
        """Wait until something has happened."""
        if self._task.done():
            if self._step.error is not None:
                raise self._step.error
            raise InvalidArgumentError("the step is over, and this was never computed")
        if self._arrival is None or self._arrival.done():
            self._arrival = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._arrival])  # shared by all who wait: none of them may cancel it

    async def finish(self) -> None:
        """Wait until everything has run.

        Raises:
            OpError: the step failed.
        """
        while not self._task.done():
            await asyncio.wait([self._task])
        if self._step.error is not None:
            raise self._step.error

    async def cancel(self, error: BaseException) -> None:
        """End the step with an error and wait until it is quiet."""
        if self._step.error is None and not self._task.done():
            self._step.fail(error)
            self._task.cancel()
        cancelled: asyncio.CancelledError | None = None
        while not self._task.done():
            try:
                await asyncio.wait([self._task])
            except asyncio.CancelledError as ours:
                cancelled = ours
        with contextlib.suppress(BaseException):
            self._task.exception()
        if cancelled is not None:
            raise cancelled


def _is_one_program(plan: Plan) -> bool:
    """Whether a step is: bind the feeds, run the program, hand out its outputs."""
    partition = plan.client
    return (
        len(plan.partitions) == 1
        and len(partition.items) == 1
        and partition.items[0].kind is Kind.PROGRAM
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


def _copied(value: Any) -> Any:
    if isinstance(value, Variable):
        value = value.require()
    return np.array(value, copy=True) if isinstance(value, np.ndarray) else value


def _copy_in_place(results: list[Any], positions: Sequence[int]) -> None:
    for position in positions:
        results[position] = _copied(results[position])
