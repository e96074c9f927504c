"""Leases: the right of one step to write variables, while it may be suspended or on a worker.

All leases of an item are taken at once, when none is held, so steps cannot wait for each other in a circle. Everything here
happens on the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aioexec.resources.variable import Variable


async def lease(variables: Sequence[Variable]) -> None:
    """Wait until nobody holds any of the leases, then take them all."""
    while (held := next((variable for variable in variables if variable.leased), None)) is not None:
        waiter = asyncio.get_running_loop().create_future()

        def wake(waiter: asyncio.Future[None] = waiter) -> None:
            if not waiter.done():
                waiter.set_result(None)

        held.waiters.append(wake)
        await waiter
    for variable in variables:
        variable.leased = True


def release(variables: Sequence[Variable]) -> None:
    """Give the leases back; who waits looks again, in the order they came."""
    for variable in variables:
        variable.leased = False
    for variable in variables:
        waiters = list(variable.waiters)
        variable.waiters.clear()
        for wake in waiters:
            wake()
