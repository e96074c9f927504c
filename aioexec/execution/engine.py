"""The engine of a session: the devices and threads that its items share, and the making of programs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from typing import Any, Literal, Protocol

import numpy as np

from aioexec.devices.device import Device
from aioexec.devices.jit.library import library
from aioexec.devices.jit.walker import walker
from aioexec.devices.threads.pools import acquire_pool
from aioexec.devices.threads.sequence import Sequence
from aioexec.devices.threads.workers import Workers
from aioexec.errors import ResourceExhaustedError, UnimplementedError
from aioexec.execution.budget import budget_of
from aioexec.execution.cancellation import CancellationManager, StepCancellation
from aioexec.execution.programs.arena_limit import limit_of
from aioexec.execution.programs.arenas import Arenas, BoundedProgram
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.trimming import TrimmedProgram, Trimmer
from aioexec.graph.io.collector import collector_disabled
from aioexec.graph.kernels.kernel import Kernel, Spec
from aioexec.graph.kernels.panels import Storage
from aioexec.planning.layout.variant import Variant
from aioexec.planning.plan import Item, Partition
from aioexec.resources.memory import release_free_memory
from aioexec.resources.variable import Variable

_PLANNERS = (
    2  # planning holds the interpreter: a second thread keeps a small graph from waiting for a large one
)
_BUILDERS = 2  # as above

JitMode = Literal["off", "background", "eager"]


class Build(Protocol):
    """The making of a program (see `program_build`)."""

    def stop(self) -> None:
        """End at once, without a program."""


class Engine:
    """The devices, threads and limits with which one session executes.

    Constant: `devices` by full name, `jit`, `weights` (in what packed matrices are kept), `budget` (of the loop), `workers` for
    kernels (the pool of a step that asks for no other; not ours to close), `trimmer` of arenas, `arenas` of each device, if
    there is a bound, else `arena_limit`, `planner` for plans, `builder` for programs, `cancellation_manager` (of the session)
    and `cancellation` (of its steps). `call` runs the body of a function, with inputs and settings of the step; the session
    supplies it.

    Changing: `builds`, of the programs being made; `is_closing`, no more are begun, so that no step waits for a compiler.
    """

    def __init__(
        self,
        devices: Iterable[Device],
        jit: JitMode,
        workers: Workers,
        arena_bytes: int = 0,
        weights: Storage = "",
    ) -> None:
        self.devices = {device.name: device for device in devices}
        self.jit = jit
        self.weights = weights
        self.budget = budget_of(asyncio.get_running_loop())
        self.workers = workers
        self.arenas = {name: Arenas(arena_bytes) for name in self.devices} if arena_bytes else {}
        self.arena_limit = limit_of(asyncio.get_running_loop(), workers)
        self.trimmer = Trimmer(self._release_free_memory)
        self.planner = Sequence(acquire_pool("aioexec-planner", _PLANNERS))
        self.builder = Sequence(acquire_pool("aioexec-builder", _BUILDERS))
        self.cancellation_manager = CancellationManager()
        self.cancellation = StepCancellation(self.cancellation_manager)
        self.call: Callable[..., Awaitable[list[Any]]] = _cannot_call
        self.builds: set[Build] = set()
        self.is_closing = False

    @collector_disabled()
    def lay_out(
        self,
        item: Item,
        partition: Partition,
        inputs: Mapping[int, Spec],
        refused: Container[Kernel],
        settled: Mapping[Variable, np.ndarray[Any, Any]],
    ) -> Variant | None:
        """Lay an item out without some kernels; on the builder. None: this machine has no walker.

        `settled`: see `lay_out_item`.
        """
        # Imported in this thread, at the first build: the import reads files, and most short programs build nothing.
        from aioexec.planning.layout.packed_constants import packed_constants
        from aioexec.planning.layout.variant_builder import lay_out_item

        walk = walker()
        if walk is None:
            return None
        workers = self.devices[item.device].workers
        for pool in (workers, self.workers):
            pool.spin_with(walk.serve_released)
        return lay_out_item(
            item,
            partition.values,
            inputs,
            refused,
            workers.count,
            packed_constants(),
            settled,
            self.weights,
        )

    @collector_disabled()
    def link(self, variant: Variant, device_name: str) -> Program:
        """Make a program of a variant whose kernels are available; on the builder."""
        for constant in variant.packed:
            constant.array()  # here, since packing takes too long for the event loop
        walk = walker()
        assert walk is not None
        device = self.devices[device_name]
        arenas = self.arenas.get(device.name)
        means = variant, walk, library().address, device.name, device.workers
        if variant.arena_bytes == 0:
            return Program(*means)
        if arenas is None:
            return TrimmedProgram(*means, self.trimmer, self.arena_limit)
        return BoundedProgram(*means, self.trimmer, arenas)

    def _release_free_memory(self) -> None:
        with contextlib.suppress(ResourceExhaustedError):  # no thread: it is kept
            self.builder.submit(release_free_memory)

    def stop_building(self) -> None:
        """Stop waiting for compilers: items without a program use the reference tier from now on."""
        self.is_closing = True
        for build in list(self.builds):
            build.stop()

    async def close(self) -> None:
        self.stop_building()
        self.trimmer.stop()
        self.cancellation_manager.start_cancel()
        for calls in (self.builder, self.planner):
            calls.dismiss()  # both first, so that they end even if this task is cancelled
        for calls in (self.builder, self.planner):
            await calls.close()


async def _cannot_call(*arguments: Any) -> list[Any]:
    raise UnimplementedError("kernels can run bodies of functions in sessions only")


def spec_of(value: Any, with_content: bool) -> Spec:
    """The spec for which a program is laid out."""
    return Spec(value.dtype, value.shape, value.copy() if with_content else None)
