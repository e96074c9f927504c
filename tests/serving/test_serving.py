"""A served session answers over HTTP, survives bad requests, and leaves nothing behind."""

import asyncio
import gc
import socket
import weakref
from urllib.parse import urlsplit

import aiohttp
import numpy as np
import pytest
from aiohttp import web

import aioexec as ax
from aioexec import errors
from aioexec.saved_model.signature import Signature
from aioexec.serving import Limits, PredictionClient, application, serve
from aioexec.serving.http_status import error_of, status_of

pytestmark = pytest.mark.network

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 2], name="x")
    Y = ax.placeholder(ax.float32, [None], name="y")  # represents an output: the fake session computes it


class FakeSession:
    """Answers `run` with the sum of each row; `error` is raised instead, `hold` waited for first."""

    def __init__(self):
        self.error = None
        self.hold = None
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def run(self, fetches, feed_dict=None):
        self.started.set()
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if self.error is not None:
            raise self.error
        return [feed_dict[X].sum(axis=1) for _ in fetches]


@pytest.fixture
async def session():
    return FakeSession()


@pytest.fixture
async def server(session):
    async with serve(
        {"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)},
        limits=Limits(json_bytes=300_000),
    ) as server:
        yield server


@pytest.fixture
async def http():
    async with aiohttp.ClientSession() as http:
        yield http


@pytest.mark.both_loops
async def test_a_prediction_comes_back_for_each_instance(server, http):
    async with http.post(server.predict_url("adder"), json={"instances": [[1, 2], [3, 4.5]]}) as response:
        answer = await response.json()

    assert (response.status, answer) == (200, {"predictions": [3, 7.5]})


async def test_the_client_asks_for_predictions(server):
    async with PredictionClient(server.predict_url("adder")) as client:
        answers = await asyncio.gather(*(client.predict([[n, 1]]) for n in range(20)))

    assert answers == [[n + 1] for n in range(20)]


async def test_a_large_request_is_answered_too(server):
    values = np.arange(10_000).reshape(-1, 2)

    async with PredictionClient(server.predict_url("adder")) as client:
        answer = await client.predict(values.tolist())

    assert answer == values.sum(axis=1).tolist()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:80", "Origin": "http://127.0.0.1:3000"}, 200),
        ({"Host": "attacker.example"}, 403),
        ({"Host": "localhost.attacker.example:80"}, 403),
        ({"Host": "["}, 403),
        ({"Origin": "https://attacker.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_what_a_page_of_another_site_asks_for_is_refused(session, server, http, headers, status):
    async with http.post(
        server.predict_url("adder"), json={"instances": [[1, 2]]}, headers=headers
    ) as response:
        await response.read()

    assert response.status == status
    assert session.started.is_set() is (status == 200)


async def test_the_status_of_a_model_is_available(server, http):
    async with http.get(f"{server.url}/v1/models/adder") as response:
        answer = await response.json()

    assert [version["state"] for version in answer["model_version_status"]] == ["AVAILABLE"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "adder:predict", b"nonsense", 400, "the request is not JSON"),
        ("POST", "adder:predict", b'{"instances": [[1, 2, 3]]}', 400, "input 'x': expected shape (?, 2)"),
        ("POST", "adder:predict", b'{"instances": [["a", 2]]}', 400, "Expected float32, got 'a'"),
        ("POST", "adder:predict", b" " * 300_001, 413, "Maximum request body size 300000 exceeded"),
        ("POST", "other:predict", b"{}", 404, "no model 'other' here, only ['adder']"),
        ("GET", "other", b"", 404, "no model 'other' here"),
        ("POST", "adder:dance", b"", 405, "Method Not Allowed"),
        ("GET", "adder/versions/1/2", b"", 404, "Not Found"),
    ],
)
async def test_a_bad_request_is_answered_with_an_error_and_the_next_is_fine(
    server, http, method, path, body, status, message
):
    async with http.request(method, f"{server.url}/v1/models/{path}", data=body) as response:
        answer = await response.json()

    assert response.status == status
    assert message in answer["error"]
    async with PredictionClient(server.predict_url("adder")) as client:
        assert await client.predict([[1, 2]]) == [3]


@pytest.mark.parametrize(
    ("error", "status", "seen"),
    [
        (errors.InvalidArgumentError("bad"), 400, errors.InvalidArgumentError),
        (errors.FailedPreconditionError("bad"), 400, errors.InvalidArgumentError),
        (errors.ResourceExhaustedError("bad"), 429, errors.ResourceExhaustedError),
        (errors.InternalError("bad"), 500, errors.InternalError),
        (errors.UnimplementedError("bad"), 501, errors.UnimplementedError),
        (errors.DeadlineExceededError("bad"), 504, errors.DeadlineExceededError),
        (errors.SessionClosedError("bad"), 503, errors.UnavailableError),
    ],
)
async def test_an_error_of_the_session_keeps_its_message_and_its_kind(session, server, error, status, seen):
    session.error = error

    async with PredictionClient(server.predict_url("adder")) as client:
        with pytest.raises(seen, match=f"HTTP status {status}: bad"):
            await client.predict([[1, 2]])

        session.error = None
        assert await client.predict([[1, 2]]) == [3]


def test_every_canonical_error_has_a_status_and_every_status_an_error():
    kinds = [errors.exception_type_from_error_code(code) for code in range(1, 17)]

    assert all(issubclass(error_of(status_of(kind("bad"))), errors.OpError) for kind in kinds)
    assert all(400 <= status_of(kind("bad")) < 600 for kind in kinds)
    assert error_of(418) is errors.UnknownError


async def test_a_client_that_goes_away_cancels_its_step(session, server):
    session.hold = asyncio.Event()
    async with PredictionClient(server.predict_url("adder")) as client:
        asking = asyncio.create_task(client.predict([[1, 2]]))
        await session.started.wait()

        asking.cancel()
        await session.cancelled.wait()

        session.hold = None
        assert await client.predict([[1, 2]]) == [3]


@pytest.mark.parametrize("missing", [0, 10])
async def test_a_half_closed_connection_is_closed_like_one_whose_client_left(session, server, missing):
    """Whether the client still reads cannot be seen."""
    body = b'{"instances": [[1, 2]]}'
    head = f"POST /v1/models/adder:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    session.hold = asyncio.Event()
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(server.url).port)
    writer.write(head.encode() + body[: len(body) - missing])
    if not missing:
        await session.started.wait()
    writer.write_eof()

    assert await reader.read() == b""

    writer.close()
    if not missing:
        await session.cancelled.wait()
    session.hold = None
    async with PredictionClient(server.predict_url("adder")) as client:
        assert await client.predict([[1, 2]]) == [3]


