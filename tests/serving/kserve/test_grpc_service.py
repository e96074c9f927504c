"""The methods of GRPCInferenceService, called as a listener calls them."""

import asyncio

import numpy as np
import pytest

from aioexec.distributed.transport.transport import Call
from aioexec.errors import CancelledError, InternalError, InvalidArgumentError, NotFoundError
from aioexec.serving.kserve.grpc_service import SERVICE, services
from aioexec.serving.protos import inference_pb2 as pb
from tests.serving.echo_models import Served

CALL = Call("peer")
Input = pb.ModelInferRequest.InferInputTensor


@pytest.fixture
async def served():
    return Served()


async def ask(served, method, request, kind):
    answer = services(served.repository, served.admission).unary[f"/{SERVICE}/{method}"]
    return kind.FromString(await answer(request.SerializeToString(), CALL))


def infer_request(x=((1.0, 2.0),), y=(3,), **fields):
    x, y = np.array(x, np.float32), np.array(y, np.int64)
    inputs = [
        Input(name="x", datatype="FP32", shape=x.shape),
        Input(name="y", datatype="INT64", shape=y.shape),
    ]
    return pb.ModelInferRequest(
        model_name="echo", inputs=inputs, raw_input_contents=[x.tobytes(), y.tobytes()], **fields
    )


async def test_the_server_describes_itself(served):
    live = await ask(served, "ServerLive", pb.ServerLiveRequest(), pb.ServerLiveResponse)
    ready = await ask(served, "ServerReady", pb.ServerReadyRequest(), pb.ServerReadyResponse)
    about = await ask(served, "ServerMetadata", pb.ServerMetadataRequest(), pb.ServerMetadataResponse)

    assert (live.live, ready.ready) == (True, True)
    assert (about.name, list(about.extensions)) == ("aioexec", ["binary_tensor_data"])
    assert about.version


async def test_a_model_describes_its_default_signature(served):
    about = await ask(
        served, "ModelMetadata", pb.ModelMetadataRequest(name="echo", version="1"), pb.ModelMetadataResponse
    )
    only = await ask(
        served, "ModelMetadata", pb.ModelMetadataRequest(name="strings"), pb.ModelMetadataResponse
    )

    assert (about.name, list(about.versions), about.platform) == ("echo", ["1"], "tensorflow_savedmodel")
    described = [(each.name, each.datatype, list(each.shape)) for each in about.inputs]
    assert described == [("x", "FP32", [-1, 2]), ("y", "INT64", [-1])]
    assert about.outputs == about.inputs
    assert [(each.name, each.datatype) for each in only.inputs] == [("s", "BYTES")]


async def test_a_model_is_ready_or_not_found(served):
    ready = await ask(served, "ModelReady", pb.ModelReadyRequest(name="echo"), pb.ModelReadyResponse)

    assert ready.ready
    with pytest.raises(NotFoundError, match="no model 'none'"):
        await ask(served, "ModelReady", pb.ModelReadyRequest(name="none"), pb.ModelReadyResponse)
    with pytest.raises(NotFoundError, match="version 2"):
        await ask(served, "ModelReady", pb.ModelReadyRequest(name="echo", version="2"), pb.ModelReadyResponse)
    with pytest.raises(NotFoundError, match="label 'best'"):
        await ask(
            served, "ModelReady", pb.ModelReadyRequest(name="echo", version="best"), pb.ModelReadyResponse
        )


async def test_an_inference_returns_the_wanted_outputs_in_order(served):
    both = await ask(served, "ModelInfer", infer_request(id="7"), pb.ModelInferResponse)
    turned = await ask(
        served,
        "ModelInfer",
        infer_request(model_version="1", outputs=[{"name": "y"}, {"name": "x"}]),
        pb.ModelInferResponse,
    )

    assert (both.model_name, both.model_version, both.id) == ("echo", "1", "7")
    assert [each.name for each in both.outputs] == ["x", "y"]
    assert [each.name for each in turned.outputs] == ["y", "x"]
    assert np.frombuffer(turned.raw_output_contents[0], np.int64).tolist() == [3]


