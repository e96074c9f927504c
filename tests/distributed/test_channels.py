"""The choice of a session's channel: local, fast path or gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import aioexec as ax
from aioexec import errors
from aioexec.distributed.security.security import TOKEN_VARIABLE, Security
from aioexec.distributed.transport import channels
from aioexec.distributed.transport.channels import channel_to, use_security
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.transport import Payload

LIST = "MasterService/ListDevices"


def request() -> Payload:
    return Payload(METHODS[LIST].request())


@pytest.fixture
def one() -> Iterator[tuple[ax.Graph, ax.Tensor]]:
    with ax.Graph().as_default() as graph:
        yield graph, ax.constant(1.0)


async def test_a_server_of_the_same_loop_is_called_without_a_socket(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(channels, "_transport", lambda security: pytest.fail("nothing else is asked for"))
    async with ax.train.Server.create_local_server() as server:
        channel = channel_to(server.address)
        reply = await channel.call(LIST, request())
        await channel.close()

    assert len(reply.message.local_device) == 1


async def test_a_session_may_be_made_before_the_server_of_its_loop(
    one: tuple[ax.Graph, ax.Tensor], monkeypatch: pytest.MonkeyPatch
):
    server = ax.train.Server.create_local_server(start=False)
    monkeypatch.setattr(channels, "_transport", lambda security: pytest.fail("nothing else is asked for"))
    graph, value = one
    session = ax.Session(server.target, graph=graph)
    server.start()

    assert await session.run(value) == 1.0
    await session.close()
    await server.stop()


@pytest.mark.network
async def test_a_server_that_wants_a_token_is_shown_that_of_the_process(
    one: tuple[ax.Graph, ax.Tensor], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(channels, "local_channel", lambda address: None)
    graph, value = one
    server = ax.train.Server({"worker": ["localhost:0"]}, security=Security(token="open"))
    try:
        async with server:
            async with ax.Session(server.target, graph=graph) as session:
                with pytest.raises(errors.UnauthenticatedError):
                    await session.run(value)
            use_security(Security(token="open"))
            async with ax.Session(server.target, graph=graph) as session:
                assert await session.run(value) == 1.0
    finally:
        use_security(None)


@pytest.mark.network
async def test_the_token_of_the_environment_is_read_off_the_loop(
    one: tuple[ax.Graph, ax.Tensor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "token").write_text("open\n")  # nothing else runs yet
    (tmp_path / "token").chmod(0o600)
    monkeypatch.setenv(TOKEN_VARIABLE, str(tmp_path / "token"))
    monkeypatch.setattr(channels, "local_channel", lambda address: None)
    graph, value = one
    async with (
        ax.train.Server({"worker": ["localhost:0"]}, security=Security(token="open")) as server,
        ax.Session(server.target, graph=graph) as session,
    ):
        assert await session.run(value) == 1.0


async def test_a_channel_that_is_closed_before_it_is_chosen_opens_nothing(monkeypatch: pytest.MonkeyPatch):
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slowly(call: object, *arguments: object) -> object:
        begun.set()
        await may_end.wait()
        return None

    monkeypatch.setattr(channels, "in_thread", slowly)
    channel = channel_to("localhost:1")
    calling = asyncio.create_task(channel.call(LIST, request()))
    await begun.wait()
    await channel.close()
    may_end.set()

    with pytest.raises(errors.UnavailableError, match="was closed"):
        await calling
