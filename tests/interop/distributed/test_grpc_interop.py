"""Our channel against TensorFlow's server, and TensorFlow's client against our listener: bytes, codes, payloads, deadlines."""

import asyncio
from typing import Any

import grpc
import numpy as np
import pytest

from aioexec import errors
from aioexec.distributed.transport.message_codec import encode
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.status import POSSIBLY_RESTARTED
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import (
    AbortedError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    UnimplementedError,
)
from aioexec.formats import protos
from tests.distributed.grpc_pairs import Pairs

pytestmark = [
    pytest.mark.interop,
    pytest.mark.network,
    pytest.mark.allow_leaks("TensorFlow's servers have threads"),
]

MASTER, WORKER = "MasterService/", "WorkerService/"


@pytest.fixture
async def pairs():
    async with Pairs() as pairs:
        yield pairs


@pytest.fixture(scope="module")
def server(tf):
    return tf.distribute.Server.create_local_server()


@pytest.fixture(scope="module")
def graph(tf):
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [None, None], name="x")
        tf.add(x, 1.0, name="y")
        tf.identity(tf.placeholder(tf.string, [None], name="s"), name="t")
        tf.FIFOQueue(1, tf.float32, name="q").dequeue(name="blocked")
    return graph


@pytest.fixture
async def tensorflow(pairs, server):
    return pairs.connect(server.target.removeprefix("grpc://"))


def message(name, **fields):
    return Payload(getattr(protos, f"{name}Request")(**fields))


@pytest.fixture
async def handle(tensorflow, graph):
    request = message("CreateSession")
    request.message.graph_def.ParseFromString(graph.as_graph_def().SerializeToString())
    reply = await tensorflow.call(f"{MASTER}CreateSession", request)
    yield reply.message.session_handle
    await tensorflow.call(
        f"{MASTER}CloseSession", message("CloseSession", session_handle=reply.message.session_handle)
    )


def run_step(handle, fetch, **feeds):
    request = protos.RunStepRequest(session_handle=handle, fetch=[fetch])
    for name in feeds:
        request.feed.add(name=f"{name}:0")
    return Payload(request, list(feeds.values()))


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((1, 1), np.float32),
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.ones((1000, 1000), np.float32),
    ],
)
async def test_tensorflow_computes_with_what_we_send(tensorflow, handle, x):
    reply = await tensorflow.call(f"{MASTER}RunStep", run_step(handle, "y:0", x=x))

    assert reply.message.tensor[0].name == "y:0"
    assert np.array_equal(reply.tensors[0], x + 1)


async def test_strings_survive_tensorflow(tensorflow, handle):
    strings = np.array([b"ab", b"", b"\xff\x00", b"x" * 100_000], np.object_)

    reply = await tensorflow.call(f"{MASTER}RunStep", run_step(handle, "t:0", s=strings))

    assert reply.tensors[0].tolist() == strings.tolist()


async def test_callables_take_and_give_tensors_by_place(tensorflow, handle):
    make = message("MakeCallable", session_handle=handle)
    make.message.options.feed.append("x:0")
    make.message.options.fetch.append("y:0")
    made = await tensorflow.call(f"{MASTER}MakeCallable", make)

    request = protos.RunCallableRequest(session_handle=handle, handle=made.message.handle)
    reply = await tensorflow.call(f"{MASTER}RunCallable", Payload(request, [np.ones((2, 2), np.float32)]))

    assert np.array_equal(reply.tensors[0], np.full((2, 2), 2))
    release = message("ReleaseCallable", session_handle=handle, handle=made.message.handle)
    await tensorflow.call(f"{MASTER}ReleaseCallable", release)


