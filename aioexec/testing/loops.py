"""The event loops that asynchronous tests can run on, by name."""

import asyncio
from collections.abc import Callable

try:
    import uvloop
except ImportError:  # not available on Windows
    uvloop = None  # type: ignore[assignment]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

LOOPS: dict[str, LoopFactory] = {"asyncio": asyncio.SelectorEventLoop}
if uvloop is not None:
    LOOPS["uvloop"] = uvloop.new_event_loop


def open_lasting_descriptors() -> None:
    """Make libuv open the descriptors it keeps for the life of the process; otherwise they would count as a leak."""
    if uvloop is not None:
        uvloop.new_event_loop().close()
