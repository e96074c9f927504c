"""Metrics of the process: counters of sessions, steps, errors and bytes, and durations of steps.

    metrics.snapshot()      # {"aioexec_steps_total": 3, "aioexec_step_errors_total": {"NOT_FOUND": 1}, …}
    metrics.exposition()    # the same as text that Prometheus scrapes

An increment is an addition to an attribute, without a lock: under the interpreter lock it is atomic, as no call is between the
read and the write. A reader may see a counted step whose bytes are not counted yet; each number by itself is correct.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TypeVar

Snapshot = dict[str, int | dict[str, int]]
_BUCKETS = 64
"""More than any duration in nanoseconds needs, so the index is not checked."""


class Metric(ABC):
    """The base of metrics: a name, a description, and its current values."""

    __slots__ = ("help", "name")
    kind = "untyped"

    def __init__(self, name: str, help: str) -> None:
        self.name = name
        self.help = help

    @abstractmethod
    def read(self) -> int | dict[str, int]:
        """The current value."""

    @abstractmethod
    def samples(self) -> Iterator[str]:
        """The lines of the text exposition, without the header."""


class Counter(Metric):
    """A number that only increases."""

    __slots__ = ("value",)
    kind = "counter"

    def __init__(self, name: str, help: str) -> None:
        super().__init__(name, help)
        self.value = 0

    def increment(self, by: int = 1) -> None:
        self.value += by

    def read(self) -> int:
        return self.value

    def samples(self) -> Iterator[str]:
        yield f"{self.name} {self.value}"


class Gauge(Counter):
    """A number that increases and decreases."""

    __slots__ = ()
    kind = "gauge"

    def decrement(self, by: int = 1) -> None:
        self.value -= by


class LabelledCounter(Metric):
    """A counter for each value of a label; values without a count are left out."""

    __slots__ = ("label", "values")
    kind = "counter"

    def __init__(self, name: str, help: str, label: str) -> None:
        super().__init__(name, help)
        self.label = label
        self.values: dict[str, int] = {}

    def increment(self, value: str, by: int = 1) -> None:
        # setdefault is atomic: two threads cannot both start a label value at zero.
        self.values.setdefault(value, 0)
        self.values[value] += by

    def read(self) -> dict[str, int]:
        return dict(self.values)

    def samples(self) -> Iterator[str]:
        for value, count in sorted(self.values.copy().items()):
            yield f'{self.name}{{{self.label}="{_escape(value)}"}} {count}'


class Durations(Metric):
    """A histogram of durations, with buckets that end at powers of two microseconds."""

    __slots__ = ("buckets", "nanoseconds")
    kind = "histogram"

    def __init__(self, name: str, help: str) -> None:
        super().__init__(name, help)
        self.buckets = [0] * _BUCKETS
        self.nanoseconds = 0

    def record(self, nanoseconds: int) -> None:
        """Record a duration of at least 1 ns; the bucket that ends at 2**b µs contains those above 2**(b-1) µs."""
        self.buckets[((nanoseconds - 1) // 1000).bit_length()] += 1
        self.nanoseconds += nanoseconds

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def read(self) -> dict[str, int]:
        return {"count": self.count, "sum": self.nanoseconds // 1000, **self._accumulate()}

    def _accumulate(self) -> dict[str, int]:
        """Cumulative counts by the upper bounds of buckets; buckets that add nothing are left out."""
        found, total = {}, 0
        for bucket, count in enumerate(self.buckets):
            total += count
            if count:
                found[str(2**bucket)] = total
        return found

    def samples(self) -> Iterator[str]:
        cumulated, count = self._accumulate(), self.count
        for end, total in (*cumulated.items(), ("+Inf", count)):
            yield f'{self.name}_bucket{{le="{end}"}} {total}'
        yield f"{self.name}_sum {self.nanoseconds // 1000}"
        yield f"{self.name}_count {count}"


AnyMetric = TypeVar("AnyMetric", bound=Metric)


class Metrics:
    """Metrics by name."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}

    def add(self, metric: AnyMetric) -> AnyMetric:
        assert metric.name not in self._metrics, metric.name
        self._metrics[metric.name] = metric
        return metric

    def snapshot(self) -> Snapshot:
        """All current values."""
        return {name: metric.read() for name, metric in self._metrics.items()}

    def exposition(self) -> str:
        """All current values in Prometheus' text format, version 0.0.4."""
        return "".join(f"{line}\n" for metric in self._metrics.values() for line in _exposition_lines(metric))


def _exposition_lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    yield from metric.samples()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# The metrics of this process

_process = Metrics()
snapshot = _process.snapshot
exposition = _process.exposition

SESSIONS = _process.add(Counter("aioexec_sessions_total", "Sessions created."))
SESSIONS_OPEN = _process.add(Gauge("aioexec_sessions_open", "Sessions created and not yet closed."))
STEPS = _process.add(Counter("aioexec_steps_total", "Steps that ended, well or not."))
STEP_ERRORS = _process.add(LabelledCounter("aioexec_step_errors_total", "Steps that failed.", "code"))
FED_BYTES = _process.add(Counter("aioexec_fed_bytes_total", "Bytes of values fed."))
FETCHED_BYTES = _process.add(Counter("aioexec_fetched_bytes_total", "Bytes of values fetched."))
STEP_MICROS = _process.add(Durations("aioexec_step_microseconds", "How long steps took."))


def count_step(nanoseconds: int, fed_bytes: int = 0, fetched_bytes: int = 0) -> None:
    """Count a step that succeeded, with one call."""
    STEPS.value += 1
    FED_BYTES.value += fed_bytes
    FETCHED_BYTES.value += fetched_bytes
    STEP_MICROS.record(nanoseconds)


def count_failed_step(nanoseconds: int, code: str) -> None:
    """Count a failed step, by the name of its error's code."""
    STEPS.value += 1
    STEP_ERRORS.increment(code)
    STEP_MICROS.record(nanoseconds)
