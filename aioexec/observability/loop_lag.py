"""Measures how long the event loop is blocked: a heartbeat that records its lateness.

A loop that is blocked for 50 ms delays one beat, and suppresses the 49 that were due meanwhile. Counting only the delayed one
would hide the pause from the percentiles, so the suppressed beats are counted with the lateness they would have had.

Measured in real time (`perf_counter`), whatever the loop's own clock. Loops round timers up to 1 ms themselves, so an idle loop
shows up to about 1 ms.
"""

import asyncio
import math
from collections.abc import Sequence
from time import perf_counter
from types import TracebackType
from typing import Self

from aioexec.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class LoopLag:
    """The lateness of the heartbeats, in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float
    beats: int

    @classmethod
    def of(cls, lateness: Sequence[float]) -> "LoopLag":
        """Summarise lateness values given in seconds."""
        ordered = sorted(lateness)
        if not ordered:
            return cls(0.0, 0.0, 0.0, 0)
        return cls(
            p50_ms=_percentile(ordered, 0.50) * 1e3,
            p99_ms=_percentile(ordered, 0.99) * 1e3,
            max_ms=ordered[-1] * 1e3,
            beats=len(ordered),
        )

    def __str__(self) -> str:
        return f"p50 {self.p50_ms:.2f} ms, p99 {self.p99_ms:.2f} ms, max {self.max_ms:.2f} ms"


class LoopLagProbe:
    """Measures the lag of the running loop; used with `async with`.

    async with LoopLagProbe() as probe:
        await work()
    assert probe.result().p99_ms < 5
    """

    def __init__(self, interval: float = 0.001) -> None:
        self._interval = interval
        self._lateness: list[float] = []
        self._worst = 0.0  # their maximum: `result` sorts all, which is too slow for a live display
        self._due = 0.0  # when the pending beat is due, by perf_counter
        self._timer: asyncio.TimerHandle | None = None  # the pending beat; None outside `async with`

    async def __aenter__(self) -> Self:
        if self._timer is not None:
            raise RuntimeError("LoopLagProbe is already running")
        self._schedule(asyncio.get_running_loop())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._record(perf_counter())  # the beat pending at the end of the block may be late already

    @property
    def worst_ms(self) -> float:
        """The greatest lag seen so far."""
        return self._worst * 1e3

    def result(self) -> LoopLag:
        """Return the lag seen so far."""
        return LoopLag.of(self._lateness)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = perf_counter() + self._interval
        self._timer = loop.call_later(self._interval, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        late = self._record(perf_counter())
        if not late:  # fired early: the loop's timers are coarser than ours
            self._lateness.append(0.0)
        self._schedule(loop)

    def _record(self, now: float) -> bool:
        """Record the lateness of the due beat and of those it suppressed; return whether it was late."""
        lateness = now - self._due
        late = lateness > 0
        self._worst = max(self._worst, lateness)
        while lateness > 0:
            self._lateness.append(lateness)
            lateness -= self._interval
        return late


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