EMPTY_REQUESTS = {  # what TensorFlow's server makes of a request without anything; None: it is served
    f"{MASTER}CreateSession": None,
    f"{MASTER}ExtendSession": AbortedError,
    f"{MASTER}PartialRunSetup": AbortedError,
    f"{MASTER}RunStep": AbortedError,
    f"{MASTER}CloseSession": AbortedError,
    f"{MASTER}ListDevices": None,
    f"{MASTER}Reset": None,
    f"{MASTER}MakeCallable": AbortedError,
    f"{MASTER}RunCallable": AbortedError,
    f"{MASTER}ReleaseCallable": AbortedError,
    f"{WORKER}GetStatus": None,
    f"{WORKER}CreateWorkerSession": InvalidArgumentError,
    f"{WORKER}DeregisterGraph": AbortedError,
    f"{WORKER}RunGraph": AbortedError,
    f"{WORKER}CleanupGraph": None,
    f"{WORKER}CleanupAll": None,
    f"{WORKER}RecvTensor": InvalidArgumentError,
    f"{WORKER}MarkRecvFinished": None,
    f"{WORKER}Logging": None,
    f"{WORKER}Tracing": UnimplementedError,
}


@pytest.mark.parametrize(("method", "expected"), EMPTY_REQUESTS.items())
async def test_every_method_reaches_tensorflow(tensorflow, method, expected):
    request = Payload(METHODS[method].request())

    if expected is None:
        assert isinstance((await tensorflow.call(method, request)).message, METHODS[method].response)
    else:
        with pytest.raises(expected):
            await tensorflow.call(method, request)


async def test_payloads_of_tensorflows_errors_arrive(tensorflow):
    request = message("RegisterGraph", session_handle="unknown", create_worker_session_called=True)

    with pytest.raises(AbortedError, match="Session handle is not found") as failed:
        await tensorflow.call(f"{WORKER}RegisterGraph", request)

    assert dict(failed.value.payloads) == {POSSIBLY_RESTARTED: b""}


async def test_a_deadline_and_a_cancellation_reach_a_step_of_tensorflows(tensorflow, handle):
    with pytest.raises(DeadlineExceededError):
        await tensorflow.call(f"{MASTER}RunStep", run_step(handle, "blocked:0"), timeout=0.2)

    call = asyncio.create_task(tensorflow.call(f"{MASTER}RunStep", run_step(handle, "blocked:0")))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


def lying(dims, **fields):
    tensor = protos.TensorProto(dtype=protos.DataType.DT_FLOAT, **fields)
    tensor.tensor_shape.SetInParent()
    for size in dims:
        tensor.tensor_shape.dim.add(size=size)
    return tensor


BAD_FEEDS = {
    "too little content": lying([1000], tensor_content=b"\0" * 8),
    "too much content": lying([1], tensor_content=b"\0" * 8),
    "more than memory": lying([1 << 40], float_val=[1.0]),
    "more than addresses": lying([1 << 40, 1 << 40], float_val=[1.0]),
    "a negative size": lying([-5], float_val=[1.0]),
    "an unknown dtype": protos.TensorProto.FromString(b"\x08\x63"),
    "no dtype": protos.TensorProto(),
    "a reference": protos.TensorProto(dtype=protos.DataType.DT_FLOAT_REF, float_val=[1.0]),
}
MALFORMED = {
    "nonsense": b"\xff\xff\xff",
    "a length beyond the end": b"\x0a\xff\xff\xff\xff\x07abc",
    "cut short": encode(run_step("handle", "y:0", x=np.zeros((2, 2), np.float32)), "feed")[:-3],
}


async def outcome(channel, data):
    """Code and beginning of the message with which a server answers bytes."""
    call = channel.unary_unary(f"/tensorflow.{MASTER}RunStep")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call(data, timeout=30)
    return failed.value.code(), failed.value.details()[: len("Invalid TensorProto for feed value 0")]


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
async def test_both_answer_bytes_that_are_no_request_alike(pairs, server, data):
    ours = await pairs.listen({f"{MASTER}RunStep": answer_nothing})

    expected, _ = await outcome(pairs.raw(server.target.removeprefix("grpc://")), data)
    got, _ = await outcome(pairs.raw(ours.address), data)

    assert got is expected is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize("tensor", BAD_FEEDS.values(), ids=BAD_FEEDS)