async def test_leaving_closes_the_socket_though_a_connection_is_kept(session, http):
    async with serve({"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)}) as server:
        await (await http.post(server.predict_url("adder"), json={"instances": [[1, 2]]})).read()

    with pytest.raises(aiohttp.ClientConnectionError):
        await http.get(server.url)
    async with PredictionClient(server.predict_url("adder")) as client:
        with pytest.raises(errors.UnavailableError, match=r"/v1/models/adder:predict: "):
            await client.predict([[1, 2]])


async def test_nothing_holds_a_session_that_was_served():
    session = FakeSession()
    held = weakref.ref(session)
    async with (
        serve({"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)}) as server,
        PredictionClient(server.predict_url("adder")) as client,
    ):
        await client.predict([[1, 2]])

    del session
    gc.collect()

    assert held() is None


async def test_a_port_in_use_is_refused_and_nothing_is_left_open(session):
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="already in use"):
        async with serve(
            {"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)}, port=taken.getsockname()[1]
        ):
            pass


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.org", "192.0.2.1"])
async def test_only_loopback_addresses_are_served(session, host):
    with pytest.raises(errors.FailedPreconditionError, match="it can be reached from other machines"):
        async with serve({"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)}, host=host):
            pass


async def test_the_application_can_be_mounted_in_another(session, http):
    own = web.Application()
    own.add_subapp("/ml", application({"adder": Signature("serving_default", {"x": X}, {"y": Y}, session)}))
    runner = web.AppRunner(own)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/ml/v1/models/adder:predict"
        async with PredictionClient(url) as client:
            answer = await client.predict([[1, 2]])
        async with http.post(url, data=b"no gzip", headers={"Content-Encoding": "gzip"}) as response:
            refused = response.status, await response.json()
    finally:
        await runner.cleanup()

    assert answer == [3]
    assert refused[0] == 400
    assert refused[1]["error"].startswith("the request's body is malformed")


async def test_a_client_is_used_inside_async_with():
    with pytest.raises(errors.FailedPreconditionError, match="use it inside `async with`"):
        await PredictionClient("http://127.0.0.1:1/").predict([1])


async def test_a_real_session_is_served():
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2])
        double, total = x * 2.0, ax.reduce_sum(x, axis=1)

    async with ax.Session(graph=graph) as real:
        served = serve(
            {"adder": Signature("serving_default", {"x": x}, {"double": double, "total": total}, real)}
        )
        async with served as server, PredictionClient(server.predict_url("adder")) as client:
            answers = [await client.predict([[n, 1]] * (n + 1)) for n in range(3)]
            with pytest.raises(errors.InvalidArgumentError):
                await client.predict([["a", 1]])
        afterwards = await real.run(total, {x: [[1, 2]]})

    assert afterwards.tolist() == [3]
    assert answers == [[{"double": [2 * n, 2], "total": n + 1}] * (n + 1) for n in range(3)]
