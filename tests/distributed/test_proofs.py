"""The token is proved, never sent, and a proof is valid once."""

from __future__ import annotations

import asyncio

import pytest

from aioexec.distributed.security.proofs import (
    CLIENT,
    SERVER,
    CallProofs,
    authorization_of_call,
    is_proof,
    prove,
)
from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.fast import frames
from aioexec.errors import UnauthenticatedError
from tests.distributed.fast_pairs import FastPairs, Peers, moved
from tests.distributed.grpc_pairs import RUN_STEP, echo, step

PATH = "/tensorflow.MasterService/RunStep"
SECRET = Security(token="secret")


@pytest.fixture
def now(monkeypatch):
    """A clock that the test sets."""
    clock = [1_000_000.0]
    monkeypatch.setattr("aioexec.distributed.security.proofs.time.time", lambda: clock[0])
    return clock


def test_a_proof_depends_on_token_role_and_parts():
    proof = prove("secret", CLIENT, b"one", b"two")

    assert is_proof(proof, "secret", CLIENT, b"one", b"two")
    assert not is_proof(proof, "other", CLIENT, b"one", b"two")
    assert not is_proof(proof, "secret", SERVER, b"one", b"two")
    assert not is_proof(proof, "secret", CLIENT, b"one", b"three")


def test_the_proof_of_a_call_is_good_once():
    known, said = CallProofs("secret"), authorization_of_call("secret", PATH)

    assert known.admits(said, PATH)
    assert not known.admits(said, PATH)
    assert known.admits(authorization_of_call("secret", PATH), PATH)


@pytest.mark.parametrize(
    "said",
    ["", "Bearer secret", "AIOEXEC-HMAC-SHA256 ", "AIOEXEC-HMAC-SHA256 1:2:3", "AIOEXEC-HMAC-SHA256 1:2:zz"],
)
def test_what_is_no_proof_is_not_admitted(said):
    assert not CallProofs("secret").admits(said, PATH)


def test_the_proof_of_a_call_is_for_its_method_and_token():
    said = authorization_of_call("secret", PATH)

    assert not CallProofs("secret").admits(said, "/tensorflow.MasterService/Reset")
    assert not CallProofs("other").admits(said, PATH)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_the_clocks_of_both_sides_may_differ_by_five_minutes(now, seconds):
    early = authorization_of_call("secret", PATH)
    near = authorization_of_call("secret", PATH)
    known = CallProofs("secret")

    now[0] += seconds
    assert not known.admits(early, PATH)
    now[0] -= 2 * (seconds > 0) - 1
    assert known.admits(near, PATH)


def test_proofs_are_forgotten_once_they_have_expired(now):
    known = CallProofs("secret")
    for _ in range(10):
        assert known.admits(authorization_of_call("secret", PATH), PATH)
    now[0] += 301

    assert known.admits(authorization_of_call("secret", PATH), PATH)

    assert len(known._seen) == len(known._in_order) == 1


# On the fast path


async def speaking(pairs: FastPairs, answer):
    """A listener in whose place `answer(reader, writer)` is on the fast path, and its address."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    listener = await pairs.listen({RUN_STEP: echo}, security=SECRET)
    moved(listener, server.sockets[0].getsockname()[1])
    return server, listener.address


@pytest.mark.network
@pytest.mark.parametrize("knows", ["nothing", "another token"])
async def test_a_listener_that_does_not_know_the_token_gets_no_call_and_never_sees_it(knows):
    said = bytearray()

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = await reader.readexactly(len(frames.greeting(1, 1, bytes(32))))
        nonce = bytes(32)
        proof = prove("another", SERVER, greeting[-32:], nonce)
        writer.write(frames.welcome() if knows == "nothing" else frames.challenge(nonce, proof))
        said.extend(greeting + await reader.read())
        writer.close()

    async with FastPairs() as pairs:
        server, address = await speaking(pairs, impostor)
        with pytest.raises(UnauthenticatedError, match="token"):
            await pairs.connect(address, SECRET).call(RUN_STEP, step())
        server.close()
        await server.wait_closed()

    assert b"secret" not in said
    assert frames.REQUEST not in {said[4]}


@pytest.mark.network
async def test_both_sides_prove_that_they_know_the_token():
    peers = Peers()
    async with FastPairs() as pairs:
        listener = await pairs.listen({RUN_STEP: peers}, security=SECRET)
        await pairs.connect(listener.address, SECRET).call(RUN_STEP, step())

    assert peers.ways == ["fast"]
