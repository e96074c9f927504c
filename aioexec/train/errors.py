"""Errors of training loops, and the replacement of StopIteration, which cannot leave a coroutine.

    FailedPreconditionError
    └── TrainingStateError      also RuntimeError: right request, wrong moment
    OutOfRangeError
    └── EndOfLoopError          a callback raised StopIteration

Python turns a StopIteration that leaves a coroutine into a RuntimeError whose cause it is, and a future cannot hold one. If
a callback raises it, plain or `async def`, EndOfLoopError is raised in its place: it is an OutOfRangeError, so that code which
ends a loop at the end of input ends it here too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aioexec.errors import FailedPreconditionError, OutOfRangeError
from aioexec.train.callbacks import settled


class TrainingStateError(FailedPreconditionError, RuntimeError):
    """The session, model or scaffold is not in the state for this."""


class EndOfLoopError(OutOfRangeError):
    """A callback raised StopIteration: the loop is to end."""


def is_stop_iteration(error: BaseException | None) -> bool:
    """Whether this is a StopIteration, or what Python made of one that left a coroutine."""
    if isinstance(error, RuntimeError) and str(error) == "coroutine raised StopIteration":
        error = error.__cause__
    return isinstance(error, StopIteration)


def ends_loop(error: BaseException | None) -> bool:
    """Whether this error is the regular end of a loop: the input is exhausted, or a hook or the caller raised StopIteration."""
    return isinstance(error, OutOfRangeError | StopAsyncIteration) or is_stop_iteration(error)


def end_of_loop(error: BaseException) -> BaseException:
    """The error that can leave a coroutine in place of this one: itself, unless it is a StopIteration."""
    if not is_stop_iteration(error):
        return error
    ended = EndOfLoopError(str(error.__cause__ or error) or "the end of the loop was requested")
    ended.__cause__ = error
    return ended


async def called(callback: Callable[..., Awaitable[Any] | Any], *args: Any) -> Any:
    """Call what may be plain or `async def`; a StopIteration comes out as EndOfLoopError."""
    try:
        return await settled(callback(*args))
    except (StopIteration, RuntimeError) as error:
        if not is_stop_iteration(error):
            raise
        raise end_of_loop(error) from error
