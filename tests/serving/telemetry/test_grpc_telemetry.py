"""Metrics and spans of gRPC calls, the spans with the caller's context."""

import grpc
import pytest

from aioexec.serving import serve
from aioexec.serving.application_keys import METRICS
from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.serving.echo_models import Served
from tests.serving.telemetry.test_telemetry import TRACEPARENT, spans as spans
from tests.serving.test_grpc_listening import INFER, STREAM, request, status_of

pytestmark = pytest.mark.network


@pytest.fixture
async def server():
    async with serve(Served().repository, grpc_port=0) as server:
        yield server


@pytest.fixture
async def channel(server):
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        yield channel


async def test_the_span_of_a_call_continues_the_callers_trace(channel, spans):
    await channel.unary_unary(INFER)(request(), metadata=[("traceparent", TRACEPARENT)])
    await status_of(channel.unary_unary(INFER)(b"\x0a\x7f"))

    run, call, failed = spans.get_finished_spans()
    assert call.name == INFER.lstrip("/")
    assert format(call.context.trace_id, "032x") == TRACEPARENT[3:35]
    assert format(call.parent.span_id, "016x") == TRACEPARENT[36:52]
    assert run.parent.span_id == call.context.span_id
    assert dict(call.attributes) == {"rpc.grpc.status_code": 0}
    assert (dict(failed.attributes), failed.status.is_ok) == ({"rpc.grpc.status_code": 3}, False)


async def test_a_stream_is_one_request_in_the_metrics(server, channel):
    async def requests():
        for _ in range(3):
            yield request()

    replies = [each async for each in channel.stream_stream(STREAM)(requests())]
    text = (await server.app[METRICS].reply()).decode()

    assert len(replies) == 3
    assert f'aioexec_requests_total{{code="OK",method="{STREAM}",protocol="grpc"}} 1.0' in text
