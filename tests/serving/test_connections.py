"""Connections without a request are closed after a time and beyond a number, and do not keep other clients out."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import descriptors
from aioexec.saved_model.signature import Signature
from tests.serving.memory_connection import MemoryConnection, connections, post

PATH = "/v1/models/adder:predict"
BODY = b'{"instances": [[1, 2]]}' + b" " * 1000
GOOD = post(PATH, BODY)

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 2], name="x")
    Y = ax.placeholder(ax.float32, [None], name="y")

pytestmark = pytest.mark.usefixtures("virtual_clock")


class Adder:
    """A session that adds the numbers of each row, and waits first if it is to."""

    def __init__(self) -> None:
        self.hold: asyncio.Event | None = None

    async def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        if self.hold is not None:
            await self.hold.wait()
        return [np.sum(feed_dict[X], axis=1) for _ in fetches]


@pytest.fixture
def session():
    return Adder()


@pytest.fixture
async def server(session):
    async with connections({"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)}) as opened:
        yield opened


async def test_a_connection_that_sends_nothing_is_closed(server, virtual_clock):
    silent = MemoryConnection(server())

    await silent.lost

    assert virtual_clock.time() == pytest.approx(10, abs=0.1)
    assert silent.written == b""


async def test_single_bytes_of_a_head_do_not_keep_a_connection_open(server, virtual_clock):
    slow = MemoryConnection(server())
    for byte in GOOD[:20]:
        slow.send(bytes([byte]))
        await asyncio.wait([slow.lost], timeout=1)

    assert slow.lost.done()
    assert virtual_clock.time() == pytest.approx(10, abs=0.1)


async def test_a_connection_may_wait_for_its_next_request_for_75_seconds(server, virtual_clock):
    kept = MemoryConnection(server())
    for pause in (0, 70, 70):
        await asyncio.sleep(pause)
        kept.send(GOOD)
        await kept.answers()
    kept.send(GOOD[:20])

    await kept.lost

    assert [answer.json for answer in await kept.answers()] == [{"predictions": [3]}] * 3
    assert virtual_clock.time() == pytest.approx(140 + 75, abs=1)


async def test_a_body_that_never_ends_is_answered_in_time(server, virtual_clock):
    endless = MemoryConnection(server())
    endless.send(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    while not endless.lost.done():
        endless.send(b"1\r\n \r\n")
        await asyncio.wait([endless.lost], timeout=1)

    (answer,) = await endless.answers()
    assert (answer.status, answer.json) == (408, {"error": "expected the body within 46 s"})
    assert virtual_clock.time() < 60


async def test_a_client_that_does_not_take_its_answer_is_left(server, virtual_clock):
    deaf = MemoryConnection(server(), reads=False)
    deaf.send(b"not HTTP\r\n\r\n")

    await deaf.lost

    assert virtual_clock.time() == pytest.approx(10, abs=0.1)


async def test_a_request_under_way_is_not_bounded(server, session, virtual_clock):
    session.hold = asyncio.Event()
    connection = MemoryConnection(server())
    connection.send(GOOD)
    await asyncio.sleep(1000)
    session.hold.set()

    (answer,) = await connection.answers()

    assert answer.json == {"predictions": [3]}


async def test_beyond_a_number_the_connection_that_has_waited_longest_is_closed(monkeypatch, session):
    monkeypatch.setattr(descriptors, "MOST_CONNECTIONS", 10)
    async with connections({"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)}) as server:
        session.hold = asyncio.Event()
        busy = MemoryConnection(server())
        busy.send(GOOD)
        await asyncio.sleep(0.1)
        silent = [MemoryConnection(server()) for _ in range(20)]
        last = MemoryConnection(server())
        last.send(GOOD)
        await asyncio.sleep(0.1)
        session.hold.set()

        assert [each.lost.done() for each in silent] == [True] * 12 + [False] * 8
        for served in (busy, last):
            (answer,) = await served.answers()
            assert answer.json == {"predictions": [3]}


async def test_if_all_connections_have_requests_the_new_one_is_closed(monkeypatch, session):
    monkeypatch.setattr(descriptors, "MOST_CONNECTIONS", 2)
    async with connections({"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)}) as server:
        session.hold = asyncio.Event()
        busy = [MemoryConnection(server()) for _ in range(2)]
        for each in busy:
            each.send(GOOD)
        await asyncio.sleep(0.1)

        late = MemoryConnection(server())

        assert late.lost.done()
        assert not any(each.lost.done() for each in busy)
        session.hold.set()


async def test_nothing_is_kept_of_connections_that_are_gone(server):
    for _ in range(5):
        connection = MemoryConnection(server())
        connection.send(GOOD)
        await connection.answers()
        connection.leave()
    await asyncio.sleep(0)

    assert not server.waiting
    assert not server._open


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nbad header\r\n\r\n", 400),
        (GOOD.replace(b"Host", b"Expect: cake\r\nHost"), 417),
        (b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    ],
)
async def test_what_no_handler_sees_is_answered_in_json_too(server, data, status):
    connection = MemoryConnection(server())
    connection.send(data)

    (answer, *_) = await connection.answers()

    assert (answer.status, answer.content_type) == (status, "application/json")
    assert isinstance(answer.json["error"], str)


@pytest.mark.parametrize(
    ("coding", "body", "status", "error"),
    [
        ("gzip", gzip.compress(BODY), 200, None),
        ("deflate", zlib.compress(BODY), 200, None),
        ("identity", BODY, 200, None),
        ("gzip", BODY, 400, "is not gzip"),
        ("gzip", gzip.compress(BODY)[:-9], 400, "is not gzip"),
        ("gzip", gzip.compress(BODY) + b"more", 400, "is not gzip"),
        ("br", BODY, 415, "expected a Content-Encoding of gzip, deflate or identity"),
        ("gzip", gzip.compress(bytes((1 << 20) + 1)), 413, "Maximum request body size 1048576 exceeded"),
    ],
)
async def test_a_compressed_body_is_decompressed_to_no_more_than_a_body_may_have(
    server, coding, body, status, error
):
    connection = MemoryConnection(server())
    connection.send(post(PATH, body, f"Content-Encoding: {coding}"))

    (answer,) = await connection.answers()

    assert answer.status == status
    if error is not None:
        assert error in answer.json["error"]


async def test_an_unforeseen_exception_is_answered_in_json_and_logged(server, session, caplog):
    async def run(fetches, feed_dict=None):
        raise ZeroDivisionError("of a model")

    session.run = run
    connection = MemoryConnection(server())
    connection.send(GOOD)

    (answer,) = await connection.answers()

    assert (answer.status, answer.json) == (500, {"error": "Internal Server Error"})
    assert "ZeroDivisionError: of a model" in caplog.text
