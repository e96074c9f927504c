"""Interruption of long kernels when their step is cancelled: kernels call `check_cancelled` between parts of their work.

Workers set `current` to the job that the thread runs. Kernels on the event loop are short and are not interrupted.
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
    """A job of a worker; `is_cancelled` is set once, by any thread."""

    is_cancelled: bool


class _Current(threading.local):
    job: Interruptible | None = None


current = _Current()


def check_cancelled() -> None:
    """Raise CancelledError if the job of this thread is cancelled."""
    job = current.job
    if job is not None and job.is_cancelled:
        raise CancelledError("the step was cancelled while a kernel was running")


class TooManyCallsError(Exception):
    """A function was called more often than `interruptible` allows."""


def interruptible(call: Callable[[], Result], most_calls: Mapping[str, int] | None = None) -> Result:
    """Call a function of a pure-Python library, with a profile hook that checks for cancellation at each Python function call.

    Raises:
        TooManyCallsError: a function named in `most_calls` was called more often than that limit.
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
