"""Runs blocking calls in the event loop's default executor."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from aioexec.errors import ResourceExhaustedError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

NO_THREAD = "can't start new thread"
"""Python's message if the system cannot start a thread."""


def in_thread(
    function: Callable[Parameters, Result], /, *args: Parameters.args, **kwargs: Parameters.kwargs
) -> asyncio.Future[Result]:
    """Start a call in a thread, in a copy of the caller's context; returns the future of its result.

    Cancelling the future of a running call does not stop the call.

    Raises:
        ResourceExhaustedError: no thread can be started; the call is not made, not even later.
    """
    context = contextvars.copy_context()
    outcome: concurrent.futures.Future[Result] = concurrent.futures.Future()

    def call() -> None:
        if outcome.set_running_or_notify_cancel():
            try:
                result = context.run(function, *args, **kwargs)
            except BaseException as error:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)

    try:
        asyncio.get_running_loop().run_in_executor(None, call)
    except RuntimeError as error:
        # The executor queues a call before it starts a thread for it, so another of its threads may have taken the call.
        if outcome.cancel():
            if NO_THREAD in str(error):
                raise no_thread(getattr(function, "__qualname__", repr(function))) from error
            raise
    return asyncio.wrap_future(outcome)


def no_thread(what: str) -> ResourceExhaustedError:
    """The error of a call for which no thread can be started."""
    return ResourceExhaustedError(f"{what}: the system starts no more threads")