async def test_a_parameter_chooses_the_signature(served):
    request = pb.ModelInferRequest(
        model_name="strings",
        inputs=[Input(name="s", datatype="BYTES", shape=[1])],
        raw_input_contents=[b"\1\0\0\0a"],
        parameters={"signature_name": pb.InferParameter(string_param="only")},
    )

    answer = await ask(served, "ModelInfer", request, pb.ModelInferResponse)
    request.parameters["signature_name"].string_param = "another"

    assert answer.raw_output_contents[0] == b"\1\0\0\0a"
    with pytest.raises(InvalidArgumentError, match="no signature 'another'"):
        await ask(served, "ModelInfer", request, pb.ModelInferResponse)


async def test_malformed_requests_are_invalid(served):
    for method, answer in services(served.repository, served.admission).unary.items():
        with pytest.raises(InvalidArgumentError, match=r"expected a \w+Request, got malformed bytes"):
            await answer(b"\x0a\x7f", CALL)
        assert method.startswith("/inference.GRPCInferenceService/")


class Stream:
    """A stream of requests; its replies are in `sent`."""

    def __init__(self, served, *requests):
        self._stream = services(served.repository, served.admission).streaming[f"/{SERVICE}/ModelStreamInfer"]
        self._requests = requests
        self.sent = []

    async def _read(self):
        for each in self._requests:
            yield each if isinstance(each, bytes) else each.SerializeToString()

    async def _send(self, data):
        self.sent.append(pb.ModelStreamInferResponse.FromString(data))

    async def run(self):
        await self._stream(self._read(), self._send, CALL)


async def test_a_stream_answers_in_order_and_survives_errors(served):
    stream = Stream(
        served,
        infer_request(id="1"),
        infer_request(id="2", model_version="9"),
        b"\x0a\x7f",
        infer_request(id="4"),
    )

    await stream.run()

    assert [each.infer_response.id for each in stream.sent] == ["1", "2", "", "4"]
    assert [bool(each.error_message) for each in stream.sent] == [False, True, True, False]
    assert "version 9" in stream.sent[1].error_message
    assert "malformed" in stream.sent[2].error_message


async def test_an_error_of_a_step_is_the_error_of_its_reply(served):
    served.default.error = InternalError("broken")
    stream = Stream(served, infer_request(id="1"))

    await stream.run()

    assert [(each.error_message, each.infer_response.id) for each in stream.sent] == [("broken", "1")]


async def test_the_end_of_a_stream_cancels_its_steps(served):
    served.default.hold = asyncio.Event()
    stream = asyncio.create_task(Stream(served, infer_request()).run())
    await served.default.started.wait()

    stream.cancel()
    await asyncio.wait([stream])

    assert stream.cancelled()
    assert served.default.cancelled.is_set()


async def test_a_stream_whose_replies_cannot_be_sent_ends_with_the_error_of_sending(served):
    class Gone(Stream):
        async def _send(self, data):
            raise CancelledError("the caller has gone")

    with pytest.raises(CancelledError, match="the caller has gone"):
        await Gone(served, infer_request(id="1")).run()


async def test_requests_of_a_stream_run_at_the_same_time(served):
    served.default.hold = asyncio.Event()
    second = infer_request(id="2")
    second.model_name = "strings"
    del second.inputs[:], second.raw_input_contents[:]
    second.inputs.add(name="s", datatype="BYTES", shape=[0])
    second.raw_input_contents.append(b"")
    stream = Stream(served, infer_request(id="1"), second)
    running = asyncio.create_task(stream.run())

    await served.strings.started.wait()

    assert stream.sent == []
    served.default.hold.set()
    await running
    assert [each.infer_response.id for each in stream.sent] == ["1", "2"]
