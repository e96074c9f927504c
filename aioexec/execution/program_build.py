"""The making of one program: laid out and linked on a builder thread, with its kernels compiled in between.

    state        meaning                                                     next state
    LAYING_OUT   a builder lays the item out, and requests the kernels       COMPILING, ENDED
    COMPILING    kernels are missing                                         LAYING_OUT, if some have failed; LINKING; ENDED
    LINKING      a builder links the rows with the kernels                   ENDED
    ENDED        the program was delivered, or there is none

No thread waits for compilers, so the kernels of all programs are requested as soon as these are laid out. If compiling takes
long and no step waits for the program, partial programs are made meanwhile: nodes whose kernels are missing are breaks in them.
There are few, since each has at most half as much work for reference kernels as the one before.

All methods are called on the event loop, but for those that say otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from aioexec.devices.jit.library import Demand, library
from aioexec.devices.threads.interpreter_lock import lock_release
from aioexec.devices.threads.workers import Job
from aioexec.errors import OpError, ResourceExhaustedError
from aioexec.execution.engine import Engine
from aioexec.execution.programs.program import Program
from aioexec.graph.kernels.kernel import Kernel, Spec
from aioexec.planning.layout.variant import ProgramRow, Variant
from aioexec.planning.plan import Item, Partition
from aioexec.resources.variable import Variable

Array = np.ndarray[Any, Any]
Result = TypeVar("Result")

PATIENCE = 0.25
"""Seconds without a further kernel after which a partial program is made; kernels from the cache follow each other faster."""
_NODE_NS = 3000
"""What a native row saves for each node in it: the time of a small reference kernel."""


class State(enum.Enum):
    """The state of a build; see the module."""

    LAYING_OUT = "laying out"
    COMPILING = "compiling"
    LINKING = "linking"
    ENDED = "ended"


class NoBuilderError(Exception):
    """There is no builder thread and none can be started: the program may be built later."""


class ProgramBuild:
    """The making of a program for an item with inputs of these specs.

    Constant: `_keep` is called with each partial program and with the complete one; `_end` once, with the error if there is no
    program; `ended`, set then; `_settled`, contents of variables that kernels may take packed. Changing: `state`; `runs`, how
    often reference kernels ran the item meanwhile; `_refused`, the kernels that failed; `_variant`, the complete layout;
    `_demand`, what its kernels are worth; `_left`, nanoseconds that reference kernels take in a run of the latest program;
    `_is_making_partial`, a partial program is being made; `_timer`, to make the next one.
    """

    def __init__(
        self,
        engine: Engine,
        item: Item,
        partition: Partition,
        inputs: Mapping[int, Spec],
        keep: Callable[[Program], None],
        end: Callable[[Exception | None], None],
        settled: Mapping[Variable, Array],
    ) -> None:
        self._engine = engine
        self._item = item
        self._partition = partition
        self._inputs = inputs
        self._settled = settled
        self._keep = keep
        self._end = end
        self._loop = asyncio.get_running_loop()
        self.state = State.LAYING_OUT
        self.ended = asyncio.Event()
        self.runs = 0
        self._demand: Demand | None = None
        self._refused: frozenset[Kernel] = frozenset()
        self._variant: Variant | None = None
        self._left = 0
        self._is_making_partial = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._engine.builds.add(self)
        self._lay_out()

    def note_run(self) -> None:
        """Count a run by reference kernels that the program would have made faster."""
        self.runs += 1
        lock_release.release_if_due()
        if self._demand is not None:
            self._demand.runs = self.runs
            library().reorder()

    def stop(self, error: Exception | None = None) -> None:
        """End without a program; what a builder thread or the compiler still does for it is dropped."""
        if self.state is not State.ENDED:
            self.state = State.ENDED
            self._engine.builds.discard(self)
            if self._timer is not None:
                self._timer.cancel()
            self.ended.set()
            self._end(error)

    # The complete program

    def _lay_out(self) -> None:
        self.state = State.LAYING_OUT
        self._submit(self._request, self._on_requested)

    def _request(self) -> tuple[Variant, Demand, Future[None]] | None:
        """Lay the item out and request its kernels; on the builder. None: this machine has no walker."""
        variant = self._engine.lay_out(
            self._item, self._partition, self._inputs, self._refused, self._settled
        )
        if variant is None:
            return None
        is_awaited = self._engine.jit == "eager"
        demand = Demand(gains_of(variant), is_awaited, partial(self._notify, self._on_settled), self.runs)
        compiling = library().request(variant.kernels, demand)
        if not self._engine.budget.is_bounded:  # a simulation, in which nothing may depend on threads
            compiling.result()
        return variant, demand, compiling

    def _on_requested(self, found: tuple[Variant, Demand, Future[None]] | None) -> None:
        if found is None:
            self.stop()
            return
        self.state = State.COMPILING
        self._variant, self._demand, compiling = found
        self._left = self._left or self._variant.total * _NODE_NS
        if compiling.done():
            self._on_compiled()
            return
        compiling.add_done_callback(lambda done: self._notify(self._on_compiled))
        self._on_settled()

    def _on_compiled(self) -> None:
        """Every kernel is available or has failed."""
        if self.state is not State.COMPILING:
            return
        if failed := self._missing():
            self._refused |= failed
            self._lay_out()
        else:
            self.state = State.LINKING
            self._submit(partial(self._engine.link, self._complete, self._item.device), self._on_linked)

    def _on_linked(self, program: Program) -> None:
        self._keep(program)
        self._engine.trimmer.on_built(program.variant.arena_bytes)
        self.stop()

    def _missing(self) -> frozenset[Kernel]:
        """The kernels of the complete program that are not available."""
        return frozenset(kernel for kernel in self._complete.kernels if not library().address(kernel))

    @property
    def _complete(self) -> Variant:
        """The layout of the complete program."""
        assert self._variant is not None
        return self._variant

    # Partial programs

    def _on_settled(self) -> None:
        """One more kernel is available, or has failed."""
        if self.state is State.COMPILING and self._demand is not None and not self._demand.is_awaited:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_later(PATIENCE, self._make_partial)

    def _make_partial(self) -> None:
        """Make a partial program if that is worth it."""
        if self._is_making_partial or self.state is not State.COMPILING:
            return
        assert self._demand is not None
        missing = self._missing()
        left = sum(self._demand.gains.get(kernel, 0) for kernel in missing)
        if missing and 2 * left <= self._left:
            self._is_making_partial = True
            self._left = left
            self._submit(self._lay_out_partly, self._on_partly_linked)

    def _lay_out_partly(self) -> Program | None:
        """A program of the kernels that are available; on the builder. None: there is none without the others."""
        try:
            variant = self._engine.lay_out(
                self._item, self._partition, self._inputs, _Unavailable(), self._settled
            )
        except OpError:
            return None
        if variant is None or not all(map(library().address, variant.kernels)):
            return None
        return self._engine.link(variant, self._item.device)

    def _on_partly_linked(self, program: Program | None) -> None:
        self._is_making_partial = False
        if program is not None:
            self._keep(program)
        self._make_partial()

    # Threads

    def _submit(self, call: Callable[[], Result], done: Callable[[Result], None]) -> None:
        """Queue a call for the builder; `done` is called with its result unless the build has ended."""

        def on_finished(job: Job[Result]) -> None:
            if self.state is State.ENDED:
                return
            try:
                result = job.outcome()
            except Exception as error:
                self.stop(error)
            else:
                done(result)

        try:
            self._engine.builder.submit(call, on_finished)
        except ResourceExhaustedError as error:
            self.stop(NoBuilderError(str(error)))

    def _notify(self, call: Callable[[], None]) -> None:
        """Call a method on the loop; from a compiler thread."""
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(call)


class _Unavailable:
    """The kernels that are not available; their nodes become breaks."""

    def __contains__(self, kernel: object) -> bool:
        return not library().address(cast("Kernel", kernel))


def gains_of(variant: Variant) -> dict[Kernel, int]:
    """Estimated nanoseconds that each kernel saves in a run, compared with the reference kernels of its nodes."""
    gains: Counter[Kernel] = Counter()
    for row in variant.rows:
        if isinstance(row, ProgramRow):
            for kernel in (row.kernel, row.calls):
                if kernel is not None:
                    gains[kernel] += max(len(row.parts), 1) * _NODE_NS
    return gains
