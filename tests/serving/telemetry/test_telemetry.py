"""Metrics that Prometheus's parser reads, OpenTelemetry's spans with the caller's context, logs as JSON."""

import asyncio
import json
import logging

import numpy as np
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

import aioexec as ax
from aioexec.errors import OK, UNKNOWN, InvalidArgumentError
from aioexec.serving.admission import Admission
from aioexec.serving.limits import Limits
from aioexec.serving.models.run_listeners import Run
from aioexec.serving.repository import Repository
from aioexec.serving.telemetry.logs import ACCESS_LOGGER, JsonFormatter
from aioexec.serving.telemetry.metrics import Metrics
from tests.serving.memory_connection import MemoryConnection, connections, post
from tests.serving.signatures import Fake

pytestmark = pytest.mark.usefixtures("virtual_clock")

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 2], name="x")

PATH = "/v1/models/adder:predict"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def add(x):
    if x[0, 0] == 0:
        raise InvalidArgumentError("zero")
    return {"y": np.sum(x, axis=1)}


@pytest.fixture
async def server():
    async with connections({"adder": Fake({"x": X}, {"y": X}, add)}) as opened:
        yield opened


async def sent(server, *requests):
    connection = MemoryConnection(server())
    for request in requests:
        connection.send(request)
        await connection.answers()
    answers = await connection.answers()
    connection.leave()
    return answers


def samples(text, name):
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


async def test_prometheus_reads_the_metrics(server):
    await sent(
        server,
        post(PATH, b'{"instances": [[1, 2], [3, 4], [5, 6]]}'),
        post(PATH, b'{"instances": [[0, 0]]}'),
        post("/v1/models/none:predict", b"{}"),
        post("/" + "x" * 50, b""),
    )
    await asyncio.sleep(1)
    (answer,) = await sent(server, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")

    text = answer.body.decode()
    route = "/v1/models/{name}:predict"
    assert samples(text, "aioexec_requests_total") == {
        ("200", route, "http"): 1,
        ("400", route, "http"): 1,
        ("404", route, "http"): 1,
        ("404", "", "http"): 1,
    }
    assert samples(text, "aioexec_runs_total") == {
        ("OK", "adder", "serving_default", "1"): 1,
        ("INVALID_ARGUMENT", "adder", "serving_default", "1"): 1,
    }
    assert samples(text, "aioexec_step_rows_sum") == {("adder", "1"): 4}
    states = samples(text, "aioexec_model_version_state")
    assert {state for (_, state, _), value in states.items() if value} == {"AVAILABLE"}
    assert len(states) == 5
    assert samples(text, "aioexec_requests_under_way") == {(): 0}
    assert samples(text, "aioexec_loop_lag_seconds_count")[()] == pytest.approx(20, abs=2)


async def test_a_closed_version_leaves_no_time_series():
    metrics = Metrics(Repository({}), Admission(Limits()))
    runs = [
        Run("adder", version, "serving_default", 1, 0.1, code) for version in (1, 2) for code in (OK, UNKNOWN)
    ]
    for run in runs:
        metrics.on_run(run)
        metrics.on_step(run.model, run.version, 1)

    metrics.on_unload("adder", 1)
    metrics.on_unload("adder", 3)

    text = (await metrics.reply()).decode()
    assert {version for *_, version in samples(text, "aioexec_runs_total")} == {"2"}
    for name in ("aioexec_run_seconds_count", "aioexec_step_rows_count"):
        assert samples(text, name).keys() == {("adder", "2")}
    metrics.on_run(runs[0])  # it is loaded again
    assert samples((await metrics.reply()).decode(), "aioexec_run_seconds_count")["adder", "1"] == 1


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


async def test_spans_of_a_request_and_its_run_continue_the_callers_trace(server, spans):
    await sent(server, post(PATH, b'{"instances": [[1, 2], [3, 4]]}', f"traceparent: {TRACEPARENT}"))

    run, request = spans.get_finished_spans()
    assert request.name == "POST /v1/models/{name}:predict"
    assert format(request.context.trace_id, "032x") == TRACEPARENT[3:35]
    assert format(request.parent.span_id, "016x") == TRACEPARENT[36:52]
    assert request.attributes == {"http.response.status_code": 200}
    assert run.parent.span_id == request.context.span_id
    assert run.name == "run adder"
    assert dict(run.attributes) == {
        "aioexec.model": "adder",
        "aioexec.version": 1,
        "aioexec.signature": "serving_default",
        "aioexec.rows": 2,
    }


async def test_a_failed_run_has_a_span_with_its_error(server, spans):
    await sent(server, post(PATH, b'{"instances": [[0, 0]]}'))

    run, request = spans.get_finished_spans()
    assert run.status.description == "INVALID_ARGUMENT"
    assert request.attributes == {"http.response.status_code": 400}


async def test_each_request_is_logged_as_a_line_of_json(server, spans, caplog):
    caplog.set_level(logging.INFO, ACCESS_LOGGER)
    await sent(server, post(PATH, b'{"instances": [[1, 2]]}', f"traceparent: {TRACEPARENT}"))

    (record,) = [each for each in caplog.records if each.name == ACCESS_LOGGER]
    line = json.loads(JsonFormatter().format(record))
    assert {name: line[name] for name in ("level", "protocol", "method", "path", "status", "trace_id")} == {
        "level": "INFO",
        "protocol": "http",
        "method": "POST",
        "path": PATH,
        "status": 200,
        "trace_id": TRACEPARENT[3:35],
    }
    assert line["message"].startswith(f"POST '{PATH}' 200 ")
