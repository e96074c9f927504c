"""Hostile HTTP requests to a model server: mutants of JSON bodies, and of the bytes of whole requests.

One seed is a batch. Its bodies are decoded for models of several signatures, each within bounds of time and memory
(`mutants.bounded`). Then a connection in memory sends mutants of whole requests; the replies must be JSON, with a status of 4xx
for invalid requests, and the server must serve a valid request afterwards, occasionally over a socket.

    python -m tests.campaigns.http_requests --count 10000
"""

from __future__ import annotations

import asyncio
import json
import zlib
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.saved_model.signature import Signature
from aioexec.serving import Limits, serve
from aioexec.serving.rest.predict import decode_request
from tests.campaigns import campaign
from tests.campaigns.http_bodies import body
from tests.campaigns.mutants import bounded, mutant
from tests.serving.memory_connection import MemoryConnection, connections, parsed, post
from tests.serving.signatures import served_version

BODIES: Final = 90  # of one seed
WHOLE: Final = 10
SOCKET_EVERY: Final = 50  # seeds

_NAMES: Final = ("rows", "mixed", "text", "numbers")
_LARGEST: Final = 1 << 18
_GOOD: Final = post("/v1/models/rows:predict", b'{"instances": [[1, 2]]}')


def case(seed: int) -> str | None:
    """Run one batch; return what was wrong with it."""
    return _target().batch(seed)


class Target:
    """A server of models of several signatures, in memory and at a port, on a loop of its own."""

    def __init__(self) -> None:
        with ax.Graph().as_default() as self._graph:
            self._inputs = _inputs()
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        session = ax.Session(graph=self._graph)
        self._stack.push_async_callback(session.close)
        models = {}
        for name, inputs in self._inputs.items():
            with self._graph.as_default():
                outputs = {f"{each}_out": _output(tensor) for each, tensor in inputs.items()}
            models[name] = Signature("serving_default", inputs, outputs, session)
        self._served = {name: served_version(model, name) for name, model in models.items()}
        limits = Limits(json_bytes=_LARGEST)
        self._opened = await self._stack.enter_async_context(connections(models, limits=limits))
        served = serve({"rows": models["rows"]}, limits=limits)
        self._url = urlsplit((await self._stack.enter_async_context(served)).url)

    def close(self) -> None:
        self._loop.run_until_complete(self._stack.aclose())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def batch(self, seed: int) -> str | None:
        random = Random(seed)
        for _ in range(BODIES):
            served, data = self._served[random.choice(_NAMES)], body(random)
            wrong = bounded(partial(decode_request, served, data), (InvalidArgumentError,), len(data))
            if wrong is not None:
                return f"{served.name} {wrong}: {data[:300]!r}"
        for _ in range(WHOLE):
            data = request(random)
            found: list[str | None] = []
            wrong = bounded(partial(self._answered, data, found), (), len(data)) or found[-1]
            if wrong is not None:
                return f"{wrong}: {data[:500]!r}"
        if seed % SOCKET_EVERY == 0:
            return self._loop.run_until_complete(self._over_a_socket(request(random)))
        return None

    def _answered(self, data: bytes, found: list[str | None]) -> None:
        found.append(self._loop.run_until_complete(self._answers(data)))

    async def _answers(self, data: bytes) -> str | None:
        """Send bytes, and then a good request on another connection; return what is wrong with the answers."""
        connection = MemoryConnection(self._opened())
        try:
            middle = len(data) // 2
            connection.send(data[:middle])
            connection.send(data[middle:])
            for answer in await connection.answers():
                if answer.status != 200 and not 400 <= answer.status < 500:
                    return f"status {answer.status}"
                if answer.body and _is_not_json(answer.content_type, answer.body):
                    return f"an answer that is not JSON: {answer}"
        finally:
            connection.leave()
        good = MemoryConnection(self._opened())
        good.send(_GOOD)
        answers = await good.answers()
        good.leave()
        await asyncio.sleep(0)
        if [(each.status, each.json) for each in answers] != [(200, {"predictions": [[1, 2]]})]:
            return f"a good request was answered {answers}"
        return None

    async def _over_a_socket(self, data: bytes) -> str | None:
        """Send bytes over a socket, close the sending side, and read the reply; then a valid request must be answered."""
        for sent in (data, _GOOD):
            reader, writer = await asyncio.open_connection(self._url.hostname, self._url.port)
            try:
                writer.write(sent)
                if sent is _GOOD:
                    came = await reader.readuntil(b"]]}")
                else:
                    writer.write_eof()
            except (ConnectionError, asyncio.IncompleteReadError) as error:
                if sent is _GOOD:
                    return f"a good request over a socket: {error!r}"
            finally:
                writer.transport.abort()
        return None if parsed(came)[0].json == {"predictions": [[1, 2]]} else f"a good request: {came!r}"


