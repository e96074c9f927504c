"""Memory assignment of a program's values: slots that are bound in each run, and one arena for intermediate values.

The arena is laid out once, from the live range of each buffer in rows: first fit in the free ranges. An output may reuse the
memory of an input whose live range ends there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Spec

ALIGNMENT = 64


@dataclass(slots=True, eq=False)
class Buffer:
    """A region of memory that no other live buffer shares.

    Attributes:
        nbytes: its size.
        slot: the frame slot that holds its address; None: it is in the arena, at `offset`.
        born, dies: the first and the last instruction that need it: its live range.
        past: the last instruction after whose end it is still needed: by the next iteration of a loop, or as a result.
        seen: the last instruction that reads it, loops not considered.
        carried: it holds a loop variable or the result of a branch.
        heirs: buffers that may reuse this one's memory, if its live range ends where theirs begins.
    """

    nbytes: int
    slot: int | None = None
    offset: int = 0
    born: int = -1
    dies: int = -1
    past: int = -1
    seen: int = -1
    carried: bool = False
    heirs: list[Buffer] = field(default_factory=list)

    def keep_past(self, position: int) -> None:
        """Extend its live range past the end of an instruction: the outputs made there must not reuse its memory."""
        self.dies, self.past = max(self.dies, position), max(self.past, position)

    def may_pass_on(self, heir: Buffer) -> bool:
        """Whether the memory is free, and large enough, when the live range of an heir begins."""
        return self.past < self.dies == heir.born and _rounded(self.nbytes) == _rounded(heir.nbytes)


@dataclass(slots=True, eq=False)
class Local:
    """A value in memory: a buffer, an offset in bytes in it, and the value's spec."""

    buffer: Buffer
    offset: int
    spec: Spec


def lay_out(buffers: Iterable[Buffer]) -> int:
    """Give every arena buffer its offset; returns the size of the arena in bytes."""
    arena = _Arena()
    ends: dict[int, list[Buffer]] = {}
    given: set[int] = set()
    inherits = {id(heir): buffer for buffer in buffers for heir in buffer.heirs}
    for buffer in sorted((b for b in buffers if b.slot is None), key=lambda b: b.born):
        for time in sorted(time for time in ends if time < buffer.born):
            for old in ends.pop(time):
                if id(old) not in given:
                    arena.release(old)
        parent = inherits.get(id(buffer))
        if (
            parent is not None
            and parent.slot is None
            and id(parent) not in given
            and parent.may_pass_on(buffer)
        ):
            given.add(id(parent))
            buffer.offset = parent.offset
        else:
            buffer.offset = arena.take(buffer.nbytes)
        ends.setdefault(buffer.dies, []).append(buffer)
    return arena.size


def _rounded(nbytes: int) -> int:
    return -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT


class _Arena:
    """Free ranges of an arena that grows at its end."""

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []  # (offset, bytes), by offset, never adjacent

    def take(self, nbytes: int) -> int:
        nbytes = _rounded(nbytes)
        fitting = [(length, offset) for offset, length in self._free if length >= nbytes]
        if fitting:
            length, offset = min(fitting)
            self._free.remove((offset, length))
            if length > nbytes:
                self._insert(offset + nbytes, length - nbytes)
            return offset
        offset = self.size
        if self._free and sum(self._free[-1]) == self.size:
            offset, _ = self._free.pop()
        self.size = offset + nbytes
        return offset

    def release(self, buffer: Buffer) -> None:
        self._insert(buffer.offset, _rounded(buffer.nbytes))

    def _insert(self, offset: int, length: int) -> None:
        merged = []
        for start, size in self._free:
            if start + size == offset:
                offset, length = start, length + size
            elif offset + length == start:
                length += size
            else:
                merged.append((start, size))
        merged.append((offset, length))
        self._free = sorted(merged)
