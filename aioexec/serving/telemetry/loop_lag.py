"""Measures the lag of the running loop all the time, with a timer twenty times a second."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_INTERVAL: Final = 0.05


@asynccontextmanager
async def measured_lag(record: Callable[[float], None]) -> AsyncIterator[None]:
    """Call `record` with the seconds by which each timer was late, in the block."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def beat(due: float) -> None:
        nonlocal timer
        now = loop.time()
        record(max(0.0, now - due))
        timer = loop.call_at(now + _INTERVAL, beat, now + _INTERVAL)

    timer = loop.call_later(_INTERVAL, beat, loop.time() + _INTERVAL)
    try:
        yield
    finally:
        timer.cancel()
