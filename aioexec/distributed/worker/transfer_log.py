"""A record of the values received from other tasks; kept while logging is on."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from time import perf_counter_ns
from typing import Any

import numpy as np

from aioexec.execution.rendezvous import parse_key
from aioexec.observability.step_stats import StepStatsCollector

MOST_LOGGED = 1 << 10


class TransferLog:
    """The values received in the latest steps, by step id, the oldest first; nothing is recorded unless `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self._steps: OrderedDict[int, StepStatsCollector] = OrderedDict()

    def note(self, step_id: int, key: str, began: int, value: Any) -> None:
        """Record a value that was requested, or was pushed, at time `began` of `perf_counter_ns`."""
        if step_id not in self._steps and len(self._steps) >= MOST_LOGGED:
            self._steps.popitem(last=False)
        collector = self._steps.setdefault(step_id, StepStatsCollector())
        parsed = parse_key(key)
        outputs = [(0, value.dtype.name, value.shape, value.nbytes)] if isinstance(value, np.ndarray) else []
        collector.node_done(
            parsed.dst_device,
            "RecvTensor",
            "RecvTensor",
            began,
            began,
            perf_counter_ns(),
            threading.get_native_id(),
            outputs,
            [f"{parsed.edge_name} from {parsed.src_device}"],
        )

    def step_stats_of(self, step_ids: Iterable[int]) -> dict[int, Any]:
        """The StepStats of those of the steps with received values."""
        return {each: self._steps[each].step_stats() for each in step_ids if each in self._steps}

    def clear(self) -> None:
        self._steps.clear()
