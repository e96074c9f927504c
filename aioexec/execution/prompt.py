"""Steps that are one asynchronous kernel which need not wait, such as to enqueue or to dequeue: done without a step."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

from aioexec import shapes
from aioexec.execution.engine import Engine
from aioexec.graph.kernel import NOT_NOW, PromptKernel
from aioexec.planning.instruction import locate
from aioexec.planning.items import Kind
from aioexec.planning.plan import Partition, Plan


def is_prompt(plan: Plan) -> bool:
    """Whether a plan is nothing but such a kernel, with feeds before and fetches behind it."""
    partition = plan.client
    if len(plan.partitions) > 1 or plan.remote or len(partition.items) != 1:
        return False
    (item,) = partition.items
    return (
        item.kind is Kind.ASYNCHRONOUS
        and isinstance(item.instructions[0].compute, PromptKernel)
        and not item.instructions[0].dereferences
        and partition.fetches in ((), item.instructions[0].outputs)
        and not partition.fed_fetches
    )


class PromptRunner:
    """Runs the only item of such a plan.

    Constant: `_inputs`, where in the signature each fed input is, or None and the value known beforehand; `_shaped`, the feeds
    with a static shape, and that.
    """

    def __init__(self, partition: Partition, engine: Engine) -> None:
        self.device = partition.device
        self.engine = engine
        self._instruction = instruction = partition.items[0].instructions[0]
        assert isinstance(instruction.compute, PromptKernel)
        self._at_once = instruction.compute.at_once
        place = {value: k for k, value in enumerate(partition.feeds)}
        self._inputs = [(place.get(value), partition.values[value]) for value in instruction.inputs]
        feeds = [node.feed for node in partition.subgraph.feeds if node.feed is not None]
        self._shaped = [(k, feed.dims) for k, feed in enumerate(feeds) if feed.dims is not None]
        self._is_fetched = partition.fetches != ()

    def run_at_once(self, feeds: Sequence[Any]) -> list[Any] | None:
        """The fetches; None: it would have to wait, or a feed is not as it must be, and nothing was done.

        Raises:
            OpError: of the node.
        """
        for place, dims in self._shaped:
            if feeds[place].shape != dims and not shapes.compatible(dims, feeds[place].shape):
                return None
        inputs = []
        for fed, known in self._inputs:
            inputs.append(known if fed is None else feeds[fed])
        began = perf_counter_ns()
        try:
            result = self._at_once(*inputs)
        except Exception as error:
            raise locate(error, self._instruction, self.device) from error
        finally:
            self.engine.budget.charge(began, perf_counter_ns())
        if result is NOT_NOW:
            return None
        if not self._is_fetched:
            return []
        return [result] if len(self._instruction.outputs) == 1 else list(result)
