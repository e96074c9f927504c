"""The executor of a plan: its items in order, over the values of one step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from aioexec.execution.budget import TICK_NS
from aioexec.execution.engine import Engine
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.reference import HEAVY_BYTES
from aioexec.planning.plan import Plan
from aioexec.resources.variable import Variable


class Executor:
    """Runs steps of one plan; any number at once. Holds what outlives a step: the item runners with their programs."""

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self.plan = plan
        self.engine = engine
        self.runners = [ItemRunner(item, plan, engine) for item in plan.items]
        self._whole = self.runners[0] if _is_one_item(plan) else None
        self._dtypes = [tensor.dtype.numpy for tensor in plan.signature.feeds]

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

    async def step(self, feeds: Sequence[Any]) -> list[Any]:
        """Run one step: values of the feeds, in the signature's order, to values of the fetches.

        Raises:
            OpError: of the node that failed first.
        """
        if self.engine.budget.spent > TICK_NS:
            await self.engine.budget.turn()
        plan = self.plan
        values = list(plan.values)
        for value, fed in zip(plan.feeds, feeds, strict=True):
            values[value] = fed
        fresh: set[int] = set()
        for runner in self.runners:
            await runner.run(values, fresh)
        return await self._fetched(values, fresh, feeds)

    async def _fetched(self, values: Sequence[Any], fresh: set[int], feeds: Sequence[Any]) -> list[Any]:
        """The caller's own arrays: what nobody else holds goes out as it is, once; all else is copied, on a worker if large."""
        results: list[Any] = []
        large: list[int] = []
        for position, value in enumerate(self.plan.fetches):
            held = values[value]
            if position in self.plan.fed_fetches:
                held = feeds[self.plan.fed_fetches[position]]
            elif value in fresh:
                fresh.remove(value)
            elif _bytes(held) > HEAVY_BYTES:
                held = held.read() if isinstance(held, Variable) else held
                large.append(position)
            else:
                held = _copied(held)
            results.append(held)
        if large:

            def copy() -> None:
                for position in large:
                    results[position] = _copied(results[position])

            await self.engine.workers.submit(copy).result()
        return results

    async def built(self) -> None:
        """Wait until no program is being made."""
        for runner in self.runners:
            await runner.built()


def _is_one_item(plan: Plan) -> bool:
    """Whether a step is: bind the feeds, run the item, hand out its outputs."""
    return (
        len(plan.items) == 1
        and plan.items[0].inputs == plan.feeds
        and plan.items[0].outputs == plan.fetches
        and not plan.fed_fetches
        and not plan.fetch_references
    )


def _bytes(value: Any) -> int:
    content = value.buffer if isinstance(value, Variable) else value
    return content.nbytes if isinstance(content, np.ndarray) else 0


def _copied(value: Any) -> Any:
    if isinstance(value, Variable):
        value = value.require()
    return np.array(value, copy=True) if isinstance(value, np.ndarray) else value
