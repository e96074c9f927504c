"""How much of a tick of the event loop inline work may take.

Each loop has one budget, shared by all sessions on it. A run that never suspends would starve the loop and outlive its own
timeout, so beyond the budget a run yields before it starts.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator
from weakref import WeakKeyDictionary

TICK_NS = 500_000


@types.coroutine
def yield_once() -> Generator[None, None, None]:
    """Let the loop go round once."""
    yield


class TickBudget:
    """Inline work of one loop.

    `spent` is how long this tick has lasted, in nanoseconds, from its first inline run to the end of its last one: what lies
    between two runs holds the loop as well. `_tick` is when that first run began; None before it, and then no reset is due.
    """

    def __init__(self) -> None:
        self.spent = 0
        self._tick: int | None = None

    def charge(self, began: int, ended: int) -> None:
        """Count a run that began and ended at these times."""
        if self._tick is None:
            self._tick = began
            asyncio.get_running_loop().call_soon(
                self._reset
            )  # not kept: the loop must not live as long as its budget
        self.spent = ended - self._tick

    def _reset(self) -> None:
        self.spent = 0
        self._tick = None

    async def turn(self) -> None:
        """Wait until this tick has budget left."""
        while self.spent > TICK_NS:
            await yield_once()


_budgets: WeakKeyDictionary[asyncio.AbstractEventLoop, TickBudget] = WeakKeyDictionary()


def budget_of(loop: asyncio.AbstractEventLoop) -> TickBudget:
    """The budget of a loop."""
    found = _budgets.get(loop)
    if found is None:
        found = _budgets[loop] = TickBudget()
    return found
