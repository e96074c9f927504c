"""Scheduling attributes of worker threads, by which event loops preempt them.

A loop that wakes while all processors compute may have to wait for the next tick of the scheduler, up to 4 ms. On Linux 6.12
and later, a thread that requests longer time slices may be preempted at once by one with shorter slices; its share of the
processor stays the same, so it does not starve beside other processes, as a thread with the idle policy does. On earlier
systems a higher nice value helps a little.
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
"""The nice value of a worker relative to the process: it determines the shares of an overloaded processor."""
TURNS = 2
"""A worker's time slice in slices of its parent thread; not more, since a thread that yields loses the rest of its slice."""

# struct sched_attr of the kernel: size, policy, flags, niceness, priority, then nanoseconds: turn, deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")
_TURN = 5
_CALLS = {"x86_64": (315, 314), "aarch64": (275, 274)} if sys.maxsize > 1 << 32 else {}
"""Numbers of the system calls sched_getattr and sched_setattr, by machine: few C libraries have functions for them."""


def give_way() -> None:
    """Let event loops preempt the calling worker thread from now on; does nothing if the system does not support it."""
    if sys.platform == "linux":
        niceness = os.getpriority(os.PRIO_PROCESS, 0)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), niceness + NICENESS)
        attributes = _attributes()
        if attributes is not None and attributes[_TURN]:
            attributes[_TURN] *= TURNS
            _call(1, _ATTRIBUTES.pack(*attributes), 0)  # if it is refused, the thread keeps its attributes


def turn_ns() -> int:
    """The time slice of the calling thread; 0: the system does not report it."""
    attributes = _attributes()
    return attributes[_TURN] if attributes is not None else 0


def _attributes() -> list[int] | None:
    """The scheduling attributes of the calling thread, if the system reports them."""
    got = ctypes.create_string_buffer(_ATTRIBUTES.size)
    if not _call(0, got, _ATTRIBUTES.size, 0):
        return None
    return list(_ATTRIBUTES.unpack(got.raw))


def _call(which: int, *arguments: Any) -> bool:
    """Make one of the two system calls for the calling thread; True if it exists and succeeded."""
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return False
    outcome: int = ctypes.CDLL(None).syscall(_CALLS[platform.machine()][which], 0, *arguments)
    return outcome == 0
