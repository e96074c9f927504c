"""Bodies that arrive with their head, later, or in chunks are read alike, and within the limit of bytes."""

import asyncio

import pytest

import aioexec as ax
from aioexec.serving.limits import Limits
from tests.serving.memory_connection import MemoryConnection, connections, post
from tests.serving.signatures import Fake

PATH = "/v1/models/adder:predict"
BODY = b'{"instances": [[1, 2]]}'
TOO_LARGE = BODY + b" " * 100

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 2], name="x")


def chunked(body: bytes) -> bytes:
    """The bytes of a POST request in two chunks."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    pieces = body[:5], body[5:]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.fixture
async def server():
    model = Fake({"x": X}, {"y": X}, lambda x: {"y": x.sum(axis=1)})
    async with connections({"adder": model}, limits=Limits(json_bytes=len(BODY) + 50)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("body", "status"), [(BODY, 200), (TOO_LARGE, 413)], ids=["within the limit", "beyond the limit"]
)
@pytest.mark.parametrize("form", [lambda body: post(PATH, body), chunked], ids=["length", "chunks"])
@pytest.mark.parametrize("is_split", [False, True], ids=["with its head", "later"])
async def test_a_body_is_read_within_its_limit(server, body, status, form, is_split):
    request = form(body)
    cut = request.index(b"\r\n\r\n") + 8 if is_split else len(request)
    connection = MemoryConnection(server())

    connection.send(request[:cut])
    await asyncio.sleep(0)
    connection.send(request[cut:])
    (answer,) = await connection.answers()

    assert answer.status == status
    assert answer.json == {"predictions": [3.0]} if status == 200 else "error" in answer.json
