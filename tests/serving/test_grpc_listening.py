"""The gRPC port of a server: real sockets, tokens, limits, deadlines, cancellation and drain."""

import asyncio
from typing import Any

import grpc
import numpy as np
import pytest

from aioexec.distributed.security.security import Security
from aioexec.errors import FailedPreconditionError, InternalError
from aioexec.formats.protos import DataType
from aioexec.serving import Limits, serve
from aioexec.serving.application_keys import METRICS
from aioexec.serving.protos import inference_pb2 as pb, prediction_pb2
from tests.distributed.certificates import make_authority
from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.serving.echo_models import Served

pytestmark = pytest.mark.network

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
READY = "/inference.GRPCInferenceService/ServerReady"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
RELOAD = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
HEALTH = "/grpc.health.v1.Health/Check"


@pytest.fixture
async def served():
    return Served()


@pytest.fixture
async def channels():
    made = []

    def connect(server):
        channel = grpc.aio.insecure_channel(
            server.grpc_address, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        made.append(channel)
        return channel

    yield connect
    for channel in made:
        await channel.close()


def request(rows=1):
    x, y = np.zeros((rows, 2), np.float32), np.zeros(rows, np.int64)
    return pb.ModelInferRequest(
        model_name="echo",
        inputs=[
            {"name": "x", "datatype": "FP32", "shape": x.shape},
            {"name": "y", "datatype": "INT64", "shape": y.shape},
        ],
        raw_input_contents=[x.tobytes(), y.tobytes()],
    ).SerializeToString()


class GoneCaller:
    """The context of a call whose client has gone; `status` is what the server has set."""

    def __init__(self) -> None:
        self.status: list[Any] = []
        self.set_code = self.set_details = self.set_trailing_metadata = self.status.append

    def peer(self):
        return "ipv4:127.0.0.1:1"

    def invocation_metadata(self):
        return ()

    def time_remaining(self):
        return None

    async def write(self, reply):
        raise grpc.aio.InternalError("sending has failed")


async def status_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code().name, failed.value.details()


@pytest.mark.both_loops
async def test_each_protocol_answers_on_one_port(served, channels):
    predict = prediction_pb2.PredictRequest(model_spec={"name": "strings", "signature_name": "only"})
    predict.inputs["s"].dtype = DataType.DT_STRING
    predict.inputs["s"].tensor_shape.dim.add(size=1)
    predict.inputs["s"].string_val.append(b"a")
    async with serve(served.repository, grpc_port=0) as server:
        channel = channels(server)
        ready = await channel.unary_unary(READY)(b"")
        inferred = await channel.unary_unary(INFER)(request())
        predicted = await channel.unary_unary(PREDICT)(predict.SerializeToString())

    assert pb.ServerReadyResponse.FromString(ready).ready
    assert pb.ModelInferResponse.FromString(inferred).model_version == "1"
    assert prediction_pb2.PredictResponse.FromString(predicted).outputs["s"].string_val[0] == b"a"


async def test_the_calls_are_in_the_metrics(served, channels):
    async with serve(served.repository, grpc_port=0) as server:
        channel = channels(server)
        await channel.unary_unary(INFER)(request())
        await status_of(channel.unary_unary(INFER)(b"\x0a\x7f"))
        text = (await server.app[METRICS].reply()).decode()

    for code in ("OK", "INVALID_ARGUMENT"):
        assert f'aioexec_requests_total{{code="{code}",method="{INFER}",protocol="grpc"}} 1.0' in text


async def test_a_stream_ends_when_its_requests_end(served, channels):
    async def requests():
        for _ in range(3):
            yield request()

    async with serve(served.repository, grpc_port=0) as server:
        replies = [each async for each in channels(server).stream_stream(STREAM)(requests())]

    assert len(replies) == 3


async def test_an_error_has_its_code_and_message(served, channels):
    served.default.error = InternalError("broken")
    async with serve(served.repository, grpc_port=0) as server:
        channel = channels(server)
        broken = await status_of(channel.unary_unary(INFER)(request()))
        malformed = await status_of(channel.unary_unary(INFER)(b"\x0a\x7f"))
        unknown = await status_of(channel.unary_unary("/inference.GRPCInferenceService/Other")(b""))

    assert broken == ("INTERNAL", "broken")
    assert malformed[0] == "INVALID_ARGUMENT"
    assert unknown[0] == "UNIMPLEMENTED"


async def test_a_call_without_the_token_is_refused(served, channels):
    async with serve(served.repository, grpc_port=0, security=Security(token="secret")) as server:
        channel = channels(server)
        without = await status_of(channel.unary_unary(INFER)(request()))
        wrong = await status_of(
            channel.unary_unary(INFER)(request(), metadata=[("authorization", "Bearer other")])
        )
        reply = await channel.unary_unary(INFER)(request(), metadata=[("authorization", "Bearer secret")])
        health = await channel.unary_unary(HEALTH)(b"")

    assert {without[0], wrong[0]} == {"UNAUTHENTICATED"}
    assert pb.ModelInferResponse.FromString(reply).model_name == "echo"
    assert health == b"\x08\x01"


async def test_over_tls_only_clients_with_a_certificate_call(served, channels, tmp_path):
    authority = make_authority(tmp_path / "authority")
    files = {name: [path.read_bytes() for path in authority.signed(name)] for name in ("server", "client")}
    (certificate, key), ca = files["server"], authority.certificate.read_bytes()
    security = Security(certificate=certificate, key=key, ca=ca)
    async with serve(served.repository, grpc_port=0, security=security) as server:
        address = server.grpc_address.replace("127.0.0.1", "localhost")
        known = grpc.ssl_channel_credentials(ca, files["client"][1], files["client"][0])
        async with grpc.aio.secure_channel(address, known) as channel:
            reply = await channel.unary_unary(INFER)(request())
        async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(ca)) as channel:
            status = await status_of(channel.unary_unary(INFER)(request()))

    assert pb.ModelInferResponse.FromString(reply).model_name == "echo"
    assert status[0] == "UNAVAILABLE"


