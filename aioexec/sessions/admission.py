"""A bound on steps in flight: who may go on, in the order of arrival.

Pure: no task, no clock. A ticket is anything that hashes; whoever waits holds one, and is told when `leave` returns it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Ticket = TypeVar("Ticket", bound=Hashable)


class Admission(Generic[Ticket]):
    """Admits up to `bound` tickets at once.

    `_inside` are the admitted tickets, `_waiting` the others, first come first. While somebody waits, `bound` are inside.
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
        """A ticket is done, or gives up waiting: the one that is admitted in its place, if any."""
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