async def test_both_answer_tensors_that_lie_alike(pairs, server, handle, tensor):
    ours = await pairs.listen({f"{MASTER}RunStep": answer_nothing})
    request = protos.RunStepRequest(session_handle=handle, fetch=["y:0"])
    request.feed.add(name="x:0", tensor=tensor)
    data = request.SerializeToString()

    expected = await outcome(pairs.raw(server.target.removeprefix("grpc://")), data)

    assert await outcome(pairs.raw(ours.address), data) == expected


async def answer_nothing(request, call):
    return Payload(protos.RunStepResponse())


@pytest.fixture
async def our_master(pairs):
    """A master that suffices for a session of TensorFlow's: it adds one to the feed, or fails."""
    failures: dict[str, Any] = {}

    async def create(request, call):
        return Payload(protos.CreateSessionResponse(session_handle="0123456789abcdef"))

    async def extend(request, call):
        return Payload(protos.ExtendSessionResponse(new_graph_version=1))

    async def close(request, call):
        return Payload(protos.CloseSessionResponse())

    async def run(request, call):
        if "error" in failures:
            raise failures["error"]
        if "wait" in failures:
            await asyncio.Event().wait()
        reply = protos.RunStepResponse()
        reply.tensor.add(name=request.message.fetch[0])
        return Payload(reply, [request.tensors[0] + 1])

    handlers = {"CreateSession": create, "ExtendSession": extend, "CloseSession": close, "RunStep": run}
    listener = await pairs.listen({f"{MASTER}{name}": handler for name, handler in handlers.items()})
    return f"grpc://{listener.address}", failures


def run_in_tensorflow(tf, graph, target, x, config=None):
    with tf.Session(target, graph=graph, config=config) as session:
        return session.run("y:0", {"x:0": x})


@pytest.mark.parametrize("shape", [(1, 1), (600, 600)])
async def test_tensorflows_client_gets_its_values_from_our_listener(tf, graph, our_master, shape):
    target, _ = our_master
    x = np.random.default_rng(1).random(shape, np.float32)

    y = await asyncio.to_thread(run_in_tensorflow, tf, graph, target, x)

    assert np.array_equal(y, x + 1)


@pytest.mark.parametrize("code", [code for code in range(1, 17) if code != errors.UNAVAILABLE])
async def test_tensorflows_client_gets_our_errors(tf, graph, our_master, code):
    target, failures = our_master
    failures["error"] = errors.exception_type_from_error_code(code)(
        "what: äöü\n\t[[{{node y}}]]" + "x" * 10_000
    )

    with pytest.raises(tf.errors.OpError, match="what: äöü") as failed:
        await asyncio.to_thread(run_in_tensorflow, tf, graph, target, np.zeros((1, 1), np.float32))

    assert failed.value.error_code == code
    assert type(failed.value) is tf.errors.exception_type_from_error_code(code)
    assert "[truncated]" in failed.value.message


async def test_the_deadline_of_tensorflows_client_ends_our_handler(tf, graph, our_master):
    target, failures = our_master
    failures["wait"] = True
    config = tf.ConfigProto(operation_timeout_in_ms=300)

    with pytest.raises(tf.errors.DeadlineExceededError):
        await asyncio.to_thread(run_in_tensorflow, tf, graph, target, np.zeros((1, 1), np.float32), config)


async def test_a_reply_of_tensorflows_that_is_none_is_an_internal_error(
    pairs, tensorflow, handle, monkeypatch
):
    monkeypatch.setitem(METHODS, f"{MASTER}ListDevices", METHODS[f"{MASTER}CreateSession"])

    with pytest.raises(InternalError, match="Unable to parse"):
        await tensorflow.call(f"{MASTER}ListDevices", message("ListDevices", session_handle=handle))
