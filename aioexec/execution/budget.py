"""The time budget of inline work in one tick (iteration) of an event loop.

Each loop has one budget, shared by all sessions on it. A run that never suspends would starve the loop and outlive its own
timeout, so once the budget of a tick is spent, a run yields before it starts. The event loop's thread only.
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
CHECK_NS = 200_000
"""Nanoseconds of kernels on the loop between two checks of the budget."""
_LOOK_AT_CLOCK = 16  # items without a kernel between two reads of the clock
_AT_ONCE = 8  # the most waiters resumed at the begin of a tick: how much time a task spends is known only after it ran


class TickBudget:
    """The inline work of one loop.

    `_tick` is the time at which the first inline run of this tick began, None before it. `_used` is the duration of the tick in
    nanoseconds, from then to the end of its last run: other callbacks between two runs occupy the loop as well. `spent` equals
    `_used`, or exceeds a tick while the tick is reserved: waiters that were resumed run in the next pass of the loop, and
    requests that arrive before then may not overtake them.

    `_line` is the FIFO queue of waiters. `_sent_back` are waiters that were resumed in a tick which other runs had spent
    meanwhile; they precede the queue. `_charged` counts the runs that fitted into this tick: as many waiters are resumed in the
    next one, since to queue again costs as much as a small step. While there are waiters, or something was charged, the begin
    of the next tick is scheduled (`_is_due`). `_decided` counts items without a kernel. `helps` counts runs of which the loop
    executes tasks (see `program_run`).

    Not all waiters are resumed in every tick: with a thousand steps waiting, the loop would do nothing else.
    """

    check_ns = CHECK_NS
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

    def count_decision(self) -> None:
        """Count an item without a kernel, such as a transfer: the clock is read only after several of them."""
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
        """Begin a tick: resume waiters until it is spent."""
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
        """Make a call in a later tick, when that has budget left, in a copy of the caller's context."""
        self._line.append(partial(_make, contextvars.copy_context(), call))
        self._begin_soon()

    async def wait_for_turn(self) -> None:
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
                with contextlib.suppress(ValueError):  # it may have been resumed just now
                    line.remove(call)
                raise
            if self._used <= TICK_NS:
                self.spent = self._used
                return
            line = self._sent_back


class Boundless(TickBudget):
    """The budget of a loop on which no order may depend on durations."""

    check_ns = 1 << 62
    is_bounded = False

    def charge(self, began: int, ended: int) -> None:
        """Nothing is ever spent."""


def _make(context: contextvars.Context, call: Callable[[], object]) -> bool:
    """Make a call now; no time is to be reserved for it."""
    context.run(call)
    return False


def _wake(waiter: asyncio.Future[None]) -> bool:
    """Resume a waiting task; False if it was cancelled."""
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
