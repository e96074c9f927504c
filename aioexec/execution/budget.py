"""How much of a tick of the event loop inline work may take.

Each loop has one budget, shared by all sessions on it. A run that never suspends would starve the loop and outlive its own
timeout, so beyond the budget a run yields before it starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from weakref import WeakKeyDictionary

from aioexec.devices.threads.workers import computes_inline

TICK_NS = 500_000
SLICE_NS = 200_000
"""Kernels on the loop between two looks at the budget."""
_LOOK_AT_CLOCK = 16  # items that only decide, between two looks
_AT_ONCE = (
    8  # of those who wait, at the begin of a tick, at most: what a task will spend shows only when it runs
)


class TickBudget:
    """Inline work of one loop.

    `_used` is how long this tick has lasted, in nanoseconds, from its first inline run to the end of its last one: what lies
    between two runs holds the loop as well. `spent` is the same, or more than a tick while the tick is reserved: those whose
    turn has come resume in the next pass of the loop, and what arrives before then may not overtake them. `_tick` is when that
    first run began, None before it. `_line` are those who came too late, in order, and `_sent_back` those of them whose turn
    came in a tick that others had spent meanwhile: they come before the line. `_charged` counts what had room in this tick: so
    many get their turn in the next, since to be sent back costs as much as a small step. While anybody waits, or something was
    charged, the begin of the next tick is due (`_is_due`). `_decided` counts items that only decide. `helps` counts runs of
    which the loop does a share (see `program_run`).

    Who waits is not asked again in every tick: with a thousand steps waiting, nothing else would be done.
    """

    slice_ns = SLICE_NS
    is_bounded = True

    def __init__(self) -> None:
        self.spent = self._used = 0
        self._tick: int | None = None
        self._charged = 0
        self._is_due = False
        self._decided = 0
        self.helps = 0
        self._line: deque[Callable[[], bool]] = deque()
        self._sent_back: deque[Callable[[], bool]] = deque()

    def charge(self, began: int, ended: int) -> None:
        """Count a run that began and ended at these times."""
        if self._tick is None:
            self._tick = began
            self._begin_soon()
        self.spent = self._used = ended - self._tick
        self._charged += 1

    def decided(self) -> None:
        """Count an item that only decides, transfers or asks: too cheap for the clock, unless there are many of them."""
        self._decided += 1
        if self._decided % _LOOK_AT_CLOCK == 0:
            now = perf_counter_ns()
            self.charge(now, now)

    def _begin_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            loop = asyncio.get_running_loop()  # not kept: the loop must not live as long as its budget
            loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a tick: with those who wait, until it is spent."""
        most = max(1, min(_AT_ONCE, self._charged)) if self._used > TICK_NS else _AT_ONCE
        self.spent = self._used = self._charged = 0
        self._tick = None
        self._is_due = False
        is_reserved = False
        try:
            for _ in range(most):
                line = self._sent_back or self._line
                if not line or self._used > TICK_NS:
                    break
                is_reserved |= bool(line.popleft()())
        finally:
            if is_reserved:
                self.spent = TICK_NS + 1
            if is_reserved or self._sent_back or self._line:
                self._begin_soon()

    def call_in_turn(self, call: Callable[[], object]) -> None:
        """Make a call in a tick that has budget left, in a copy of the caller's context; none is left in this one."""
        self._line.append(partial(_make, contextvars.copy_context(), call))
        self._begin_soon()

    async def turn(self) -> None:
        """Wait until this tick has budget left."""
        line = self._line
        if self.spent <= TICK_NS:
            return
        while True:
            waiter = asyncio.get_running_loop().create_future()
            call = partial(_wake, waiter)
            line.append(call)
            try:
                await waiter
            except asyncio.CancelledError:
                with contextlib.suppress(ValueError):  # it may be its turn just now
                    line.remove(call)
                raise
            if self._used <= TICK_NS:
                self.spent = self._used
                return
            line = self._sent_back


class Boundless(TickBudget):
    """The budget of a loop on which no order may depend on how long something took."""

    slice_ns = 1 << 62
    is_bounded = False

    def charge(self, began: int, ended: int) -> None:
        """Nothing is ever spent."""


def _make(context: contextvars.Context, call: Callable[[], object]) -> bool:
    """Make a call now; no time is to be reserved for it."""
    context.run(call)
    return False


def _wake(waiter: asyncio.Future[None]) -> bool:
    """Resume a task; whether it is there."""
    if waiter.done():
        return False
    waiter.set_result(None)
    return True


_budgets: WeakKeyDictionary[asyncio.AbstractEventLoop, TickBudget] = WeakKeyDictionary()


def budget_of(loop: asyncio.AbstractEventLoop) -> TickBudget:
    """The budget of a loop."""
    found = _budgets.get(loop)
    if found is None:
        found = _budgets[loop] = Boundless() if computes_inline(loop) else TickBudget()
    return found
