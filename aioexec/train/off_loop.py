"""Blocking calls made from coroutines: files, checksums, the serialisation of large graphs."""

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
    """Call a function that blocks in a thread, in a copy of the caller's context.

    A caller that is cancelled, even twice, leaves only when the function has returned, so that no work is left running.

    Raises:
        ResourceExhaustedError: no thread can be started; the call is not made.
    """
    return await to_the_end(in_thread(function, *args, **kwargs))


async def to_the_end(work: Awaitable[Result]) -> Result:
    """Await work that must not be left half done: a caller that is cancelled, even twice, leaves when it has ended."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue  # the first cancellation is the one that is raised
        if not running.cancelled():
            running.exception()  # the cancellation is what the caller sees
        raise
