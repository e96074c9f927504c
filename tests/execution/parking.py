"""Kernels that wait until a test releases them: on the event loop, in a coroutine, on a worker."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from aioexec.graph.kernels.kernel import StepContext
from aioexec.testing import all_tasks_blocked
from tests.tiers import Ops

SIGNATURE = "(x:T) -> (y:T) [T:type] {stateful}"


class Parking:
    """Ops x -> x that wait: `Park` for a future, `Stroll` in a coroutine, `Toil` on a worker, `Plod` there without a say.

    `Stubborn` is a `Stroll` that, when it is cancelled, waits once more before it ends.

    Attributes:
        parked: what those on the loop wait for, in the order in which they came; `came` is set when one comes.
        gate: lets those on workers go on.
        on_worker: how many are on workers; `entered` is set when one comes.
    """

    def __init__(self, ops: Ops) -> None:
        self.parked: list[asyncio.Future[Any]] = []
        self.came = asyncio.Event()
        self.gate = threading.Event()
        self.entered = asyncio.Event()
        self.on_worker = 0
        self._inputs: dict[asyncio.Future[Any], Any] = {}
        self._loop = asyncio.get_running_loop()
        for name, kernel in (("Park", self._park), ("Stroll", self._stroll), ("Stubborn", self._stubborn)):
            ops.add(name + SIGNATURE, kernel, asynchronous=True)
        ops.add(
            f"Toil{SIGNATURE}", lambda step, x: step.run_in_worker(lambda: self._plod(x)), asynchronous=True
        )
        ops.add(f"Plod{SIGNATURE}", self._plod)

    @property
    def waiting(self) -> list[asyncio.Future[Any]]:
        return [future for future in self.parked if not future.done()]

    def let_go(self) -> None:
        """Let everything that waits now go on."""
        self.gate.set()
        for future in self.waiting:
            future.set_result(self._inputs[future])

    async def all_waiting(self, count: int = 1) -> None:
        """Wait until everything waits, `count` kernels among them."""
        await all_tasks_blocked()
        assert len(self.waiting) == count

    def _park(self, step: StepContext, x: Any) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self.parked.append(future)
        self._inputs[future] = x
        self.came.set()
        return future

    async def _stroll(self, step: StepContext, x: Any) -> Any:
        return await self._park(step, x)

    async def _stubborn(self, step: StepContext, x: Any) -> Any:
        try:
            return await self._park(step, x)
        except asyncio.CancelledError:
            await self._park(step, x)
            raise

    def _plod(self, x: Any) -> Any:
        self._loop.call_soon_threadsafe(self._enter)
        assert self.gate.wait(20)
        self.on_worker -= 1
        return x

    def _enter(self) -> None:
        self.on_worker += 1
        self.entered.set()


async def cancelled(task: asyncio.Task[Any]) -> bool:
    """Whether a task ends as one that was cancelled."""
    await asyncio.wait([task])
    return task.cancelled()
