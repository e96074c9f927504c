"""A loop on which a program always runs in the same order, for simulations.

Time is virtual, and the loop itself runs the work of threads, synchronously: calls of `run_in_executor` and
`asyncio.to_thread`, and the jobs of aioexec's workers. The order of kernels depends on the graph only, not on their duration.
Planning and kernels block the loop, without effect, since no virtual time passes. Compiled kernels cannot be used, because the
clock decides which of them get a thread: set `config.aioexec.jit = "off"`.
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
    """Read by the engine (see `devices.workers`)."""

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Call `func` now; returns a finished future."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future
