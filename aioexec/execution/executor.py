"""The executor of a plan: runs steps of it, any number at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.execution.begun import Begun, NowaitResult
from aioexec.execution.budget import TICK_NS
from aioexec.execution.engine import Engine
from aioexec.execution.fast_path import FastPath, is_eligible
from aioexec.execution.feed_safety import copy_index_feeds, index_feeds, with_own_indices
from aioexec.execution.fetched import Fetched
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.partial_step import PartialStep
from aioexec.execution.partition_executor import PartitionExecutor
from aioexec.execution.partition_group import RemoteParts, Run
from aioexec.execution.partition_run import PartitionRun
from aioexec.execution.step import DEFAULT, Step, StepSettings
from aioexec.planning.items import Kind
from aioexec.planning.plan import Plan


class Executor:
    """Runs steps of one plan; has the state that outlives a step: the item runners with their programs.

    Constant: `_whole`, the runner of a plan that is one program from the feeds to the fetches; `_fast_path`, of other plans
    that may run without a step; `_shaped`, the positions of feeds with a static shape, and the shape; `_index_feeds`, the
    positions of feeds that are copied. Changing: `step_count`, the steps begun.

    Args:
        remote: runs the partitions that are in other processes.
    """

    def __init__(self, plan: Plan, engine: Engine, remote: RemoteParts | None = None) -> None:
        self.plan = plan
        self.engine = engine
        self._remote = remote
        self.step_count = 0
        self.partitions = [PartitionExecutor(partition, engine) for partition in plan.partitions]
        self._whole = self.runners[0] if _is_one_program(plan) else None
        is_of_items = self._whole is None and is_eligible(plan, self.partitions[0])
        self._fast_path = FastPath(self.partitions[0], engine.budget) if is_of_items else None
        # Strings may have to be encoded.
        dtypes = [tensor.dtype.numpy for tensor in plan.signature.feeds]
        self._dtypes = [None if dtype.hasobject else dtype for dtype in dtypes]
        self._shaped = [
            (k, tensor.dims) for k, tensor in enumerate(plan.signature.feeds) if tensor.dims is not None
        ]
        self._index_feeds = index_feeds(plan.signature.feeds)

    @property
    def runners(self) -> list[ItemRunner]:
        """Those of all programs."""
        return [runner for each in self.partitions for runner in each.runners if runner is not None]

    def run_nowait(self, feeds: Iterable[Any]) -> NowaitResult:
        """Begin a step without suspending, with feeds that need no conversion: its outputs, if it has ended.

        A step that has not ended is returned, and must be awaited. None: the plan does not allow this, or its first program
        does not exist yet; nothing was run.

        Raises:
            OpError: of the node that failed.
        """
        inputs = list(feeds)
        place = 0  # a counter, since a strict `zip` takes longer than all iterations together
        for value in inputs:
            if type(value) is not np.ndarray or value.dtype is not self._dtypes[place]:
                return None
            place += 1  # noqa: SIM113
        return self.run_converted(inputs)

    def run_converted(self, inputs: list[Any]) -> NowaitResult:
        """As `run_nowait`, with feeds of the right dtypes, strings as bytes."""
        if self.engine.budget.spent > TICK_NS:
            return self._in_turn(inputs)
        given: Sequence[Any] = inputs
        if self._index_feeds:
            own = with_own_indices(inputs, self._index_feeds)
            if own is None:
                return None
            inputs = own
        if self._whole is not None:
            outputs = self._whole.run_now(inputs)
            if outputs is not None:
                self.step_count += 1
            return outputs
        if self._shaped and not self._fits(inputs):
            return None
        if self._fast_path is not None:
            done = self._fast_path.run(inputs)
            if isinstance(done, list):
                self.step_count += 1
                return done
            begun = self._begin(done.values, DEFAULT, given, done.ran)
        else:
            begun = self._begin(self._bind_feeds(inputs), DEFAULT, given)
        outputs = begun.results_nowait()
        return begun if outputs is None else outputs

    def _in_turn(self, feeds: Sequence[Any]) -> InTurn | None:
        """A step that begins in a later tick, since this one is spent; None: the step may not be run at once."""
        return InTurn(self, feeds) if self._fits(feeds) else None

    def _fits(self, inputs: Sequence[Any]) -> bool:
        """Whether feeds fit the static shapes of their tensors; the shapes of a lone program's feeds are part of its key."""
        for place, dims in self._shaped:
            shape = inputs[place].shape
            if shape != dims and not shapes.compatible(dims, shape):
                return False
        return True

    async def step(self, feeds: Sequence[Any], settings: StepSettings = DEFAULT) -> list[Any]:
        """Run one step: values of the feeds, in the signature's order, to values of the fetches.

        Raises:
            DeadlineExceededError: the deadline passed; the step was cancelled.
            OpError: of the node that failed first.
        """
        if self.engine.budget.spent > TICK_NS:
            await self.engine.budget.wait_for_turn()
        given = feeds
        if self._index_feeds:
            feeds = await copy_index_feeds(feeds, self._index_feeds, settings.workers or self.engine.workers)
        if self._whole is None or settings.deadline is not None or settings.collector is not None:
            return await self._begin(self._bind_feeds(feeds), settings, given).finish()
        # A waiting step without a scheduler takes half the memory.
        self.step_count += 1
        step = Step(self.engine, settings)
        values, fresh = self._bind_feeds(feeds), set[int]()
        fetched = Fetched(self.plan.client, values, fresh, given)
        try:
            rest = self._whole.begin(values, fresh, step)
            if rest is not None:
                await rest
            return await fetched.collect(step)
        finally:
            step.close()

    def _bind_feeds(self, feeds: Sequence[Any]) -> list[Any]:
        """The values of the client's partition when a step begins."""
        partition = self.plan.client
        values = list(partition.values)
        place = 0
        for value in partition.feeds:
            values[value] = feeds[place]
            place += 1  # noqa: SIM113
        return values

    @property
    def can_begin_nowait(self) -> bool:
        """Whether `begin_nowait` may be called now."""
        return self.engine.budget.spent <= TICK_NS

    def begin_nowait(self, settings: StepSettings) -> Begun:
        """Begin a step without feeds."""
        return self._begin(self._bind_feeds(()), settings, ())

    def _begin(self, values: list[Any], settings: StepSettings, feeds: Sequence[Any], ran: int = 0) -> Begun:
        """Begin a step with the values of the client's partition; `ran` items of it have run, `feeds` are the caller's."""
        step = self._new_step(settings)
        fresh = {value for item in self.plan.client.items[:ran] for value in item.outputs}
        client = PartitionRun(self.partitions[0], step, values, fresh, done=ran)
        runs: list[Run] = [] if self._remote is None else [*self._remote.runs(step)]
        runs.append(client)
        runs += [PartitionRun(each, step) for each in self.partitions[1:]]
        return Begun(step, runs, Fetched(self.plan.client, values, fresh, feeds))

    def open(self, settings: StepSettings = DEFAULT) -> PartialStep:
        """Begin a step whose feeds arrive one after another; the plan's signature is a partial one."""
        step = self._new_step(settings)
        remote = () if self._remote is None else self._remote.runs(step)
        return PartialStep(self.plan, self.partitions, step, remote)

    def _new_step(self, settings: StepSettings) -> Step:
        self.step_count += 1
        if self._remote is not None:
            shared = self._remote.new_step()
            settings = StepSettings(settings.deadline, settings.workers, settings.collector, shared)
        return Step(self.engine, settings)

    async def wait_until_built(self) -> None:
        """Wait until no program is being made."""
        for runner in self.runners:
            await runner.cache.wait_until_built()


class InTurn:
    """A step that begins in a later tick of the loop, as this tick is spent; `finish` must be awaited."""

    __slots__ = ("_executor", "_feeds")

    def __init__(self, executor: Executor, feeds: Sequence[Any]) -> None:
        self._executor = executor
        self._feeds = feeds

    async def finish(self) -> list[Any]:
        """The fetches.

        Raises:
            OpError: of the node that failed first.
        """
        executor = self._executor
        await executor.engine.budget.wait_for_turn()
        begun = executor.run_nowait(self._feeds)
        if begun is None:
            return await executor.step(self._feeds)
        return begun if isinstance(begun, list) else await begun.finish()


def _is_one_program(plan: Plan) -> bool:
    """Whether a step is one program from the feeds to the fetches, each an array of its own."""
    items, client = plan.client.items, plan.client
    return (
        len(plan.partitions) == 1
        and not plan.remote
        and len(items) == 1
        and items[0].kind is Kind.PROGRAM
        and items[0].inputs == client.feeds
        and items[0].outputs == client.fetches
        and not client.fed_fetches
        and not client.fetch_references
    )
