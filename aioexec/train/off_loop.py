"""Runs blocking calls of coroutines in threads: file I/O, checksums, serialisation of large graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from aioexec.in_thread import in_thread

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def off_loop(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Call a blocking function in a thread, in a copy of the caller's context.

    If the caller is cancelled, even twice, it returns only after the function has returned, so that no work is left running.

    Raises:
        ResourceExhaustedError: no thread can be started; the call is not made.
    """
    return await run_uninterrupted(in_thread(function, *args, **kwargs))


async def run_uninterrupted(work: Awaitable[Result]) -> Result:
    """Await work that must not be interrupted: a caller that is cancelled, even twice, returns only after its end."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue  # the first cancellation is raised below
        if not running.cancelled():
            running.exception()  # the caller gets the cancellation
        raise
