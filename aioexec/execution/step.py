"""A step: one execution of a plan, the state that its partitions share, and how it ends.

The first error ends a step. From then on no kernel begins, waiting ones are cancelled, and the step is over when every kernel
has reported. The event loop's thread only.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from aioexec.data_classes import dataclass
from aioexec.devices.threads.workers import Workers
from aioexec.errors import AbortedError, CancelledError, OpError
from aioexec.execution.cancellation import CancellationManager
from aioexec.execution.engine import Engine
from aioexec.execution.rendezvous import IntraProcessRendezvous

if TYPE_CHECKING:
    from aioexec.graph.kernels.kernel import FunctionBody
    from aioexec.observability.step_stats import StepStatsCollector

Result = TypeVar("Result")
_step_ids = itertools.count(1)


class SharedStep:
    """The shared state of a step that has parts in several processes.

    Attributes:
        step_id: the same in all parts.
        rendezvous: that of this process; it outlives the step, since other parts may still receive values.
    """

    __slots__ = ("rendezvous", "step_id")

    def __init__(self, step_id: int, rendezvous: IntraProcessRendezvous) -> None:
        self.step_id = step_id
        self.rendezvous = rendezvous

    def close(self) -> None:
        """End the part of the step in this process; the caller that runs the other parts ends those."""

    def holds_back(self, step: Step, error: BaseException) -> bool:
        """Whether an error does not end the step yet, since it is derived from another error, which is expected."""
        return False


@dataclass(frozen=True, slots=True)
class StepSettings:
    """The settings of one step.

    Attributes:
        deadline: the time at which it fails, on the loop's clock.
        workers: the pool for its heavy kernels, by default the session's.
        collector: records the execution of its nodes.
        shared: the shared state, if it has parts in other processes.
    """

    deadline: float | None = None
    workers: Workers | None = None
    collector: StepStatsCollector | None = None
    shared: SharedStep | None = None


DEFAULT = StepSettings()


class Step:
    """One execution of a plan; kernels see the part of it in `StepContext`.

    Constant: `step_id` (unique in the process), `deadline`, `workers`, `collector`, `shared`. Changing: `error`, the one that
    ended it; `stops`, functions that stop the partitions; `_deferred`, callbacks of partitions for which a value has arrived
    while others begin, else None; `is_working`, while a partition runs its ready items; `_rendezvous`, None until something is
    sent or received; `_has_container` and `_is_watched`, whether a kernel has used the container or the cancellation manager.
    """

    __slots__ = (
        "_deferred",
        "_has_container",
        "_is_watched",
        "_rendezvous",
        "collector",
        "deadline",
        "engine",
        "error",
        "is_working",
        "shared",
        "step_id",
        "stops",
        "workers",
    )

    def __init__(self, engine: Engine, settings: StepSettings = DEFAULT) -> None:
        self.engine = engine
        shared = self.shared = settings.shared
        self.step_id = next(_step_ids) if shared is None else shared.step_id
        self._rendezvous = None if shared is None else shared.rendezvous
        self.deadline = settings.deadline
        self.workers = settings.workers or engine.workers
        self.collector = settings.collector
        self.error: BaseException | None = None
        self.stops: list[Callable[[], object]] = []
        self._deferred: list[Callable[[], None]] | None = None
        self.is_working = False
        self._has_container = False
        self._is_watched = False

    @property
    def rendezvous(self) -> IntraProcessRendezvous:
        """The rendezvous through which its partitions exchange values."""
        rendezvous = self._rendezvous
        if rendezvous is None:
            rendezvous = self._rendezvous = IntraProcessRendezvous()
            if self.error is not None:
                rendezvous.start_abort(_error_for_receivers(self.error))
        return rendezvous

    @property
    def container(self) -> str:
        self._has_container = True
        return f"__per_step_{self.step_id}"

    @property
    def cancellation_manager(self) -> CancellationManager:
        """The manager whose callbacks run when the step fails or is cancelled, or the session closes."""
        self._is_watched = True
        return self.engine.cancellation.find_or_create(self.step_id)

    async def run_in_worker(self, call: Callable[[], Result]) -> Result:
        """Make a call on a worker, in a copy of the caller's context variables.

        The call is queued when the coroutine first runs: one that is cancelled before has no call that is not awaited.
        """
        context = contextvars.copy_context()
        return await self.workers.submit(partial(context.run, call)).result()

    def call(self, body: FunctionBody, inputs: Sequence[Any]) -> Awaitable[Sequence[Any]]:
        """Run the body of a function as a step of its own, which is cancelled with the awaiting task."""
        return self.engine.call(body, inputs, StepSettings(workers=self.workers))

    def start_deferring(self) -> None:
        """Collect the callbacks of partitions for which values arrive, until `run_deferred`."""
        self._deferred = []

    def run_deferred(self) -> None:
        """Run the callbacks collected, in order, and those that they add."""
        deferred = self._deferred
        while deferred:
            deferred.pop(0)()
        self._deferred = None

    @property
    def is_busy(self) -> bool:
        """Whether partitions begin or run at this moment, so that another one has to be deferred."""
        return self._deferred is not None or self.is_working

    def defer(self, advance: Callable[[], None]) -> None:
        """Have a partition continue once those that begin or run at this moment have returned."""
        if self._deferred is not None:
            self._deferred.append(advance)
        else:
            asyncio.get_running_loop().call_soon(advance)

    def fail(self, error: BaseException) -> None:
        """End the step; only the first error counts."""
        if self.error is not None or (self.shared is not None and self.shared.holds_back(self, error)):
            return
        self.error = error
        if self._rendezvous is not None:
            self._rendezvous.start_abort(_error_for_receivers(error))
        for stop in self.stops:
            stop()
        if self._is_watched:
            self.cancellation_manager.start_cancel()

    def close(self) -> None:
        """Release the step's resources."""
        self.stops.clear()  # breaks reference cycles, which only the garbage collector would find
        if self.shared is not None:
            self.shared.close()
        elif self._rendezvous is not None:
            self._rendezvous.close()
        if self._is_watched:
            self.engine.cancellation.forget(self.step_id)
        if self._has_container:
            for device in self.engine.devices.values():
                device.resources.cleanup(self.container)


def _error_for_receivers(error: BaseException) -> OpError:
    if isinstance(error, OpError):
        return error
    if isinstance(error, Exception):
        return AbortedError(f"the step failed: {error!r}")
    return CancelledError("the step was cancelled")
