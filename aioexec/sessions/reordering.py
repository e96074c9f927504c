"""An executor for a signature that asks for what another one asks for, in another order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aioexec.execution.executor import Executor
from aioexec.execution.step import StepSettings
from aioexec.planning.subgraph import Signature


class Reordered:
    """Takes feeds and gives results in the order of a signature, running the plan of another."""

    __slots__ = ("_feeds", "_fetches", "executor")

    def __init__(self, executor: Executor, signature: Signature) -> None:
        planned = executor.plan.signature
        self.executor = executor
        self._feeds = [signature.feeds.index(tensor) for tensor in planned.feeds]
        self._fetches = [planned.fetches.index(tensor) for tensor in signature.fetches]

    def run_at_once(self, feeds: Iterable[Any]) -> None:
        """Never: who asks in two orders awaits the second."""

    async def step(self, feeds: Sequence[Any], settings: StepSettings) -> list[Any]:
        outputs = await self.executor.step([feeds[k] for k in self._feeds], settings)
        return [outputs[k] for k in self._fetches]
