"""A loop on which the same program always does the same, in the same order: for simulations.

Time is virtual, and what would be a thread's work is done by the loop itself, at once: calls of `run_in_executor` and
`asyncio.to_thread`, and the jobs of aioexec's own workers. Kernels take turns as the graph says, whatever each of them takes.
So the loop is held while something is planned or computed, which has no effect, for no time passes. Compiled kernels are not
for it, because the clock decides which of them get a thread: `config.aioexec.jit = "off"`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

from aioexec.testing.clock import VirtualClockLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class DeterministicLoop(VirtualClockLoop):
    """A loop in virtual time that has no threads."""

    computes_inline = True
    """What the engine asks a loop (see `devices.workers`)."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call `func` now; the future is done."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future
