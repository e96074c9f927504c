"""An aiohttp application answers ASGI servers as it answers sockets: routes, bodies, streams, errors, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from hypothesis import given, strategies as st

from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.serving.application_keys import DECOMPRESSES
from aioexec.serving.asgi import AsgiApplication
from aioexec.serving.asgi.request_head import encode_head
from aioexec.serving.asgi.response_parser import ResponseParser

LARGE = bytes(range(256)) * 4096  # a MiB: more than any buffer on the way


class Client:
    """One request of an ASGI server: gives the messages of `body`, and records what is sent; `leave` disconnects."""

    def __init__(self, method="GET", path="/", body=(b"",), headers=(), root_path="", query=b""):
        self.scope = {
            "type": "http",
            "method": method,
            "path": root_path + path,
            "root_path": root_path,
            "query_string": query,
            "headers": [(b"host", b"localhost"), *headers],
            "client": ("192.0.2.7", 4711),
        }
        self.sent = []
        self._parts = list(body)
        self._gone = asyncio.Event()

    async def receive(self):
        if self._parts:
            part = self._parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)

    def leave(self):
        self._gone.set()

    async def request(self, served):
        await served(self.scope, self.receive, self.send)
        return self

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def headers(self):
        return dict(self.sent[0]["headers"])

    @property
    def body(self):
        assert [message["more_body"] for message in self.sent[1:]] == [True] * (len(self.sent) - 2) + [False]
        return b"".join(message["body"] for message in self.sent[1:])


class Handlers:
    """Handlers, and what they have seen."""

    def __init__(self):
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def echo(self, request):
        headers = {
            "Seen-Path": request.raw_path,
            "Seen-Client": request.remote,
            "Seen-Method": request.method,
        }
        return web.Response(body=await request.read(), headers=headers)

    async def stream(self, request):
        reply = web.StreamResponse()
        await reply.prepare(request)
        for _ in range(4):
            await reply.write(LARGE)
        return reply

    async def wait(self, request):
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()

    async def refuse(self, request):
        raise web.HTTPForbidden


@pytest.fixture
async def handlers():
    return Handlers()


@pytest.fixture
async def served(handlers) -> AsyncIterator[AsgiApplication]:
    app = web.Application(client_max_size=2 * len(LARGE))
    app.router.add_route("*", "/echo", handlers.echo)
    app.router.add_get("/stream", handlers.stream)
    app.router.add_get("/wait", handlers.wait)
    app.router.add_get("/refuse", handlers.refuse)
    async with AsgiApplication(app) as served:
        yield served


@pytest.mark.both_loops
async def test_a_request_has_its_path_query_client_and_body(served):
    headers = [(b"content-length", b"5")]
    client = Client("POST", "/echo", [b"he", b"llo"], headers, query=b"a=1&b=%20")

    await client.request(served)

    assert (client.status, client.body) == (200, b"hello")
    assert client.headers[b"seen-path"] == b"/echo?a=1&b=%20"
    assert client.headers[b"seen-client"] == b"192.0.2.7"
    assert client.headers[b"content-length"] == b"5"
    assert b"connection" not in client.headers


async def test_a_body_of_unknown_length_arrives_in_chunks(served):
    client = await Client("POST", "/echo", [LARGE, b"", b"end"]).request(served)

    assert client.body == LARGE + b"end"


async def test_a_mounted_application_sees_paths_below_its_mount_point(served):
    client = await Client(path="/echo", root_path="/ml/models").request(served)

    assert client.headers[b"seen-path"] == b"/echo"


async def test_a_stream_is_sent_in_parts(served):
    client = await Client(path="/stream").request(served)

    assert client.body == 4 * LARGE
    assert len(client.sent) > 4
    assert b"transfer-encoding" not in client.headers


async def test_a_head_request_has_no_body(served):
    client = await Client("HEAD", "/echo").request(served)

    assert (client.status, client.body, client.headers[b"seen-method"]) == (200, b"", b"HEAD")


async def test_a_client_that_is_slow_pauses_the_stream(served):
    class SlowClient(Client):
        async def send(self, message):
            await super().send(message)
            await asyncio.sleep(0)

    client = await SlowClient(path="/stream").request(served)

    assert client.body == 4 * LARGE
    assert max(len(message.get("body", b"")) for message in client.sent) <= 2 * len(LARGE)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nowhere", b"", 404),
        ("PUT", "/stream", b"", 405),
        ("GET", "/refuse", b"", 403),
        ("POST", "/echo", 3 * LARGE, 413),
    ],
)
async def test_errors_are_those_of_the_application(served, method, path, body, status):
    client = await Client(method, path, [body]).request(served)

    assert client.status == status
    assert client.body


async def test_a_client_that_disconnects_cancels_its_request(served, handlers):
    client = Client(path="/wait")
    request = asyncio.create_task(client.request(served))
    await handlers.started.wait()

    client.leave()
    await request

    await handlers.cancelled.wait()
    assert client.sent == []


async def test_a_client_that_disconnects_while_it_is_sent_to_ends_its_request(served):
    class Lost(Client):
        async def send(self, message):
            raise OSError

    await Lost(path="/stream").request(served)


async def test_cancelling_a_request_cancels_its_handler(served, handlers):
    request = asyncio.create_task(Client(path="/wait").request(served))
    await handlers.started.wait()

    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

    await handlers.cancelled.wait()


async def test_the_lifespan_starts_and_stops_the_application():
    events = []

    async def context(app):
        events.append("started")
        yield
        events.append("stopped")

    app = web.Application()
    app.cleanup_ctx.append(context)
    received = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive():
        return next(received)

    async def send(message):
        events.append(message["type"])

    await AsgiApplication(app)({"type": "lifespan"}, receive, send)

    assert events == ["started", "lifespan.startup.complete", "stopped", "lifespan.shutdown.complete"]
    assert app[DECOMPRESSES]


async def test_a_failed_start_is_reported():
    async def fail(app):
        raise FailedPreconditionError("no model")

    app = web.Application()
    app.on_startup.append(fail)
    sent = []

    async def receive():
        return {"type": "lifespan.startup"}

    async def send(message):
        sent.append(message)

    await AsgiApplication(app)({"type": "lifespan"}, receive, send)

    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]
    assert "no model" in sent[0]["message"]


async def test_it_must_be_started():
    with pytest.raises(FailedPreconditionError, match="not started"):
        await Client().request(AsgiApplication(web.Application()))


async def test_only_http_is_served(served):
    with pytest.raises(FailedPreconditionError, match="HTTP requests only, got a scope of 'websocket'"):
        await served({"type": "websocket"}, None, None)


@pytest.mark.parametrize(
    "part", [{"query_string": b"a\r\nb: c"}, {"headers": [(b"a", b"b\n")]}, {"method": "GET / HTTP/1.1\r\n"}]
)
def test_a_line_break_in_a_head_is_refused(part):
    with pytest.raises(InvalidArgumentError, match="line break"):
        encode_head({**Client().scope, **part})


@pytest.mark.parametrize(
    ("scope", "target"),
    [
        ({"path": "/a b/ü"}, b"/a%20b/%C3%BC"),
        ({"path": "/a/b", "raw_path": b"/a%2Fb"}, b"/a%2Fb"),
        ({"path": "/ml", "root_path": "/ml"}, b"/"),
        ({"path": "/ml/x", "root_path": "/ml/"}, b"/x"),
    ],
)
def test_the_target_is_the_quoted_path_below_the_mount_point(scope, target):
    assert encode_head({**Client().scope, **scope}).split()[1] == target


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=4), st.integers(1, 50))
def test_a_chunked_response_is_parsed_in_pieces_of_any_size(chunks, size):
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n"
    data += b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    parser = ResponseParser("GET")

    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    messages = [message for piece in pieces if not parser.is_complete for message in parser.feed(piece)]

    assert messages[0] == {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}
    assert b"".join(message["body"] for message in messages[1:]) == b"".join(chunks)
    assert [message["more_body"] for message in messages[1:]] == [True] * (len(messages) - 2) + [False]
