"""An executor for a signature with the same elements as another one, in another order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aioexec.execution.executor import Executor
from aioexec.execution.step import StepSettings
from aioexec.planning.subgraph import Signature


class Reordered:
    """Takes feeds and returns results in the order of one signature, and runs the plan of another, with its `executor`.

    `_feeds` and `_fetches` are, for each feed of the plan and each fetch of the signature, its position in the other.
    """

    __slots__ = ("_feeds", "_fetches", "executor")

    def __init__(self, executor: Executor, signature: Signature) -> None:
        planned = executor.plan.signature
        self.executor = executor
        self._feeds = [signature.feeds.index(tensor) for tensor in planned.feeds]
        self._fetches = [planned.fetches.index(tensor) for tensor in signature.fetches]

    def run_nowait(self, feeds: Iterable[Any]) -> None:
        """Return None: steps of a reordered signature are always awaited."""

    async def step(self, feeds: Sequence[Any], settings: StepSettings) -> list[Any]:
        outputs = await self.executor.step([feeds[k] for k in self._feeds], settings)
        return [outputs[k] for k in self._fetches]
