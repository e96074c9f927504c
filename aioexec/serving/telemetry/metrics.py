"""Prometheus metrics of a server: requests, runs of models, states of versions, lag of the event loop.

Labels have few values: routes instead of paths, models that exist, states. So clients cannot add time series; those of a
version are removed when it is closed.
"""

from __future__ import annotations

import contextlib
from typing import Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from aioexec.errors import OK
from aioexec.formats.protos.error_codes_pb2 import Code
from aioexec.in_thread import in_thread
from aioexec.serving.admission import Admission
from aioexec.serving.models.run_listeners import Run
from aioexec.serving.models.version_status import VersionState
from aioexec.serving.repository import Repository

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_ROWS: Final = tuple(1 << power for power in range(11))


class Metrics:
    """The metrics of one server, in a registry of their own.

    It is a listener of the repository's runs. `reply` is called on the loop's thread, which owns the repository.

    Growing: `_of_requests` and `_of_runs`, the time series of each combination of labels, to find them by one look-up.
    """

    def __init__(self, repository: Repository, admission: Admission) -> None:
        self._repository = repository
        self._of_requests: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self._of_runs: dict[tuple[str, int, str, int], tuple[Counter, Histogram | None]] = {}
        registry = self._registry = CollectorRegistry()
        self._requests = Counter(
            "aioexec_requests", "Requests that have ended", ("protocol", "method", "code"), registry=registry
        )
        self._request_seconds = Histogram(
            "aioexec_request_seconds",
            "Time from a request's head to its reply",
            ("protocol", "method"),
            buckets=_SECONDS,
            registry=registry,
        )
        under_way = Gauge("aioexec_requests_under_way", "Requests under way", registry=registry)
        under_way.set_function(lambda: admission.requests)
        self._runs = Counter(
            "aioexec_runs",
            "Requests that a model has run",
            ("model", "version", "signature", "code"),
            registry=registry,
        )
        self._run_seconds = Histogram(
            "aioexec_run_seconds",
            "Time of a model's run, with its time in a queue for batching",
            ("model", "version"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._steps = Histogram(
            "aioexec_step_rows",
            "Rows of the steps that a model has run: the sizes of batches",
            ("model", "version"),
            buckets=_ROWS,
            registry=registry,
        )
        self._states = Gauge(
            "aioexec_model_version_state",
            "1 for the state that a version has",
            ("model", "version", "state"),
            registry=registry,
        )
        self._lag = Histogram(
            "aioexec_loop_lag_seconds",
            "How late the event loop runs timers",
            buckets=_SECONDS,
            registry=registry,
        )

    def on_request(self, protocol: str, method: str, code: str, seconds: float) -> None:
        """Count a request that has ended; `method` is its route or its gRPC method."""
        labels = protocol, method, code
        found = self._of_requests.get(labels)
        if found is None:
            found = self._requests.labels(*labels), self._request_seconds.labels(protocol, method)
            self._of_requests[labels] = found
        count, times = found
        count.inc()
        times.observe(seconds)

    def on_run(self, run: Run) -> None:
        """Count a request that a model has run."""
        labels = run.model, run.version, run.signature, run.code
        found = self._of_runs.get(labels)
        if found is None:
            version = str(run.version)
            count = self._runs.labels(run.model, version, run.signature, Code.Name(run.code))
            found = count, self._run_seconds.labels(run.model, version) if run.code == OK else None
            self._of_runs[labels] = found
        count, times = found
        count.inc()
        if times is not None:
            times.observe(run.seconds)

    def on_step(self, model: str, version: int, rows: int) -> None:
        """Count a step that a model has run."""
        self._steps.labels(model, str(version)).observe(rows)

    def on_unload(self, model: str, version: int) -> None:
        """Remove the time series of a version: a server that follows a folder for months would keep those of all."""
        for labels in [each for each in self._of_runs if each[:2] == (model, version)]:
            del self._of_runs[labels]
            _, _, signature, code = labels
            self._runs.remove(model, str(version), signature, Code.Name(code))
        for histogram in (self._run_seconds, self._steps):
            with contextlib.suppress(KeyError):  # the version has run nothing
                histogram.remove(model, str(version))

    def on_lag(self, seconds: float) -> None:
        """Record how late a timer was."""
        self._lag.observe(seconds)

    async def reply(self) -> bytes:
        """Return the metrics as text in Prometheus's format."""
        self._states.clear()
        for name in self._repository.names():
            for status in self._repository.status(name):
                for state in VersionState:
                    self._states.labels(name, str(status.version), state.name).set(status.state is state)
        return await in_thread(generate_latest, self._registry)
