"""How a kernel that takes long learns that its step was cancelled: it calls `check_cancelled` between two parts of its work.

Workers say in `current` which job a thread runs. A kernel on the event loop is not interrupted: it is short.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol, TypeVar

from aioexec.errors import CancelledError

Result = TypeVar("Result")


class Interruptible(Protocol):
    """A job; `is_cancelled` becomes True once, in any thread."""

    is_cancelled: bool


class _Current(threading.local):
    job: Interruptible | None = None


current = _Current()


def check_cancelled() -> None:
    """Raise CancelledError if what this thread computes is not wanted any more."""
    job = current.job
    if job is not None and job.is_cancelled:
        raise CancelledError("the step was cancelled while a kernel was running")


def interruptible(call: Callable[[], Result]) -> Result:
    """Make a call to a library written in Python, which does not check: this checks whenever a function is called there."""
    if current.job is None:
        return call()
    before = sys.getprofile()
    sys.setprofile(_look)
    try:
        return call()
    finally:
        sys.setprofile(before)


def _look(frame: FrameType, event: str, argument: Any) -> None:
    if event == "call":
        check_cancelled()
