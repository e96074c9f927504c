"""Misbehaving peers of a gRPC listener, and the time until a killed one is detected."""

import asyncio
import gc
import os
import signal
import struct
import sys
import tracemalloc
from contextlib import suppress

import grpc
import numpy as np
import pytest

from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.transport.message_codec import encode
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Call, Payload
from aioexec.errors import GraphValueError, ResourceExhaustedError, UnavailableError
from aioexec.formats.protos import CreateSessionRequest, CreateSessionResponse, ResetRequest
from tests.distributed.grpc_pairs import RUN_STEP, Pairs, Waiting, echo, step

pytestmark = pytest.mark.network

PATH = f"/tensorflow.{RUN_STEP}"
CREATE = "MasterService/CreateSession"
GOOD = encode(step(np.zeros(4, np.float32)), "feed")

SERVER = """
import asyncio
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.security.security import Security

async def wait(request, call):
    print("called", flush=True)
    await asyncio.Event().wait()

async def main():
    listener = GrpcTransport(Security()).listener("127.0.0.1:0", {"MasterService/RunStep": wait})
    await listener.start()
    print(listener.address, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def pairs():
    async with Pairs() as pairs:
        yield pairs


async def code_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call
    return failed.value.code()


@pytest.mark.parametrize("data", [b"\xff\xff\xff", GOOD[:-3], b"\x0a\xff\xff\xff\xff\x07abc"])
async def test_bytes_that_are_no_request_are_an_internal_error(pairs, data):
    handler = Waiting()
    listener, _ = await pairs.pair(handler)

    assert await code_of(pairs.raw(listener.address).unary_unary(PATH)(data)) is grpc.StatusCode.INTERNAL
    assert handler.calls == 0


async def test_a_reply_that_is_none_is_an_error_of_the_call(pairs):
    class Nonsense(grpc.GenericRpcHandler):
        def service(self, details):
            async def answer(request, context):
                return b"\xff\xff"

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Nonsense(),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    pairs.push_async_callback(server.stop, None)

    with pytest.raises(Exception, match="Unable to parse"):
        await pairs.connect(f"127.0.0.1:{port}").call(RUN_STEP, step())


async def test_a_message_over_the_limit_is_refused_by_listener_and_channel(pairs):
    listener = await pairs.listen({RUN_STEP: echo}, limits=Limits(message_bytes=10_000))
    large, small = step(np.zeros(10_000, np.uint8)), step(np.zeros(1000, np.uint8))

    with pytest.raises(ResourceExhaustedError, match="larger than max"):
        await pairs.connect(listener.address).call(RUN_STEP, large)
    with pytest.raises(ResourceExhaustedError, match="larger than max"):
        await pairs.connect(listener.address, limits=Limits(message_bytes=500)).call(RUN_STEP, small)
    assert len((await pairs.connect(listener.address).call(RUN_STEP, small)).tensors) == 1


async def test_a_graph_over_the_limit_is_refused_unparsed(pairs):
    async def create(request, call):
        return Payload(CreateSessionResponse(session_handle="made"))

    listener = await pairs.listen({CREATE: create}, limits=Limits(graph_bytes=1000))
    channel = pairs.connect(listener.address)
    request = CreateSessionRequest()
    request.graph_def.node.add(name="x" * 2000)

    with pytest.raises(ResourceExhaustedError, match="graph of at most 1000 bytes"):
        await channel.call(CREATE, Payload(request))
    made = await channel.call(CREATE, Payload(CreateSessionRequest()))
    assert made.message.session_handle == "made"


@pytest.mark.parametrize("name", ["message_bytes", "graph_bytes", "tensor_bytes"])
def test_limits_are_checked(name):
    with pytest.raises(GraphValueError, match=name):
        Limits(**{name: 0})
    with pytest.raises(GraphValueError, match="protobuf"):
        Limits(message_bytes=1 << 31)


HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


STREAMS = {
    "nothing": b"",
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "noise": bytes(range(256)) * 64,
    "a greeting only": HTTP2,
    "half a frame": HTTP2 + b"\x00\x10\x00\x00",
    "a frame that is too long": HTTP2 + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01" + b"x" * 1000,
    "headers that are none": HTTP2 + frame(4, 0, 0, b"") + frame(1, 4, 1, b"\xff" * 100),
    "a window of the wrong size": HTTP2 + frame(4, 0, 0, b"") + frame(8, 0, 0, b"\0\0\0\0"),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
async def test_a_connection_that_is_cut_or_speaks_something_else_does_no_harm(pairs, stream):
    listener, channel = await pairs.pair(echo)
    host, _, port = listener.address.rpartition(":")

    for _ in range(10):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(stream)
        writer.transport.abort() if stream == b"" else writer.close()

    assert (await channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]


def lie(array_bytes=8):
    """A request whose tensor claims to be larger than it is."""
    payload = step(None)
    tensor = payload.message.feed[0].tensor
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=1 << 30)
    tensor.tensor_content = b"\0" * array_bytes
    return payload.message.SerializeToString()


BAD = {
    "malformed": (b"\xff" * 1000, None, grpc.StatusCode.INTERNAL),
    "lying": (lie(), None, grpc.StatusCode.INVALID_ARGUMENT),
    "lying at length": (lie(1 << 17), None, grpc.StatusCode.INVALID_ARGUMENT),
    "over the limit": (b"\0" * 300_000, None, grpc.StatusCode.RESOURCE_EXHAUSTED),
    "without the token": (GOOD, "no", grpc.StatusCode.UNAUTHENTICATED),
    "large, without the token": (b"\0" * 150_000, "no", grpc.StatusCode.UNAUTHENTICATED),
}


@pytest.mark.slow
@pytest.mark.parametrize("calls", [60, pytest.param(1000, marks=pytest.mark.sweep)])
@pytest.mark.parametrize(("data", "token", "code"), BAD.values(), ids=BAD)
async def test_bad_calls_leave_the_memory_as_it_was(pairs, data, token, code, calls):
    security = Security(token="secret")
    listener = await pairs.listen({RUN_STEP: echo}, security=security, limits=Limits(message_bytes=200_000))
    call = pairs.raw(listener.address).unary_unary(PATH)
    metadata = (("authorization", f"Bearer {token or 'secret'}"),)

    async def bad_calls(count):
        for _ in range(0, count, 20):
            codes = await asyncio.gather(*(code_of(call(data, metadata=metadata)) for _ in range(20)))
            assert set(codes) == {code}
        gc.collect()

    await bad_calls(40)
    resident_before = resident_bytes()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        await bad_calls(calls)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert after - before < 400_000
    assert resident_bytes() - resident_before < 32 << 20
    good = await pairs.connect(listener.address, security).call(RUN_STEP, step(np.array(1)))
    assert good.tensors == [1]


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Wire:
    """Passes bytes between channels and a listener while it flows, until it is cut."""

    def __init__(self, address):
        self.host, _, self.port = address.rpartition(":")
        self.connections = []
        self.tasks = set()
        self.flows = asyncio.Event()
        self.flows.set()

    async def carry(self, reader, writer):
        self.tasks.add(asyncio.current_task())
        far_reader, far_writer = await asyncio.open_connection(self.host, int(self.port))
        self.connections += [writer, far_writer]
        with suppress(ConnectionError):
            await asyncio.gather(self.pump(reader, far_writer), self.pump(far_reader, writer))

    async def pump(self, reader, writer):
        while data := await reader.read(1 << 16):
            await self.flows.wait()
            writer.write(data)

    async def cut(self):
        for writer in self.connections:
            writer.transport.abort()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def connect_by_wire(pairs, listener):
    wire = Wire(listener.address)
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    pairs.push_async_callback(server.wait_closed)
    pairs.callback(server.close)
    pairs.push_async_callback(wire.cut)
    return wire, pairs.connect(f"127.0.0.1:{server.sockets[0].getsockname()[1]}")


async def test_a_lost_connection_fails_the_call_cancels_the_handler_and_nothing_is_sent_twice(pairs):
    handler = Waiting()
    listener = await pairs.listen({RUN_STEP: handler})
    wire, channel = await connect_by_wire(pairs, listener)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await handler.started.wait()

    await wire.cut()
    with pytest.raises(UnavailableError):
        await call
    await handler.cancelled.wait()
    handler.go_on.set()
    reply = None
    while reply is None:  # gRPC may still take the old connection for whole, and lose the call
        with suppress(UnavailableError):
            reply = await channel.call(RUN_STEP, step(np.array(1)), wait_for_ready=True)

    assert reply.tensors == [1]
    assert handler.calls == 2


@pytest.mark.slow
async def test_the_handler_of_a_caller_that_no_longer_answers_is_cancelled(pairs, monkeypatch):
    monkeypatch.setattr("aioexec.distributed.transport.grpc.listener._KEEPALIVE_MILLISECONDS", 200)
    handler = Waiting()
    listener = await pairs.listen({RUN_STEP: handler})
    wire, channel = await connect_by_wire(pairs, listener)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await handler.started.wait()

    wire.flows.clear()
    await handler.cancelled.wait()

    wire.flows.set()
    with pytest.raises(UnavailableError):
        await call


@pytest.mark.slow
async def test_a_killed_peer_is_missed(pairs):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        address = (await process.stdout.readline()).decode().strip()
        channel = pairs.connect(address)
        call = asyncio.create_task(channel.call(RUN_STEP, step()))
        assert await process.stdout.readline() == b"called\n"

        process.send_signal(signal.SIGKILL)
        with pytest.raises(UnavailableError, match=address):
            await call
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_whatever_a_server_that_stops_makes_of_a_call_it_is_unavailable():
    """gRPC reports it in several ways, by how far the call has come; each stop here is a little later."""

    async def wait(request: Payload, call: Call) -> Payload:
        await asyncio.Event().wait()
        return request

    transport = GrpcTransport(Security())
    for turns in range(40):
        listener = transport.listener("127.0.0.1:0", {"MasterService/Reset": wait})
        await listener.start()
        channel = transport.channel(listener.address)
        call = asyncio.ensure_future(channel.call("MasterService/Reset", Payload(ResetRequest())))
        for _ in range(turns):
            await asyncio.sleep(0)

        await listener.stop()

        with pytest.raises(UnavailableError):
            await call
        await channel.close()
