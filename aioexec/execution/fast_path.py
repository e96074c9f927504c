"""The fast path for steps whose items do not wait: small programs, and asynchronous kernels such as enqueue and dequeue.

`FastPath.run` calls the items one after the other, without a `Step` and without a scheduler, until one would have to wait. The
executor then begins a step whose first items have run. The event loop's thread only.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from aioexec.execution.budget import TICK_NS, TickBudget
from aioexec.execution.item_runner import ItemRunner
from aioexec.execution.partition_executor import PartitionExecutor
from aioexec.graph.kernels.kernel import WOULD_BLOCK, Compute, NonblockingKernel
from aioexec.planning.instruction import locate
from aioexec.planning.items import Kind
from aioexec.planning.plan import Item, Plan

_MOST_ITEMS = 32
"""Most items that run without a check of the clock: more could block the event loop."""


def is_eligible(plan: Plan, executor: PartitionExecutor) -> bool:
    """Whether no item of a plan has to wait, and each fetch is an array of its own that one of them makes."""
    partition = plan.client
    if len(plan.partitions) > 1 or plan.remote:
        return False
    made = {value for item in partition.items for value in item.outputs}
    return (
        0 < len(partition.items) <= _MOST_ITEMS
        and all(executor.runners[item.index] is not None or _is_nonblocking(item) for item in partition.items)
        and not partition.fed_fetches
        and len(set(partition.fetches)) == len(partition.fetches)
        and made.issuperset(partition.fetches)
    )


def _is_nonblocking(item: Item) -> bool:
    (instruction,) = item.instructions
    return isinstance(instruction.compute, NonblockingKernel) and not instruction.dereferences


class Reached(NamedTuple):
    """A step that stopped before an item that has to wait: the values so far, and how many items have run."""

    values: list[Any]
    ran: int


class FastPath:
    """Runs the items of an eligible plan.

    Constant: `_items` in a valid order of execution: the call, its input values, its output value (-1 unless there is exactly
    one), and its output values; `_values`, those at the begin of a step.
    """

    def __init__(self, executor: PartitionExecutor, budget: TickBudget) -> None:
        self._budget = budget
        self._partition = executor.partition
        self._values = list(self._partition.values)
        self._items: list[tuple[Compute, tuple[int, ...], int, tuple[int, ...]]] = []
        for item, runner in zip(self._partition.items, executor.runners, strict=True):
            if runner is not None:
                inputs, outputs = item.inputs, item.outputs
                call = _program(runner, len(outputs) == 1, budget)
            else:
                (instruction,) = item.instructions
                assert isinstance(instruction.compute, NonblockingKernel)
                call, inputs, outputs = instruction.compute.at_once, instruction.inputs, instruction.outputs
            self._items.append((call, inputs, outputs[0] if len(outputs) == 1 else -1, outputs))

    def run(self, feeds: Sequence[Any]) -> list[Any] | Reached:
        """Run items until one has to wait: the fetches, if all have run.

        Raises:
            OpError: of the node that failed.
        """
        values = self._values.copy()
        place = 0  # a counter, since `enumerate` takes longer
        for value in self._partition.feeds:
            values[value] = feeds[place]
            place += 1  # noqa: SIM113
        value_of = values.__getitem__
        began = perf_counter_ns()
        ran = 0
        try:
            for call, inputs, only, outputs in self._items:
                result = call(*map(value_of, inputs))
                if result is WOULD_BLOCK:
                    return Reached(values, ran)
                if only >= 0:
                    values[only] = result
                elif outputs:
                    for value, output in zip(outputs, result, strict=True):
                        values[value] = output
                ran += 1
        except Exception as error:
            item = self._partition.items[ran]
            if item.kind is Kind.PROGRAM:
                raise
            raise locate(error, item.instructions[0], self._partition.device) from error
        finally:
            self._budget.charge(began, perf_counter_ns())
        return list(map(value_of, self._partition.fetches))


def _program(runner: ItemRunner, is_one: bool, budget: TickBudget) -> Compute:
    """A program as a nonblocking kernel: it runs if it can be walked on the loop and the tick is not spent."""

    def at_once(*inputs: Any) -> Any:
        for value in inputs:
            if not isinstance(value, np.ndarray):
                return WOULD_BLOCK
        outputs = None if budget.spent > TICK_NS else runner.run_inline(inputs)
        if outputs is None:
            return WOULD_BLOCK
        return outputs[0] if is_one else outputs

    return at_once
