"""Values in the memory of a device that the processor does not read: what steps and variables hold of them.

A buffer is written once, by the work that the device was given for it, and does not change while anything refers to it: an
update of a variable writes the present buffer if nothing else does, and puts another in its place otherwise. A buffer is
returned to the device's allocator when nothing references it, the work in progress included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np


class Event(Protocol):
    """The end of a piece of work of a device; on the event loop only."""

    @property
    def is_done(self) -> bool:
        """Whether the work has ended, with or without an error."""
        ...

    @property
    def error(self) -> Exception | None:
        """The error with which it ended."""
        ...

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Have the event loop call this when the work ends, which it has not."""
        ...


class Buffer(Protocol):
    """A value in a device's memory.

    Attributes:
        device: full name of the device.
        ready: the work that writes it. Work that the same device is given later may use the buffer at once; everything else
            waits for this event.
    """

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def ready(self) -> Event: ...
