"""OpenTelemetry spans of requests and runs, with the W3C context of the caller; nothing without the extra `otel`.

Spans are made only when the program has configured OpenTelemetry's SDK: otherwise they are not exported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aioexec.errors import OK
from aioexec.formats.protos.error_codes_pb2 import Code
from aioexec.serving.models.run_listeners import Run

try:
    from opentelemetry import propagate, trace
    from opentelemetry.trace import ProxyTracerProvider, SpanKind, Status, StatusCode
except ImportError:  # the extra `otel` is not installed
    _IS_INSTALLED = False
else:
    _IS_INSTALLED = True

_NAME = "aioexec.serving"


def is_traced() -> bool:
    """Whether the program has configured tracing."""
    return _IS_INSTALLED and not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


@contextmanager
def request_span(name: str, headers: Mapping[str, str]) -> Iterator[Any]:
    """Make a span of a request the current one in the block; a child of the span in `headers`."""
    tracer = trace.get_tracer(_NAME)
    context = propagate.extract({key.lower(): value for key, value in headers.items()})
    with tracer.start_as_current_span(name, context, SpanKind.SERVER) as span:
        yield span


def trace_id_of(span: Any) -> str:
    """Return the hexadecimal trace id of a span."""
    return format(span.get_span_context().trace_id, "032x")


def set_status(span: Any, status: int) -> None:
    """Set the HTTP status of a request's span."""
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        span.set_status(Status(StatusCode.ERROR))


def set_code(span: Any, code: int) -> None:
    """Set the canonical code of a gRPC call's span."""
    span.set_attribute("rpc.grpc.status_code", code)
    if code != OK:
        span.set_status(Status(StatusCode.ERROR, Code.Name(code)))


class RunSpans:
    """A listener of runs that makes a span of each, below the request's."""

    def on_run(self, run: Run) -> None:
        """Make the span of a run, which has just ended."""
        if not is_traced():
            return
        end = time.time_ns()
        span = trace.get_tracer(_NAME).start_span(
            f"run {run.model}",
            attributes={
                "aioexec.model": run.model,
                "aioexec.version": run.version,
                "aioexec.signature": run.signature,
                "aioexec.rows": run.rows,
            },
            start_time=end - int(run.seconds * 1e9),
        )
        if run.code != OK:
            span.set_status(Status(StatusCode.ERROR, Code.Name(run.code)))
        span.end(end)

    def on_step(self, model: str, version: int, rows: int) -> None:
        """Steps of several requests have no span."""

    def on_unload(self, model: str, version: int) -> None:
        """There is nothing to end."""
