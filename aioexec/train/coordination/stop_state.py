"""The state machine of a Coordinator: whether a group of tasks should stop, and with which error.

    RUNNING ── request_stop ──▶ STOPPING ── join ──▶ JOINED
       ▲                            │                  │
       └──────── clear_stop ────────┴──────────────────┘

Joining without a request, when all members have ended, makes it JOINED but not stopping. Pure: no task, no lock, no clock;
`coordinator.py` carries out the decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aioexec.errors import GraphValueError
from aioexec.train.errors import end_of_loop, is_stop_iteration


class StopState:
    """Whether a stop was requested, and the error of the first request.

    A StopIteration, which could not leave `join`, is converted to an EndOfLoopError, which is an OutOfRangeError. Cancellations
    and GeneratorExit are no errors: the cancelled member raises them itself.

    Args:
        clean_types: errors that request a stop without being raised.

    State: `is_stopping`: a stop was requested; `is_joined`: the group was joined, so a later error can be raised only by
    `request_stop`. `error` is that of the first request, or None: it is what `join` raises. All change only by the events
    below.
    """

    def __init__(self, clean_types: Iterable[type[BaseException]]) -> None:
        self._clean_types = (*clean_types, asyncio.CancelledError, GeneratorExit)
        self.is_stopping = False
        self.is_joined = False
        self.error: BaseException | None = None

    def request_stop(self, reported: object) -> bool:
        """Event: a stop is requested, with an exception, `sys.exc_info()`, or None; returns whether it is the first request.

        Raises:
            BaseException: the reported error, if the group was joined.
        """
        error = self._relevant_error(reported)
        if self.is_joined and error is not None:
            raise error
        if self.is_stopping:
            return False
        self.is_stopping = True
        self.error = error
        return True

    def clear_stop(self) -> None:
        """Event: the request is withdrawn."""
        self.is_stopping = self.is_joined = False
        self.error = None

    def on_joined(self) -> None:
        """Event: the group was joined."""
        self.is_joined = True

    def _relevant_error(self, reported: object) -> BaseException | None:
        """The reported error; None if there is none, or it is of a clean type."""
        if reported is None:
            return None
        error = reported[1] if isinstance(reported, tuple) and len(reported) == 3 else reported
        if error is None or not isinstance(error, BaseException):
            return GraphValueError(
                f"ex must be a tuple or sys.exc_info must return the current exception: {reported!r}"
            )
        ended = end_of_loop(error)
        forms = (error, error.__cause__, ended) if is_stop_iteration(error) else (error,)
        return None if any(isinstance(form, self._clean_types) for form in forms) else ended

    def check_invariants(self) -> None:
        assert self.error is None or self.is_stopping
        assert not isinstance(self.error, (*self._clean_types, StopIteration))
