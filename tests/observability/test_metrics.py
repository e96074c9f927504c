"""Metrics: values as numbers and as Prometheus' text; counting costs next to nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from aioexec.observability import metrics
from aioexec.observability.metrics import Counter, Durations, Gauge, LabelledCounter, Metrics


@pytest.fixture
def own() -> Metrics:
    return Metrics()


def test_counters_and_gauges_are_read_by_their_names(own: Metrics):
    steps = own.add(Counter("steps_total", "Steps."))
    running = own.add(Gauge("running", "Now."))
    errors = own.add(LabelledCounter("errors_total", "Errors.", "code"))

    steps.increment()
    steps.increment(4)
    running.increment(3)
    running.decrement()
    errors.increment("NOT_FOUND")
    errors.increment("ABORTED")
    errors.increment("NOT_FOUND", 2)

    assert own.snapshot() == {
        "steps_total": 5,
        "running": 2,
        "errors_total": {"NOT_FOUND": 3, "ABORTED": 1},
    }


def test_the_text_is_what_prometheus_reads(own: Metrics):
    own.add(Counter("steps_total", "Steps.")).increment(7)
    own.add(Gauge("running", "Now.")).increment()
    errors = own.add(LabelledCounter("errors_total", "Errors.", "code"))
    errors.increment('a "b"\\\n')
    errors.increment("A")
    micros = own.add(Durations("micros", "Times."))
    for nanoseconds in (900, 3_000, 4_000, 5_000):
        micros.record(nanoseconds)

    assert own.exposition().splitlines() == [
        "# HELP steps_total Steps.",
        "# TYPE steps_total counter",
        "steps_total 7",
        "# HELP running Now.",
        "# TYPE running gauge",
        "running 1",
        "# HELP errors_total Errors.",
        "# TYPE errors_total counter",
        'errors_total{code="A"} 1',
        'errors_total{code="a \\"b\\"\\\\\\n"} 1',
        "# HELP micros Times.",
        "# TYPE micros histogram",
        'micros_bucket{le="1"} 1',
        'micros_bucket{le="4"} 3',
        'micros_bucket{le="8"} 4',
        'micros_bucket{le="+Inf"} 4',
        "micros_sum 12",
        "micros_count 4",
    ]


@pytest.mark.parametrize(
    ("nanoseconds", "end"),
    [(1, "1"), (1_000, "1"), (1_001, "2"), (2_000, "2"), (2_001, "4"), (2**63 - 1, str(2**54))],
)
def test_a_duration_goes_to_the_first_bucket_that_does_not_end_before_it(nanoseconds: int, end: str):
    durations = Durations("d", "D.")

    durations.record(nanoseconds)

    assert durations.read() == {"count": 1, "sum": nanoseconds // 1000, end: 1}


def test_threads_lose_no_count(own: Metrics):
    counter = own.add(Counter("n", "N."))
    labelled = own.add(LabelledCounter("l", "L.", "k"))
    ready = threading.Barrier(4)

    def count() -> None:
        ready.wait()
        for _ in range(5_000):
            counter.increment()
            labelled.increment("x")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert own.snapshot() == {"n": 20_000, "l": {"x": 20_000}}


def changes() -> Iterator[dict[str, int]]:
    """The increments of the process's plain counters since the last call."""
    before = metrics.snapshot()
    while True:
        now = metrics.snapshot()
        yield {
            name: value - was
            for name, value in now.items()
            if isinstance(value, int) and isinstance(was := before[name], int) and value != was
        }
        before = now


def test_a_step_is_counted_in_one_call():
    watched = changes()
    next(watched)
    timed, failed = metrics.STEP_MICROS.count, metrics.STEP_ERRORS.read().get("ABORTED", 0)

    metrics.count_step(5_000, fed_bytes=16, fetched_bytes=8)
    assert next(watched) == {
        "aioexec_steps_total": 1,
        "aioexec_fed_bytes_total": 16,
        "aioexec_fetched_bytes_total": 8,
    }

    metrics.count_failed_step(1_000, "ABORTED")
    assert next(watched) == {"aioexec_steps_total": 1}
    assert metrics.STEP_ERRORS.read()["ABORTED"] == failed + 1
    assert metrics.STEP_MICROS.count == timed + 2