async def test_a_client_without_a_token_chooses_no_folders(served, channels):
    async with serve(served.repository, grpc_port=0) as server:
        status = await status_of(channels(server).unary_unary(RELOAD)(b""))

    assert status[0] == "PERMISSION_DENIED"


async def test_a_message_beyond_the_limit_is_refused(served, channels):
    async with serve(served.repository, grpc_port=0, limits=Limits(request_bytes=1000)) as server:
        status = await status_of(channels(server).unary_unary(INFER)(request(100)))

    assert status[0] == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize("method", [INFER, STREAM])
async def test_a_client_that_goes_cancels_its_step(served, channels, method):
    served.default.hold = asyncio.Event()
    async with serve(served.repository, grpc_port=0) as server:
        channel = channels(server)
        if method == INFER:
            call = channel.unary_unary(INFER)(request())
        else:
            call = channel.stream_stream(STREAM)()
            await call.write(request())
        await served.default.started.wait()

        call.cancel()

        await served.default.cancelled.wait()


async def test_a_caller_that_goes_while_a_reply_is_sent_is_no_error_of_the_server(served, channels, caplog):
    async def requests():
        yield request()

    caller = GoneCaller()
    async with serve(served.repository, grpc_port=0, security=Security(insecure=True)) as server:
        assert server.grpc is not None
        await server.grpc.find(STREAM, ()).stream_stream(requests(), caller)
        text = (await server.app[METRICS].reply()).decode()

    assert not [record for record in caplog.records if "failed" in record.message]
    assert caller.status[0] is grpc.StatusCode.CANCELLED
    assert f'code="CANCELLED",method="{STREAM}"' in text


async def test_a_deadline_ends_the_step(served, channels):
    served.default.hold = asyncio.Event()
    async with serve(served.repository, grpc_port=0) as server:
        status = await status_of(channels(server).unary_unary(INFER)(request(), timeout=0.05))
        await served.default.cancelled.wait()

    assert status[0] == "DEADLINE_EXCEEDED"


async def test_a_server_that_drains_says_so(served, channels):
    async with serve(served.repository, grpc_port=0) as server:
        channel = channels(server)
        server.drain()
        ready = await channel.unary_unary(READY)(b"")
        health = await channel.unary_unary(HEALTH)(b"")
        status = await status_of(channel.unary_unary(INFER)(request()))

    assert not pb.ServerReadyResponse.FromString(ready).ready
    assert health == b"\x08\x02"
    assert status == ("UNAVAILABLE", "the server is about to end")


async def test_requests_under_way_end_before_the_server(served, channels):
    served.default.hold = asyncio.Event()
    async with serve(served.repository, grpc_port=0, grace=10) as server:
        call = channels(server).unary_unary(INFER)(request())
        await served.default.started.wait()
        asyncio.get_running_loop().call_soon(served.default.hold.set)

    assert pb.ModelInferResponse.FromString(await call).model_name == "echo"


async def test_a_server_without_a_grpc_port_has_no_address(served):
    async with serve(served.repository) as server:
        with pytest.raises(FailedPreconditionError, match="this server has no gRPC port"):
            _ = server.grpc_address
