"""The life cycle of a session: steps are accepted, then drained or cancelled, then everything is released.

    OPEN ── close ──▶ DRAINING ── grace over ──▶ CANCELLING ── quiet, released ──▶ CLOSED
      └──────────── close with no grace, reset ──────▲

A pure state machine: no task, no clock, no I/O; `steps.py` carries out its decisions.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Generic, TypeVar

from aioexec.errors import SessionClosedError

Step = TypeVar("Step", bound=Hashable)


class State(enum.Enum):
    """The state of a session."""

    OPEN = "open"
    DRAINING = "draining"  # no new steps; active ones end by themselves
    CANCELLING = "cancelling"  # no new steps; active ones are cancelled
    CLOSED = "closed"  # everything was released


def closed_error() -> SessionClosedError:
    """The error of a call after the close."""
    return SessionClosedError("Attempted to use a closed Session: Session has been closed.")


class Life(Generic[Step]):
    """The active steps of a session, and whether more are accepted.

    `state` only advances. Each step is cancelled at most once: by the event that moved the session to CANCELLING. A session
    becomes CLOSED only when no step is active. `under_way` are the active steps.
    """

    def __init__(self) -> None:
        self.state = State.OPEN
        self.under_way: set[Step] = set()

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    def begin(self, step: Step) -> None:
        """Add a step that starts.

        Raises:
            SessionClosedError: no more steps are accepted.
        """
        if self.state is not State.OPEN:
            raise closed_error()
        self.under_way.add(step)

    def end(self, step: Step) -> bool:
        """Remove a step that is over; True if it was the last one of a session that closes."""
        self.under_way.remove(step)
        return not self.under_way and self.state is not State.OPEN

    def drain(self) -> None:
        """Accept no more steps."""
        if self.state is State.OPEN:
            self.state = State.DRAINING

    def cancel(self) -> list[Step]:
        """Accept no more steps; returns those to be cancelled."""
        if self.state in (State.CANCELLING, State.CLOSED):
            return []
        self.state = State.CANCELLING
        return list(self.under_way)

    def mark_released(self) -> None:
        """Record that everything was released."""
        assert not self.under_way
        assert self.state is not State.OPEN
        self.state = State.CLOSED

    def check_invariants(self) -> None:
        assert not self.under_way or self.state is not State.CLOSED
