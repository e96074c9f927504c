"""Who walks a run that is not over at once: a worker, or, if it is a short one that is shared, the loop with the workers' help.

To hand a run to a worker and hear of its end takes 100 to 200 µs where processors without work fall asleep, and the loop's own
has no work meanwhile. So a run of about a millisecond whose rows are shared begins on the loop: it calls the workers and does
strands like them, in slices that are charged to the tick, and between two slices everything else in the loop has its turn. It
sees the end at once. A run that nobody shares does so too, if it is not much longer than the two hops.

It helps one run at a time, and only if no job waits for a worker: where many steps are under way the loop is there for all of
them. What takes longer than it should, was cancelled or has failed goes on in a worker, where one can wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from time import perf_counter_ns

from aioexec.devices.jit.walker import INLINE_FUEL, Outcome
from aioexec.devices.workers import Workers, computes_inline
from aioexec.errors import OpError
from aioexec.execution.budget import TickBudget
from aioexec.execution.program import Run

_SLICE_NS = 250_000
"""What the loop does of a run between two looks at its other callbacks: half of what a tick may hold.

The strand that is begun by then is ended.
"""
_LONGEST_NS = 2_000_000
"""What a run may take that the loop helps with: of longer ones two hops are a small part."""
_LONGEST_ALONE_NS = 300_000
"""The same of one that nobody shares."""


async def walked(run: Run, workers: Workers, budget: TickBudget) -> tuple[int, int]:
    """Walk to the end: how it ended, and how long it took."""
    if not _may_help(run, workers, budget):
        return await walked_by_workers(run, None, workers)
    budget.helps = True
    run.frame.words[INLINE_FUEL] = _SLICE_NS
    try:
        outcome, spent = await _helped(run, budget)
    except BaseException as error:
        if run.fork is not None:  # others may be in it
            run.cancel()
            if isinstance(error, asyncio.CancelledError):
                with contextlib.suppress(OpError):
                    await walked_by_workers(run, Outcome.PAUSED, workers)
        raise
    finally:
        budget.helps = False
        run.frame.words[INLINE_FUEL] = run.program.fuel
    if outcome == Outcome.PAUSED:
        outcome, more = await walked_by_workers(run, outcome, workers)
        spent += more
    return outcome, spent


def _may_help(run: Run, workers: Workers, budget: TickBudget) -> bool:
    program = run.program
    return (
        program.is_for_loops
        and program.cost <= (_LONGEST_NS if program.forks else _LONGEST_ALONE_NS)
        and not budget.helps
        and not workers.are_wanted
        and run.trace is None
        and not computes_inline(asyncio.get_running_loop())
    )


async def _helped(run: Run, budget: TickBudget) -> tuple[int, int]:
    """Walk on the loop, in slices; PAUSED: a worker must go on."""
    outcome: int | None = None
    spent = 0
    while True:
        began = perf_counter_ns()
        try:
            outcome = run.helped(outcome, began + _SLICE_NS)
        finally:
            ended = perf_counter_ns()
            budget.charge(began, ended)
            spent += ended - began
        if outcome != Outcome.PAUSED or spent > _LONGEST_NS or (run.fork is not None and run.fork.is_stopped):
            return outcome, spent
        await asyncio.sleep(0)


async def walked_by_workers(run: Run, outcome: int | None, workers: Workers) -> tuple[int, int]:
    """Start (None) or go on in workers. Where jobs wait, it stands in line again now and then."""

    def walk(outcome: int | None) -> tuple[int, int]:
        began = perf_counter_ns()
        return run.released(outcome, workers), perf_counter_ns() - began

    spent = 0
    while True:
        outcome, more = await workers.submit(partial(walk, outcome)).result(run.cancel)
        spent += more
        if outcome != Outcome.PAUSED:
            return outcome, spent
