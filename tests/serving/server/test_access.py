"""Who may send requests: tokens, certificates, and pages of other sites."""

import asyncio
import ssl

import aiohttp
import pytest

import aioexec as ax
from aioexec.distributed.security.security import Security
from aioexec.serving import serve
from tests.distributed.certificates import make_authority
from tests.serving.signatures import Fake

pytestmark = pytest.mark.network

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 2], name="x")

MODELS = {"adder": Fake({"x": X}, {"y": X}, lambda x: {"y": x.sum(axis=1)})}
BODY = {"instances": [[1, 2]]}


@pytest.fixture
async def http():
    async with aiohttp.ClientSession() as http:
        yield http


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return make_authority(tmp_path_factory.mktemp("certificates") / "authority")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer secret"}, 200),
        (
            {"Authorization": "Bearer secret", "Host": "models.example", "Origin": "http://models.example"},
            200,
        ),
        ({"Authorization": "Bearer secret", "Origin": "http://other.example"}, 403),
        ({}, 401),
        ({"Authorization": "Bearer Secret"}, 401),
        ({"Authorization": "secret"}, 401),
        ({"Authorization": "Bearer \u00e4"}, 401),
    ],
)
async def test_a_server_with_a_token_answers_those_who_send_it(http, headers, status):
    async with (
        serve(MODELS, security=Security(token="secret")) as server,
        http.post(server.predict_url("adder"), json=BODY, headers=headers) as response,
    ):
        answer = await response.json()

    assert response.status == status
    assert ("predictions" in answer) is (status == 200)


async def test_a_supervisor_needs_no_token_but_the_metrics_do(http):
    async with serve(MODELS, security=Security(token="secret")) as server:
        statuses = [
            (await http.get(server.url + path)).status for path in ("/healthz", "/readyz", "/metrics")
        ]

    assert statuses == [200, 200, 401]


@pytest.mark.parametrize("security", [Security(token="secret"), Security(insecure=True)])
async def test_beyond_loopback_a_token_or_the_word_insecure_is_needed(http, security):
    headers = {"Host": "models.example", "Authorization": "Bearer secret"}
    async with serve(MODELS, host="0.0.0.0", security=security) as server:
        url = server.predict_url("adder").replace("0.0.0.0", "127.0.0.1")
        async with http.post(url, json=BODY, headers=headers) as response:
            assert await response.json() == {"predictions": [3]}
        headers["Origin"] = "http://other.example"
        async with http.post(url, json=BODY, headers=headers) as response:
            assert response.status == 403


async def test_mutual_tls_admits_clients_with_a_certificate(http, authority):
    certificate, key = await asyncio.to_thread(authority.signed, "server")
    security = await asyncio.to_thread(Security.from_files, certificate, key, authority.certificate)
    trusting = await asyncio.to_thread(ssl.create_default_context, cafile=authority.certificate)
    async with serve(MODELS, security=security) as server:
        url = server.predict_url("adder")
        assert url.startswith("https://")
        known = await asyncio.to_thread(security.calling_context)
        async with http.post(url, json=BODY, ssl=known) as response:
            assert await response.json() == {"predictions": [3]}
        with pytest.raises(aiohttp.ClientError):
            await http.post(url, json=BODY, ssl=trusting)


async def test_a_draining_server_refuses_predictions_and_is_not_ready(http):
    async with serve(MODELS) as server:
        server.drain()
        async with http.post(server.predict_url("adder"), json=BODY) as response:
            refused = response.status, response.headers["Retry-After"], await response.json()
        ready = (await http.get(server.url + "/readyz")).status

    assert refused == (503, "1", {"error": "the server is about to end"})
    assert ready == 503
