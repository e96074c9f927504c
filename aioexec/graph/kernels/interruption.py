"""Interruption of long kernels when their step is cancelled: they call `check_cancelled` between two parts of their work.

Workers set `current` to the job that a thread runs. A kernel on the event loop is not interrupted: it is short.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
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


class TooManyCallsError(Exception):
    """A function was called more often than `interruptible` allows."""


def interruptible(call: Callable[[], Result], most_calls: Mapping[str, int] | None = None) -> Result:
    """Make a call to a library written in Python, which does not check: this checks whenever a function is called there.

    Raises:
        TooManyCallsError: a function of a name in `most_calls` was called more often than that says.
    """
    left = dict(most_calls or {})
    if current.job is None and not left:
        return call()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        check_cancelled()
        name = frame.f_code.co_name
        if name in left:
            left[name] -= 1
            if left[name] < 0:
                raise TooManyCallsError(name)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        return call()
    finally:
        sys.setprofile(before)
