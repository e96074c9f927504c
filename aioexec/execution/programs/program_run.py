"""One run of a program: a state machine that decides where it is walked, on the event loop or on a worker.

    state       meaning                                                next state
    IDLE        bound to its arrays, not begun                         ON_LOOP, ON_WORKER, CANCELLED; by `walk_to_end`
                                                                       DONE, FAILED
    ON_LOOP     the loop walks it, or will again after other           ON_LOOP, ON_WORKER, DONE, FAILED, CANCELLED
                callbacks
    ON_WORKER   a worker walks it, or will when its job is taken       ON_WORKER, DONE, FAILED, CANCELLED
    DONE, FAILED, CANCELLED   no thread is in it; the frame, the pins and the leases are given back

While a thread walks, it may wait for the tasks of a parallel region (`region` of the walk is set) or run a loop or conditional
in Python (`inner` is set); a run that is paused in either of them continues there.

A program that is cheap by its measured cost is walked on the loop to its end. One whose duration depends on data begins there
and moves to a worker when `Program.inline_limit_ns` is over. To submit a run to a worker and to be notified of its end takes
100 to 200 µs where idle processors sleep, and the loop's own processor has no work meanwhile. So a run of a few milliseconds
with parallel regions begins on the loop as well: the loop runs tasks as the workers do, in slices that are charged to the
tick, with all other callbacks between two slices. It does this for one run at a time, and only while no job waits for a
worker; a run shorter than the two hops is an exception. A run that takes longer than expected, was cancelled or failed ends on
a worker, where a thread can wait; so does any run if the other callbacks need the loop.

All methods are called on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from aioexec.devices.jit.walker import INLINE_FUEL, PC, Outcome
from aioexec.devices.threads.workers import Workers
from aioexec.errors import OpError
from aioexec.execution.budget import TICK_NS, TickBudget
from aioexec.execution.programs.arena_limit import NoRoomError
from aioexec.execution.programs.leases import any_leased, lease, release, take
from aioexec.execution.programs.run_memory import Array
from aioexec.execution.programs.walk import Walk

if TYPE_CHECKING:
    from aioexec.execution.programs.program import Program
    from aioexec.observability.step_stats import StepStatsCollector

_SLICE_NS = 250_000
"""The slice of a run that the loop walks before its other callbacks run: half of a tick. A task that has begun is completed."""
_WHOLE_NS = 400_000
"""A run that is expected to take no longer is walked in one slice, as long as a tick: another slice costs 20 to 70 µs."""
_LONGEST_NS = 5_000_000
"""The longest run that the loop helps with: in longer ones two hops between threads are a small part."""
_OTHERS_NS = 200_000
"""The most time that all other callbacks may take between two slices: some 30 µs are overhead of the loop."""
_SHORT_NS = 200_000
"""A run this short is always walked by the loop: the hand-over takes as long, and occupies the loop for most of that."""
_LONGEST_ALONE_NS = 300_000
"""The longest run without parallel regions that the loop walks in slices."""


class State(enum.Enum):
    """The state of a run; see the module."""

    IDLE = "idle"
    ON_LOOP = "on the loop"
    ON_WORKER = "on a worker"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


# An enum's attribute costs as much as a dictionary.
IDLE, ON_LOOP, ON_WORKER, DONE = State.IDLE, State.ON_LOOP, State.ON_WORKER, State.DONE
_FINAL = frozenset({State.DONE, State.FAILED, State.CANCELLED})


class ProgramRun(Walk):
    """One run of a program, begun by `run_now` or `run_in_turn`.

    Constant once it has begun: `_budget`, the loop's; `_pool`, the workers to which it may move; `_collector`, which records
    the execution of its nodes. Changing: `state`; `_spent`, nanoseconds it was walked; `_is_helped`, whether the loop walks it
    in slices; `_holds`, whether it has pinned its variables and holds their leases, since it outlives the callback that made
    it; `_is_awaited`, whether `finish` was called. A run by `walk_to_end` ends in the same callback: it has only a `state`.
    """

    __slots__ = ("_budget", "_collector", "_holds", "_is_awaited", "_is_helped", "_pool", "_spent", "state")

    def begin(
        self, budget: TickBudget, workers: Workers, collector: StepStatsCollector | None, leased: bool
    ) -> None:
        """Walk on the loop as far as permitted; unless the run is done then, `finish` must be awaited.

        Args:
            leased: the run has the leases of the variables it writes.

        Raises:
            OpError: a node failed.
        """
        self._budget = budget
        self._pool = workers
        self._collector = collector
        self._spent = 0
        self._is_helped = self._is_awaited = self._holds = False
        self.state = IDLE
        if leased:
            self._hold()
        program = self.program
        self.frame.words[PC] = 0  # of the frame's last run
        if program.inline:
            self._walk_slice(None, program.inline_limit_ns)
        elif self.trace is None and may_help(program, self._pool, self._budget):
            self._is_helped = True
            self._budget.helps += 1
            self.frame.words[INLINE_FUEL] = longest = _slice_of(program)
            self._walk_slice(None, longest)
        if self.state is not DONE and not self._holds:
            take(program.variant.item.writes)
            self._hold()
            if program.inline:
                program.move_to_worker(self.frame)

    async def finish(self) -> list[Array]:
        """Walk to the end: the outputs.

        Raises:
            OpError: a node failed.
        """
        self._is_awaited = True
        try:
            if self._is_helped:
                await self._walk_in_slices()
            if self.state not in _FINAL:
                await self._walk_on_worker()
        except BaseException as error:
            if self.state not in _FINAL:
                self._end(Outcome.CANCELLED if isinstance(error, asyncio.CancelledError) else None)
            raise
        return self.outputs

    def close(self, _: object = None) -> None:
        """End a run that is not awaited and never will be; when this returns, no thread is in it."""
        if not self._is_awaited and self.state not in _FINAL:
            self._leave_region()
            self._end(Outcome.CANCELLED)

    # On the loop

    def walk_to_end(self, budget: TickBudget, collector: StepStatsCollector | None) -> None:
        """Walk all of it in this callback of the loop, in place of `begin`.

        A run that is measured to be cheap is not stopped because its estimate was too high.

        Raises:
            OpError: a node failed.
        """
        state = State.FAILED
        began = perf_counter_ns()
        walker = self.walker
        try:
            outcome = self.start(walker.start_inline)
            if outcome != Outcome.DONE:
                outcome = self.walk(outcome, walker.resume_inline)
                while outcome == Outcome.PAUSED:
                    outcome = self.walk(walker.resume_inline(self.frame.words), walker.resume_inline)
                assert outcome == Outcome.DONE  # it cannot be cancelled
            state = DONE
        finally:
            self.state = state
            ended = perf_counter_ns()
            budget.charge(began, ended)
            self.give_back(state is DONE, collector)
        self.program.record_duration(ended - began)

    def _walk_slice(self, outcome: int | None, longest: int) -> None:
        """Begin (None) or continue, for so many nanoseconds."""
        self.state = ON_LOOP
        began = perf_counter_ns()
        try:
            outcome = self.walk_inline(outcome, began + longest)
        except BaseException:
            outcome = None
            self._leave_region()
            raise
        finally:
            ended = perf_counter_ns()
            self._budget.charge(began, ended)
            self._spent += ended - began
            if outcome != Outcome.PAUSED:
                self._end(outcome)

    async def _walk_in_slices(self) -> None:
        """Continue in slices, until the run is done or should end on a worker."""
        longest = _slice_of(self.program)
        try:
            while (
                self.state is ON_LOOP
                and self._spent <= _LONGEST_NS
                and not (self.region is not None and self.region.is_stopped)
            ):
                left = perf_counter_ns()
                await asyncio.sleep(0)
                if perf_counter_ns() - left > _OTHERS_NS:
                    break
                self._walk_slice(Outcome.PAUSED, longest)
        except asyncio.CancelledError:
            if self.region is not None:  # other threads may be in it
                self.cancel()
                with contextlib.suppress(OpError):
                    await self._walk_on_worker()
            raise
        except GeneratorExit:  # the loop is closed
            self._leave_region()
            raise
        finally:
            self._stop_helping()

    def _leave_region(self) -> None:
        """Cancel a parallel region that has begun, and block the calling thread until no other thread is in it."""
        if self.region is not None:
            self.cancel()
            self.region.execute()

    def _stop_helping(self) -> None:
        if self._is_helped:
            self._is_helped = False
            self._budget.helps -= 1
            self.frame.words[INLINE_FUEL] = self.program.fuel

    # On a worker

    async def _walk_on_worker(self) -> None:
        """Begin or continue on workers. If other jobs wait, the run is queued again after each slice.

        Raises:
            OpError: a node failed.
            ResourceExhaustedError: there is no worker and none can be started; no thread is in the run any more.
        """
        outcome = None if self.state is IDLE else Outcome.PAUSED
        self.state = ON_WORKER
        while True:
            try:
                job = self._pool.submit(partial(self._walk_and_time, outcome))
            except OpError:
                self._leave_region()
                raise
            outcome, more = await job.result(self.cancel)
            self._spent += more
            if outcome != Outcome.PAUSED:
                break
        self._end(outcome)

    def _walk_and_time(self, outcome: int | None) -> tuple[int, int]:
        """Walk on a worker: the outcome, and the nanoseconds it took."""
        began = perf_counter_ns()
        return self.walk_released(outcome, self._pool), perf_counter_ns() - began

    # The end

    def _hold(self) -> None:
        """Pin the variables, since the run outlives this callback; it has the leases of those that it writes."""
        self._holds = True
        self.pin(1)

    def _end(self, outcome: int | None) -> None:
        """Release everything the run holds; None: it failed, or was cancelled before it was walked."""
        if self._is_helped:
            self._stop_helping()
        if outcome == Outcome.DONE:
            self.state = DONE
            self.program.record_duration(self._spent)
        else:
            self.state = State.CANCELLED if outcome == Outcome.CANCELLED else State.FAILED
        if self._holds:
            self._holds = False
            self.pin(-1)
            self.give_back(self.state is DONE, self._collector)
            release(self.program.variant.item.writes)
        else:
            self.give_back(self.state is DONE, self._collector)


def run_now(
    program: Program,
    inputs: Sequence[Array],
    objects: Mapping[int, Any],
    budget: TickBudget,
    workers: Workers,
    collector: StepStatsCollector | None = None,
) -> ProgramRun | None:
    """Make and begin a run; None: it must wait for a lease or an arena, and nothing was run.

    Raises:
        OpError: a node failed, or a variable is not initialised.
        GuardError: a variable has another shape than was declared.
    """
    if any_leased(program.variant.item.writes) or (program.may_move and not program.has_room):
        return None
    in_place = program.inline and not program.may_move
    try:
        # By position: keywords would take a tenth of a short step.
        run = ProgramRun(program, inputs, in_place, collector is not None, None, not program.inline)
    except NoRoomError:
        return None
    if objects:
        run.objects.update(objects)
    if in_place:
        run.walk_to_end(budget, collector)
    else:
        run.begin(budget, workers, collector, False)
    return run


async def run_in_turn(
    program: Program,
    inputs: Sequence[Array],
    objects: Mapping[int, Any],
    budget: TickBudget,
    workers: Workers,
    collector: StepStatsCollector | None = None,
) -> ProgramRun:
    """Make and begin a run once the leases and the arena that it needs are free.

    Raises:
        OpError: a node failed, or a variable is not initialised.
        GuardError: a variable has another shape than was declared.
    """
    writes = program.variant.item.writes
    await lease(writes)
    try:
        frame = await program.lease_in_turn()
        try:
            run = ProgramRun(program, inputs, in_place=False, traced=collector is not None, frame=frame)
        except BaseException:
            program.release(frame)
            raise
    except BaseException:
        release(writes)
        raise
    run.objects.update(objects)
    run.begin(budget, workers, collector, True)
    return run


def may_help(program: Program, workers: Workers, budget: TickBudget) -> bool:
    """Whether the loop may walk slices of a run that begins now."""
    return (
        program.is_for_loops
        and program.cost <= (_LONGEST_NS if program.parallel_regions else _LONGEST_ALONE_NS)
        and (program.cost <= _SHORT_NS or not (budget.helps or workers.are_wanted))
        and budget.is_bounded
    )


def _slice_of(program: Program) -> int:
    """Nanoseconds the loop may walk at a time."""
    return TICK_NS if program.cost <= _WHOLE_NS else _SLICE_NS
