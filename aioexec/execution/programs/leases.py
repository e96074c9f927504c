"""Leases: the exclusive right of one step to write variables, while it may be suspended or on a worker.

All leases of an item are taken at once, when none of them is held, so there is no deadlock. A waiting step waits for one held
variable, in FIFO order: a release wakes one waiter, which takes all its leases, or wakes the next waiter if it cannot. The
event loop's thread only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aioexec.resources.variable import Variable


def any_leased(variables: Sequence[Variable]) -> bool:
    """Whether a step that writes these must wait."""
    for variable in variables:  # noqa: SIM110 (a generator takes longer than most items do)
        if variable.leased:
            return True
    return False


async def lease(variables: Sequence[Variable]) -> None:
    """Wait until none of the leases is held, then take them all."""
    woken_for: Variable | None = None
    while (held := next((variable for variable in variables if variable.leased), None)) is not None:
        if woken_for is not None and woken_for is not held:
            _wake_one(woken_for)
        await _wait_for_turn(held)
        woken_for = held
    take(variables)


def take(variables: Sequence[Variable]) -> None:
    """Take the leases of variables, none of which is held."""
    for variable in variables:
        variable.leased = True


async def _wait_for_turn(held: Variable) -> None:
    """Wait to be woken for a variable."""
    waiter = asyncio.get_running_loop().create_future()
    held.waiters.append(waiter)
    try:
        await waiter
    except asyncio.CancelledError:
        if not waiter.cancelled():
            _wake_one(held)  # this waiter had been woken, and is cancelled
        elif waiter in held.waiters:
            held.waiters.remove(waiter)
        raise


def release(variables: Sequence[Variable]) -> None:
    """Give the leases back."""
    for variable in variables:
        variable.leased = False
    for variable in variables:
        if variable.waiters:
            _wake_one(variable)


def _wake_one(variable: Variable) -> None:
    while variable.waiters:
        waiter = variable.waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return
