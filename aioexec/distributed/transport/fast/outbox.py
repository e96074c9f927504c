"""The queue of large parts to be sent on a connection of the fast path, in chunks."""

from __future__ import annotations

from collections import deque

from aioexec.distributed.transport.fast import frames


class Outbox:
    """The queue of large parts: the parts of a call in order, calls round-robin, so that no call waits for another's end."""

    def __init__(self) -> None:
        # (call, its unsent parts), the next to be sent first.
        self._turns: deque[tuple[int, deque[memoryview]]] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, call: int, stream: frames.Stream) -> None:
        """Queue the parts that follow a call's frame."""
        self._turns.append((call, deque(stream)))

    def drop(self, call: int) -> None:
        """Discard the queued parts of a call, if there are any."""
        self._turns = deque(each for each in self._turns if each[0] != call)

    def next(self) -> tuple[bytes, memoryview]:
        """Remove the next chunk; returns its head and its bytes."""
        call, parts = self._turns.popleft()
        part = parts.popleft()
        chunk = part[: frames.CHUNK_BYTES]
        if len(chunk) < len(part):
            parts.appendleft(part[frames.CHUNK_BYTES :])
        if parts:
            self._turns.append((call, parts))
        return frames.chunk(call, len(chunk)), chunk
