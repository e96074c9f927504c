"""TLS, mutual TLS and tokens over real sockets: which peers are admitted, and that refused ones cost no resources."""

import numpy as np
import pytest

from aioexec.distributed.security.security import Security
from aioexec.errors import FailedPreconditionError, UnauthenticatedError, UnavailableError
from tests.distributed.certificates import make_authority
from tests.distributed.grpc_pairs import RUN_STEP, Pairs, Waiting, echo, step

pytestmark = pytest.mark.network

TOKEN = Security(token="secret")


@pytest.fixture
async def pairs():
    async with Pairs() as pairs:
        yield pairs


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    authority = make_authority(tmp_path_factory.mktemp("certificates") / "authority")
    stranger = make_authority(tmp_path_factory.mktemp("certificates") / "stranger")
    server, client, strange = (
        authority.signed("server"),
        authority.signed("client"),
        stranger.signed("strange"),
    )
    return {
        "server": Security.from_files(*server, authority.certificate),
        "server for all": Security.from_files(*server),
        "client": Security.from_files(*client, authority.certificate),
        "only the CA": Security.from_files(ca=authority.certificate),
        "strange": Security.from_files(*strange, authority.certificate),
        "trusts others": Security.from_files(*client, stranger.certificate),
        "nothing": Security(),
    }


async def test_with_the_token_calls_are_answered(pairs):
    listener = await pairs.listen({RUN_STEP: echo}, security=TOKEN)

    reply = await pairs.connect(listener.address, TOKEN).call(RUN_STEP, step(np.array(1)))

    assert reply.tensors == [1]


@pytest.mark.parametrize("security", [Security(), Security(token="Secret"), Security(token="secret2")])
async def test_a_wrong_token_or_none_is_unauthenticated_and_reaches_no_handler(pairs, security):
    handler = Waiting()
    listener = await pairs.listen({RUN_STEP: handler}, security=TOKEN)

    with pytest.raises(UnauthenticatedError):
        await pairs.connect(listener.address, security).call(RUN_STEP, step(np.array(1)))

    assert handler.calls == 0


async def test_without_the_token_it_is_not_even_said_whether_a_method_is_there(pairs):
    listener = await pairs.listen({}, security=TOKEN)

    with pytest.raises(UnauthenticatedError):
        await pairs.connect(listener.address).call(RUN_STEP, step())


async def test_without_the_token_nothing_is_parsed(pairs, monkeypatch):
    listener = await pairs.listen({RUN_STEP: echo}, security=TOKEN)
    parsed = []
    monkeypatch.setattr(
        "aioexec.distributed.transport.grpc.services.decode_request", lambda *seen: parsed.append(seen)
    )

    with pytest.raises(UnauthenticatedError):
        await pairs.connect(listener.address).call(RUN_STEP, step(np.zeros(1 << 20)))

    assert parsed == []


async def test_a_listener_beyond_loopback_needs_protection(pairs):
    with pytest.raises(FailedPreconditionError, match="AIOEXEC_TOKEN_FILE"):
        pairs.transport().listener("0.0.0.0:0", {})

    listener = await pairs.listen({RUN_STEP: echo}, "0.0.0.0:0", TOKEN)
    channel = pairs.connect(listener.address.replace("0.0.0.0", "127.0.0.1"), TOKEN)
    assert (await channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]
    await pairs.listen({}, "0.0.0.0:0", Security(insecure=True))


@pytest.mark.parametrize(
    ("listening", "calling"),
    [("server", "client"), ("server for all", "client"), ("server for all", "only the CA")],
)
async def test_over_tls_calls_are_answered(pairs, files, listening, calling):
    listener = await pairs.listen({RUN_STEP: echo}, security=files[listening])

    reply = await pairs.connect(listener.address, files[calling]).call(RUN_STEP, step(np.array(1)))

    assert reply.tensors == [1]


@pytest.mark.parametrize(
    ("listening", "calling"),
    [
        ("server", "only the CA"),  # shows no certificate
        ("server", "strange"),  # shows one that another authority has signed
        ("server", "nothing"),  # speaks no TLS
        ("server for all", "trusts others"),  # does not know the server
        ("strange", "client"),
        ("nothing", "client"),
    ],
)
async def test_peers_without_the_right_certificate_get_no_connection(pairs, files, listening, calling):
    handler = Waiting()
    listener = await pairs.listen({RUN_STEP: handler}, security=files[listening])

    with pytest.raises(UnavailableError):
        await pairs.connect(listener.address, files[calling]).call(RUN_STEP, step(), timeout=10)

    assert handler.calls == 0


async def test_a_certificate_for_another_name_is_not_taken_for_this_one(pairs, files):
    listener = await pairs.listen({RUN_STEP: echo}, "127.0.0.2:0", files["server for all"])

    with pytest.raises(UnavailableError):
        await pairs.connect(listener.address, files["only the CA"]).call(RUN_STEP, step(), timeout=10)
