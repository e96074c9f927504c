"""The user at the other end of a loopback connection: other users are not admitted, and are not taken for a server."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from aioexec.distributed.security.peer_users import admits_local, admits_tcp, is_own_address
from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.fast import (
    frames as frames,
    sockets as fast_sockets,
    transport as fast_transport,
)
from aioexec.errors import PermissionDeniedError
from tests.distributed.fast_pairs import FastPairs, Peers
from tests.distributed.grpc_pairs import RUN_STEP, Pairs, echo, step
from tests.distributed.other_users import as_another_user, forwarded, needs_root

pytestmark = pytest.mark.network
USER_ONLY = "its own user and root only"


@pytest.fixture
async def pairs():
    async with FastPairs() as pairs:
        yield pairs


@contextlib.contextmanager
def connected(address="127.0.0.1", **options):
    """Both ends of a connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, **options) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("::1" if address == "::1" else "127.0.0.1", port)) as calling:
            answering, _ = server.accept()
            with answering:
                yield calling, answering


def admits(answering: socket.socket) -> bool:
    host, port = answering.getsockname()[:2]
    return admits_tcp(answering.getpeername()[:2], ["::1", host], port)


@pytest.mark.parametrize(
    ("address", "options"), [("127.0.0.1", {}), ("::1", {}), ("::", {"dualstack_ipv6": True})]
)
def test_a_connection_of_ones_own_user_is_admitted(address, options):
    with connected(address, **options) as (_, answering):
        assert admits(answering)


def test_a_connection_between_two_sockets_of_ipv6_by_addresses_of_ipv4_is_found():
    with socket.socket(socket.AF_INET6) as server, socket.socket(socket.AF_INET6) as calling:
        server.bind(("::ffff:127.0.0.1", 0))
        server.listen()
        calling.connect(server.getsockname())
        with server.accept()[0] as answering:
            assert admits(answering)


@needs_root
def test_a_connection_of_another_user_is_not_admitted():
    with as_another_user(), connected() as (_, answering):
        assert admits(answering), "it is the same user that asks"
    with socket.create_server(("127.0.0.1", 0)) as server:
        with as_another_user():
            calling = socket.create_connection(server.getsockname())
        with calling, server.accept()[0] as answering:
            assert not admits(answering)


def test_a_closed_connection_is_not_admitted():
    with connected() as (calling, answering):
        peer, (host, port) = answering.getpeername(), answering.getsockname()
        calling.close()

        assert not admits_tcp(peer, [host], port)


def test_a_listening_port_is_no_connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not admits_tcp(server.getsockname(), ["127.0.0.1"], 1)


@needs_root
def test_the_other_end_of_a_local_socket_is_asked_for():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert admits_local(ours.fileno())
    with as_another_user():
        ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not admits_local(ours.fileno())


def test_only_addresses_of_this_machine_are_its_own():
    assert is_own_address("127.0.0.1")
    assert is_own_address("127.8.9.1")
    assert not is_own_address("192.0.2.1")  # RFC 5737: for documentation
    assert not is_own_address("no address")


# Listeners


@needs_root
async def test_calls_of_another_user_reach_no_handler_over_grpc():
    peers = Peers()
    async with Pairs() as pairs:
        listener = await pairs.listen({RUN_STEP: peers})
        await pairs.connect(listener.address).call(RUN_STEP, step())
        async with forwarded(int(listener.address.rpartition(":")[2])) as address:
            with pytest.raises(PermissionDeniedError, match=USER_ONLY):
                await pairs.connect(address).call(RUN_STEP, step())

    assert len(peers.peers) == 1


@needs_root
@pytest.mark.parametrize("security", [Security(token="secret"), Security(insecure=True)])
async def test_a_token_or_insecure_admits_other_users(security):
    async with Pairs() as pairs:
        listener = await pairs.listen({RUN_STEP: echo}, security=security)
        async with forwarded(int(listener.address.rpartition(":")[2])) as address:
            await pairs.connect(address, security).call(RUN_STEP, step())


@needs_root
@pytest.mark.parametrize("way", ["local", "tcp"])
async def test_another_user_is_not_welcome_on_the_fast_path(pairs, way):
    listener = await pairs.listen({RUN_STEP: echo})
    fast = listener._fast
    with as_another_user():
        if way == "local":
            made = socket.socket(socket.AF_UNIX)
            made.connect(fast_sockets._name(fast.number))
        else:
            made = socket.create_connection(("127.0.0.1", fast.port))
    made.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=made)
    writer.write(frames.greeting(frames.VERSION, fast.number, bytes(32)))

    said = await reader.read()

    assert USER_ONLY.encode() in said
    assert frames.welcome() not in said
    writer.transport.abort()


# Callers


@needs_root
def test_a_local_socket_of_another_user_is_not_used():
    number = 0x1234_5678_9ABC_DEF0
    with as_another_user():
        squatting = fast_sockets.local_socket(number)
    assert squatting is not None
    with squatting:
        assert fast_sockets.local_connection(number) is None


@pytest.mark.parametrize(("is_own", "family"), [(True, socket.AF_UNIX), (False, socket.AF_INET)])
async def test_the_local_socket_is_for_addresses_of_this_machine(pairs, monkeypatch, is_own, family):
    listener = await pairs.listen({RUN_STEP: echo})
    channel = pairs.connect(listener.address)
    monkeypatch.setattr(fast_transport, "is_own_address", lambda host: is_own)

    await channel.call(RUN_STEP, step())

    assert channel._connection._transport.get_extra_info("socket").family == family