def _output(tensor: Any) -> Any:
    return ax.real(tensor) if tensor.dtype.is_complex else ax.identity(tensor)


def _inputs() -> dict[str, dict[str, Any]]:
    numbers = ("int64", "uint64", "float16", "bfloat16", "float64", "complex64", "bool")
    return {
        "rows": {"x": ax.placeholder(ax.float32, [None, 2])},
        "mixed": {
            "n": ax.placeholder(ax.int32, [None]),
            "flag": ax.placeholder(ax.bool, [None]),
            "text": ax.placeholder(ax.string, [None]),
            "small": ax.placeholder(ax.uint8, [None]),
        },
        "text": {"text": ax.placeholder(ax.string)},
        "numbers": {name: ax.placeholder(name) for name in numbers},
    }


def request(random: Random) -> bytes:
    """Return the bytes of a request, or of a few, with something wrong somewhere."""
    path = f"/v1/models/{random.choice(_NAMES)}:predict"
    kind = random.random()
    if kind < 0.4:
        return mutant(random, [*_WHOLE, post(path, body(random))])
    data = body(random)
    if kind < 0.6:
        return post(path, data)
    if kind < 0.8:
        return mutant(random, [_chunked(random, path, data)])
    if kind < 0.9:
        coding = random.choice(("gzip", "deflate"))
        packed = zlib.compress(data * random.choice((1, 1000)), wbits=31 if coding == "gzip" else 15)
        packed = packed if random.random() < 0.5 else mutant(random, [packed])
        return post(path, packed, f"Content-Encoding: {coding}")
    headers = [random.choice(_HEADERS) for _ in range(random.choice((1, 2, 200)))]
    return post(path, data, *headers)


def _chunked(random: Random, path: str, data: bytes) -> bytes:
    pieces = [f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()]
    size = random.choice((1, 7, 64, 4096)) if len(data) < 1000 else 4096
    for begin in range(0, len(data), size):
        piece = data[begin : begin + size]
        pieces += (f"{len(piece):x}\r\n".encode(), piece, b"\r\n")
    return b"".join([*pieces, b"0\r\n\r\n"])


def _is_not_json(content_type: str, text: bytes) -> bool:
    if content_type != "application/json":
        return True
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return True
    return False


def _refuse(name: str) -> Any:
    raise ValueError(name)


_HEADERS: Final = (
    "Content-Length: 5",
    "Content-Length: -1",
    "Content-Length: 99999999999999999999",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Content-Type: application/json; charset=utf-7",
    "Content-Type: multipart/form-data; boundary=x",
    "Content-Encoding: br",
    "Content-Encoding: gzip",
    "Content-Encoding: zstd",
    "Connection: close",
    "Connection: upgrade",
    "Upgrade: websocket",
    "Expect: 100-continue",
    "Expect: cake",
    "Host: [",
    "Host: \udcff",
    "Cookie: " + "a=b;" * 1000,
    "Range: bytes=0-1",
    "If-None-Match: *",
    "Accept: text/html",
    "X-" + "a" * 9000 + ": 1",
    "X: " + "é" * 3000,
    "X: \x00",
    " folded",
)
_WHOLE: Final = (
    _GOOD,
    b"GET /v1/models/rows HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/models/rows HTTP/1.0\r\n\r\n",
    b"HEAD /v1/models/rows HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET http://localhost/v1/models/ro%77s?x=%ff#y HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /v1/models/../rows:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    _GOOD * 3,
)

_made: list[Target] = []


def _target() -> Target:
    """The server of this process, made at its first use."""
    if not _made:
        _made.append(Target())
    return _made[0]


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
