"""The durations of a server's runs between two samples, as a histogram of bounded size."""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

from aioexec.errors import OK
from aioexec.serving.models.run_listeners import Run

_BINS_PER_OCTAVE: Final = 8
"""A bin ends 9 % above its start, so a percentile is off by at most that."""

_SHORTEST: Final = 1e-6


class RunDurations:
    """A listener of a repository: counts runs by the binary logarithm of their duration. Called on the loop's thread."""

    def __init__(self) -> None:
        self.failed = 0
        self._bins: Counter[int] = Counter()

    def on_run(self, run: Run) -> None:
        self.failed += run.code != OK
        self._bins[math.ceil(math.log2(max(run.seconds, _SHORTEST)) * _BINS_PER_OCTAVE)] += 1

    def on_step(self, model: str, version: int, rows: int) -> None:
        """Steps are not shown: with batching one step answers several requests."""

    def on_unload(self, model: str, version: int) -> None:
        """Runs are counted together."""

    def clear(self) -> None:
        """Begin anew."""
        self.failed = 0
        self._bins.clear()

    @property
    def count(self) -> int:
        return self._bins.total()

    def percentile_ms(self, share: float) -> float:
        """Return the duration in milliseconds that a share of the runs does not exceed; there must be runs."""
        left = math.ceil(share * self.count)
        for index, count in sorted(self._bins.items()):
            left -= count
            if left <= 0:
                return float(2.0 ** (index / _BINS_PER_OCTAVE)) * 1e3
        raise AssertionError("there are no runs")
