"""Datasets whose elements are computed ahead of the caller."""

from __future__ import annotations

from collections import deque

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError, OpError
from aioexec.resources.datasets.dataset import Derived, Memory, Pass
from aioexec.resources.datasets.work import Done, Element, Failed, Request, Turns, Work

AUTOTUNE = -1
_AUTOTUNED = 8
"""Elements that are computed ahead if the buffer's size is up to us."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefetchDataset(Derived):
    """The elements of another dataset, up to `size` of them ahead of the caller."""

    size: int

    def __post_init__(self) -> None:
        if self.size < 0 and self.size != AUTOTUNE:
            raise InvalidArgumentError(
                f"buffer_size must be >= 0 or set buffer_size to be {AUTOTUNE} for auto-tuning, got {self.size}"
            )

    def begin(self, memory: Memory) -> Pass:
        source = self.source.begin(memory)
        if self.size == 0:
            return source
        return Prefetched(source, _AUTOTUNED if self.size == AUTOTUNE else self.size)


class Prefetched:
    """A pass ahead of its caller: `_buffer` are elements and errors, in order; `has_ended`: the source has.

    `_filling` is the request that fills the buffer, `_arrival` the signal of its next element.
    """

    def __init__(self, source: Pass, size: int) -> None:
        self.source = source
        self.size = size
        self.buffer: deque[Request] = deque()
        self.has_ended = False
        self.arrival = Request()
        self._filling: Request = Done(())

    def next(self, work: Work) -> Element | Request | None:
        if self.buffer:
            first = self.buffer.popleft()
            self.fill(work)
            return first.outcome()
        if self.has_ended:
            return None
        self.fill(work)
        return self.arrival

    def fill(self, work: Work) -> None:
        """Begin to fill the buffer, unless it is full or being filled."""
        if self.has_ended or len(self.buffer) >= self.size:
            return
        if not self._filling.is_open:
            self._filling = _Filling(self)
        work.start(self._filling)


class _Filling(Request):
    """Fills the buffer of a pass."""

    __slots__ = ("_pass",)
    is_signal = False

    def __init__(self, through: Prefetched) -> None:
        super().__init__()
        self._pass = through

    async def run(self, work: Work) -> Element:
        through, turns = self._pass, Turns()
        try:
            while not through.has_ended and len(through.buffer) < through.size:
                found = turns.due() or _advanced(through, work)
                if isinstance(found, Request) and found.is_open:
                    await work.wait(found)
        finally:
            through.arrival.wake()  # also when the session closes: the next one that waits fills the buffer
        return ()


def _advanced(through: Prefetched, work: Work) -> Request | None:
    """Let the source advance: return the request it waits for; None if an element, an error or the end has come."""
    try:
        found = through.source.next(work)
    except OpError as error:
        through.buffer.append(Failed(error))
    else:
        if isinstance(found, Request):
            return found
        if found is None:
            through.has_ended = True
        else:
            through.buffer.append(Done(found))
    through.arrival.wake()
    return None
