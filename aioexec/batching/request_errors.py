"""The errors that requests raise when a step of their batch fails, or the batcher is closed."""

from __future__ import annotations

import asyncio
import copy

from aioexec.errors import CancelledError, OpError, UnknownError


def error_of_request(error: BaseException, requests: int) -> OpError:
    """The error that one of the `requests` of a batch raises, whose step failed with `error`, its cause.

    An OpError keeps its class, message and node. Each request has an object of its own: raising one object in several
    tasks would join their tracebacks.
    """
    own: OpError
    if isinstance(error, OpError):
        own = copy.copy(error)
    elif isinstance(error, asyncio.CancelledError):
        own = CancelledError("Batcher: the step of the batch was cancelled")
    else:
        own = UnknownError(
            f"Batcher: the model failed for a batch of {requests} requests: {type(error).__name__}: {error}"
        )
    own.__cause__ = error
    return own


def closed_error() -> CancelledError:
    """The error of a request that is cancelled when its batcher is closed."""
    return CancelledError("Batcher: it was closed before the request was answered")
