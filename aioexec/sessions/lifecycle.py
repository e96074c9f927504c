"""The life of a session: steps are accepted, then drained or cancelled, then everything is given back.

    OPEN ── close ──▶ DRAINING ── grace over ──▶ CANCELLING ── quiet, released ──▶ CLOSED
      └──────────── close with no grace, reset ──────▲

Pure: no task, no clock, no I/O; `steps.py` does what it says.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from typing import Generic, TypeVar

from aioexec.errors import SessionClosedError

Step = TypeVar("Step", bound=Hashable)


class State(enum.Enum):
    """Where a session is in its life."""

    OPEN = "open"
    DRAINING = "draining"  # no new steps; those under way end by themselves
    CANCELLING = "cancelling"  # no new steps; those under way are told to end
    CLOSED = "closed"  # everything was given back


def closed_error() -> SessionClosedError:
    """What a call gets that comes after the close."""
    return SessionClosedError("Attempted to use a closed Session: Session has been closed.")


class Life(Generic[Step]):
    """Which steps are under way, and whether more are accepted.

    `state` only moves on. Each step is told to end at most once: by the event that moved the session to CANCELLING. A session
    is closed only when no step is under way.
    """

    def __init__(self) -> None:
        self.state = State.OPEN
        self.under_way: set[Step] = set()

    @property
    def is_open(self) -> bool:
        return self.state is State.OPEN

    def begin(self, step: Step) -> None:
        """A step starts.

        Raises:
            SessionClosedError: none is accepted any more.
        """
        if self.state is not State.OPEN:
            raise closed_error()
        self.under_way.add(step)

    def end(self, step: Step) -> bool:
        """A step is over; whether that makes a session that closes quiet."""
        self.under_way.remove(step)
        return not self.under_way and self.state is not State.OPEN

    def drain(self) -> None:
        """Accept no more steps."""
        if self.state is State.OPEN:
            self.state = State.DRAINING

    def cancel(self) -> list[Step]:
        """Accept no more steps; those that have to be told to end."""
        if self.state in (State.CANCELLING, State.CLOSED):
            return []
        self.state = State.CANCELLING
        return list(self.under_way)

    def released(self) -> None:
        """Everything was given back."""
        assert not self.under_way
        assert self.state is not State.OPEN
        self.state = State.CLOSED

    def check_invariants(self) -> None:
        assert not self.under_way or self.state is not State.CLOSED
