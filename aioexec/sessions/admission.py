"""A bound on the number of steps in flight, with a FIFO queue.

A pure state machine: no task, no clock. A ticket, any hashable object, stands for one step; `leave` returns the ticket that is
admitted next, and the caller resumes its step.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Ticket = TypeVar("Ticket", bound=Hashable)


class Admission(Generic[Ticket]):
    """Admits up to `bound` tickets at once.

    `_inside` are the admitted tickets, `_waiting` a FIFO queue of the others. While tickets wait, `bound` are inside.
    """

    def __init__(self, bound: int) -> None:
        assert bound > 0
        self.bound = bound
        self._inside: set[Ticket] = set()
        self._waiting: OrderedDict[Ticket, None] = OrderedDict()

    @property
    def is_full(self) -> bool:
        return len(self._inside) == self.bound

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def arrive(self, ticket: Ticket) -> bool:
        """Whether the ticket is admitted at once; if not, it waits."""
        if self.is_full:
            self._waiting[ticket] = None
            return False
        self._inside.add(ticket)
        return True

    def leave(self, ticket: Ticket) -> Ticket | None:
        """Remove a ticket, whether admitted or waiting; returns the one that is admitted in its place, if any."""
        if ticket in self._waiting:
            del self._waiting[ticket]
            return None
        self._inside.remove(ticket)
        if not self._waiting:
            return None
        successor, _ = self._waiting.popitem(last=False)
        self._inside.add(successor)
        return successor

    def check_invariants(self) -> None:
        assert len(self._inside) <= self.bound
        assert self.is_full or not self._waiting
        assert not self._inside.intersection(self._waiting)
