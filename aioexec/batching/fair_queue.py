"""`FairQueue`: the requests of one group that wait, divided among their callers by deficit round robin.

Callers that have waiting requests stand in a ring. The first one has the turn; its credit is the number of rows that
it may still place in this turn:

1. At the start of its turn a caller's credit grows by the quantum, an eighth of a batch.
2. It places its requests, oldest first, while the next one's rows are within its credit. A request of more rows than
   the quantum is cut: as many rows as the credit are placed, the others in later turns.
3. Then the turn passes to the next caller. Credit that is left is kept, and lost when the caller has no more requests.

A turn may go on in the next batch. A caller that is alone takes all there is. So of two callers that wait all the time
neither gets more than three quanta of rows more than the other, whatever the sizes of their requests, and a caller
with a single row waits for at most two quanta of each other caller.

Rejected: one request a turn, because a caller of large requests gets more rows; start-time fair queueing, because a caller that
comes back waits behind all that are new.

Plain data: no clock, no event loop.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable

from aioexec.batching.requests import Part, Request


class _Caller:
    """The waiting requests of one caller, oldest first; `credit` is the number of rows it may place in its turn."""

    __slots__ = ("credit", "key", "requests")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.credit = 0
        self.requests: OrderedDict[Request, None] = OrderedDict()


class FairQueue:
    """Waiting requests.

    `rows` is the sum of their rows that are in no batch yet. A caller is in `_callers` and in `_ring` while it has waiting
    requests; the first of the ring has the turn, and got credit for it.
    """

    __slots__ = ("_callers", "_quantum", "_ring", "rows")

    def __init__(self, max_batch_size: int) -> None:
        self._quantum = max(1, max_batch_size // 8)
        self._callers: dict[Hashable, _Caller] = {}
        self._ring: deque[_Caller] = deque()
        self.rows = 0

    def oldest(self) -> float:
        """The time at which the oldest waiting request was admitted; there is one."""
        return min(next(iter(caller.requests)).admitted for caller in self._ring)

    def requests(self) -> list[Request]:
        """All waiting requests."""
        return [request for caller in self._ring for request in caller.requests]

    def add(self, request: Request) -> None:
        """Append a request to those of its caller."""
        caller = self._callers.get(request.caller)
        if caller is None:
            caller = self._callers[request.caller] = _Caller(request.caller)
            self._ring.append(caller)
            if len(self._ring) == 1:
                caller.credit = self._quantum
        caller.requests[request] = None
        self.rows += request.rows

    def remove(self, request: Request) -> None:
        """Remove a waiting request."""
        caller = self._callers[request.caller]
        del caller.requests[request]
        self.rows -= request.rows - request.placed
        if not caller.requests:
            self._leave(caller)

    def take(self, room: int) -> list[Part]:
        """Place waiting rows, at most `room`; of each request at most one part."""
        parts: list[Part] = []
        callers, room_before = len(self._ring), room
        while room and self._ring:
            caller = self._ring[0]
            if len(self._ring) == 1:
                room -= _place(caller, room, parts)
            else:
                room -= self._take_turn(caller, room, parts)
            if not caller.requests:
                self._leave(caller)
            elif room:
                self._ring.rotate(-1)
                self._ring[0].credit += self._quantum
        self.rows -= room_before - room
        return parts if callers == 1 else _merged(parts)

    def _take_turn(self, caller: _Caller, room: int, parts: list[Part]) -> int:
        """Place rows of the caller that has the turn, within its credit; return their number."""
        placed = 0
        while caller.requests and placed < room:
            request = next(iter(caller.requests))
            rows = request.rows - request.placed
            if rows > caller.credit and rows <= self._quantum:
                break
            rows = min(rows, caller.credit, room - placed)
            if not rows:
                break
            _place(caller, rows, parts)
            caller.credit -= rows
            placed += rows
        return placed

    def _leave(self, caller: _Caller) -> None:
        """Remove a caller without requests from the ring; if it had the turn, the next one has it."""
        del self._callers[caller.key]
        had_turn = self._ring[0] is caller
        self._ring.remove(caller)
        if had_turn and self._ring:
            self._ring[0].credit += self._quantum


def _place(caller: _Caller, room: int, parts: list[Part]) -> int:
    """Place rows of a caller's requests, at most `room`; return their number."""
    placed = 0
    requests = caller.requests
    while requests and placed < room:
        request = next(iter(requests))
        start = request.placed
        rows = request.rows - start
        if rows > room - placed:
            rows = room - placed
            request.placed = start + rows
        else:
            request.placed = request.rows
            del requests[request]
        parts.append((request, start, rows))
        placed += rows
    return placed


def _merged(parts: list[Part]) -> list[Part]:
    """Parts in which those of one request are one: their rows are consecutive, if parts of others stand between or not."""
    found: dict[Request, Part] = {}
    for part in parts:
        request, start, rows = part
        if request in found:
            _, start, before = found[request]
            part = (request, start, before + rows)
        found[request] = part
    return list(found.values())
