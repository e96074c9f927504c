"""Errors of training loops, and the replacement of StopIteration, which cannot leave a coroutine.

    FailedPreconditionError
    └── TrainingStateError      also RuntimeError: not allowed in the present state
    OutOfRangeError
    └── EndOfLoopError          a callback raised StopIteration

Python converts a StopIteration that leaves a coroutine to a RuntimeError with it as the cause, and a future cannot hold one. If
a callback raises it, plain or `async def`, EndOfLoopError is raised instead: it is an OutOfRangeError, so code that ends a loop
at the end of input also handles it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aioexec.errors import FailedPreconditionError, OutOfRangeError
from aioexec.train.callbacks import settle


class TrainingStateError(FailedPreconditionError, RuntimeError):
    """The session, model or scaffold is in the wrong state for the call."""


class EndOfLoopError(OutOfRangeError):
    """A callback raised StopIteration to end the loop."""


def is_stop_iteration(error: BaseException | None) -> bool:
    """Whether this is a StopIteration, or the RuntimeError of one that left a coroutine."""
    if isinstance(error, RuntimeError) and str(error) == "coroutine raised StopIteration":
        error = error.__cause__
    return isinstance(error, StopIteration)


def ends_loop(error: BaseException | None) -> bool:
    """Whether this error is the regular end of a loop: the input is exhausted, or a hook or the caller raised StopIteration."""
    return isinstance(error, OutOfRangeError | StopAsyncIteration) or is_stop_iteration(error)


def end_of_loop(error: BaseException) -> BaseException:
    """The error to raise from a coroutine for this one: EndOfLoopError for a StopIteration, otherwise the error itself."""
    if not is_stop_iteration(error):
        return error
    ended = EndOfLoopError(str(error.__cause__ or error) or "the end of the loop was requested")
    ended.__cause__ = error
    return ended


async def call_function(callback: Callable[..., Awaitable[Any] | Any], *args: Any) -> Any:
    """Call a plain or `async def` function; StopIteration is raised as EndOfLoopError."""
    try:
        return await settle(callback(*args))
    except (StopIteration, RuntimeError) as error:
        if not is_stop_iteration(error):
            raise
        raise end_of_loop(error) from error
