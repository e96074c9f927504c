"""Who walks a run that is not over at once: a worker, or, if it is a short one that is shared, the loop with the workers' help.

To hand a run to a worker and hear of its end takes 100 to 200 µs where processors without work fall asleep, and the loop's own
has no work meanwhile. So a run of some milliseconds whose rows are shared begins on the loop: it calls the workers and does
strands like them, in slices that are charged to the tick, and between two slices everything else in the loop has its turn. It
sees the end at once. A run that nobody shares does so too, if it is not much longer than the two hops.

It helps one run at a time, and only if no job waits for a worker: where many steps are under way the loop is there for all of
them. A short run is an exception: many of those are done sooner by the loop, each with the workers' help. What takes longer
than it should, was cancelled or has failed goes on in a worker, where one can wait; and so does any if everything else takes
long between two slices: then the loop has other work.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from time import perf_counter_ns

from aioexec.devices.jit.walker import INLINE_FUEL, Outcome
from aioexec.devices.workers import Workers
from aioexec.errors import OpError
from aioexec.execution.budget import TICK_NS, TickBudget
from aioexec.execution.program import Program, Run

_SLICE_NS = 250_000
"""What the loop does of a run between two looks at its other callbacks: half of what a tick may hold.

The strand that is begun by then is ended.
"""
_WHOLE_NS = 400_000
"""A run that should take no longer is done in one slice, as long as a tick: to come again takes 20 to 70 µs."""
_LONGEST_NS = 5_000_000
"""What a run may take that the loop helps with: of longer ones two hops are a small part."""
_OTHERS_NS = 200_000
"""What everything else may take between two slices: some 30 µs are the loop's own."""
_SHORT_NS = 200_000
"""What the loop does in any case: to hand it over takes as long, and holds the loop for most of that."""
_LONGEST_ALONE_NS = 300_000
"""The same of one that nobody shares."""


def may_help(program: Program, workers: Workers, budget: TickBudget) -> bool:
    """Whether the loop may help with a run that begins now."""
    return (
        program.is_for_loops
        and program.cost <= (_LONGEST_NS if program.forks else _LONGEST_ALONE_NS)
        and (program.cost <= _SHORT_NS or not (budget.helps or workers.are_wanted))
        and budget.is_bounded
    )


async def walked(run: Run, workers: Workers, budget: TickBudget) -> tuple[int, int]:
    """Walk to the end: how it ended, and how long it took."""
    if run.trace is not None or not may_help(run.program, workers, budget):
        return await walked_by_workers(run, None, workers)
    outcome, spent = begun(run, budget)
    if outcome == Outcome.PAUSED:
        return await ended(run, spent, workers, budget)
    return outcome, spent


def begun(run: Run, budget: TickBudget) -> tuple[int, int]:
    """Begin a run the loop may help with: how the first slice ended, and how long it took; PAUSED: `ended` must follow."""
    budget.helps += 1
    run.frame.words[INLINE_FUEL] = _slice_of(run.program)
    outcome = None
    try:
        outcome, spent = _slice(run, None, budget)
    finally:
        if outcome != Outcome.PAUSED:
            _leave(run, budget)
    return outcome, spent


async def ended(run: Run, spent: int, workers: Workers, budget: TickBudget) -> tuple[int, int]:
    """Go on with a run that has begun, in slices; what takes too long, or is to be waited for, ends in a worker."""
    outcome = Outcome.PAUSED
    try:
        while (
            outcome == Outcome.PAUSED
            and spent <= _LONGEST_NS
            and not (run.fork is not None and run.fork.is_stopped)
        ):
            left = perf_counter_ns()
            await asyncio.sleep(0)
            if perf_counter_ns() - left > _OTHERS_NS:
                break
            outcome, more = _slice(run, outcome, budget)
            spent += more
    except asyncio.CancelledError:
        if run.fork is not None:  # others may be in it
            run.cancel()
            with contextlib.suppress(OpError):
                await walked_by_workers(run, Outcome.PAUSED, workers)
        raise
    except GeneratorExit:  # the loop is no more
        _abandon(run)
        raise
    finally:
        _leave(run, budget)
    if outcome == Outcome.PAUSED:
        outcome, more = await walked_by_workers(run, outcome, workers)
        spent += more
    return outcome, spent


def _slice_of(program: Program) -> int:
    """Nanoseconds the loop may take at a time."""
    return TICK_NS if program.cost <= _WHOLE_NS else _SLICE_NS


def _slice(run: Run, outcome: int | None, budget: TickBudget) -> tuple[int, int]:
    """Start (None) or go on for a slice: how that ended, and how long it took."""
    began = perf_counter_ns()
    try:
        outcome = run.helped(outcome, began + _slice_of(run.program))
    except BaseException:  # others may be in it
        _abandon(run)
        raise
    finally:
        ended = perf_counter_ns()
        budget.charge(began, ended)
    return outcome, ended - began


def _abandon(run: Run) -> None:
    """Cancel a fork that is being done, and wait in this very thread until nobody is in it."""
    if run.fork is not None:
        run.cancel()
        run.fork.host()


def _leave(run: Run, budget: TickBudget) -> None:
    budget.helps -= 1
    run.frame.words[INLINE_FUEL] = run.program.fuel


async def walked_by_workers(run: Run, outcome: int | None, workers: Workers) -> tuple[int, int]:
    """Start (None) or go on in workers. Where jobs wait, it stands in line again now and then.

    Raises:
        OpError: a node failed.
        ResourceExhaustedError: there is no worker and none can be started; nobody is in the run any more.
    """

    def walk(outcome: int | None) -> tuple[int, int]:
        began = perf_counter_ns()
        return run.released(outcome, workers), perf_counter_ns() - began

    spent = 0
    while True:
        try:
            job = workers.submit(partial(walk, outcome))
        except OpError:  # there is no worker, and others may be in it
            _abandon(run)
            raise
        outcome, more = await job.result(run.cancel)
        spent += more
        if outcome != Outcome.PAUSED:
            return outcome, spent
