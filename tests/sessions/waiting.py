"""An op that waits until a test releases it, for tests of steps that take long."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.tiers import Ops


class Waiting:
    """The op `TestWaits`: x to x, once `opened` is set. `entered` counts the calls begun, `cancelled` those cancelled."""

    def __init__(self, ops: Ops) -> None:
        self.opened = asyncio.Event()
        self.entered = 0
        self.cancelled = 0
        self.deadlines: list[float | None] = []
        self._arrival = asyncio.Event()
        ops.add(
            "TestWaits(x:T) -> (y:T) [T:type] {stateful}",
            self.compute,
            kernel=lambda context: self.compute,
            asynchronous=True,
        )

    async def compute(self, step: Any, x: Any) -> Any:
        self.entered += 1
        self.deadlines.append(step.deadline)
        self._arrival.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return x

    async def until_entered(self, count: int) -> None:
        """Wait until so many steps have reached the op."""
        while self.entered < count:
            self._arrival.clear()
            await self._arrival.wait()
