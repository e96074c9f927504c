"""How a worker thread asks the operating system to let event loops go first where they want the same processor.

A loop that wakes while all processors compute may have to wait for the next tick of the scheduler, which is up to 4 ms away. On
Linux since 6.12 a thread that asks for longer turns than others may be interrupted at once by one that asks for shorter ones;
its share of the processor stays the same, so that it does not starve beside other processes, as a thread does that asks for
idle time only. Before, to be nicer helps a little.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
import threading
from typing import Any

NICENESS = 5
"""How much nicer than the process a worker is: that decides who gets how much where there is too much to do."""
TURNS = 2
"""A worker's turn in turns of the thread that made it; a thread that yields gives up what is left of its turn, so not more."""

# struct sched_attr of the kernel: size, policy, flags, niceness, priority, then nanoseconds: turn, deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
_TURN = 5
_CALLS = {"x86_64": (315, 314), "aarch64": (275, 274)} if sys.maxsize > 1 << 32 else {}
"""Numbers of the system calls sched_getattr and sched_setattr, by machine: few C libraries have functions for them."""


def give_way() -> None:
    """Let event loops go first from now on; in the worker. Where the system knows no such thing, nothing changes."""
    if sys.platform == "linux":
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness + NICENESS)
        attributes = _attributes()
        if attributes is not None and attributes[_TURN]:
            attributes[_TURN] *= TURNS
            _call(1, _ATTRIBUTES.pack(*attributes), 0)  # whoever is refused goes on as before


def turn_ns() -> int:
    """How long the calling thread's turns on a processor are meant to be; 0: the system does not tell."""
    attributes = _attributes()
    return attributes[_TURN] if attributes is not None else 0


def _attributes() -> list[int] | None:
    """What the scheduler knows of the calling thread, if it tells."""
    got = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if not _call(0, got, _ATTRIBUTES.size, 0):
        return None
    return list(_ATTRIBUTES.unpack(got.raw))


def _call(which: int, *arguments: Any) -> bool:
    """Make one of the two system calls for the calling thread: whether there is such a thing, and it was done."""
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return False
    outcome: int = ctypes.CDLL(None).syscall(_CALLS[platform.machine()][which], 0, *arguments)
    return outcome == 0
