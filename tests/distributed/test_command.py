"""`aioexec server`: a server process."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
from contextlib import AsyncExitStack

import pytest

import aioexec as ax
from aioexec import cli, errors
from aioexec.distributed.security.security import TOKEN_VARIABLE
from aioexec.train import ClusterSpec, Server
from tests.distributed.processes import (
    REPOSITORY,
    ServerProcess,
    cluster_of,
    described,
    free_addresses,
    servers,
)


@pytest.fixture
def waiting():
    """A graph with a step that waits for ever."""
    with ax.Graph().as_default() as graph:
        queue = ax.FIFOQueue(1, [ax.float32], name="queue")
        ax.identity(queue.dequeue(), name="taken")
        ax.constant(1.0, name="one")
        yield graph


@pytest.mark.network
@pytest.mark.slow
class TestProcesses:
    async def test_a_server_says_where_it_serves_and_ends_at_a_signal(self):
        async with servers(
            "ps", "worker", options=["--config", 'device_count {key: "CPU" value: 2}']
        ) as cluster:
            ps = cluster["ps", 0]

            devices = [f"/job:ps/replica:0/task:0/device:CPU:{n}" for n in (0, 1)]
            assert ps.said == f"{ps.target} serves /job:ps/replica:0/task:0 with {', '.join(devices)}"
            assert await ps.terminate() == 0
            assert "ended" in ps.output

    async def test_the_environment_says_which_task_this_is(self):
        cluster = cluster_of(["chief", "ps"])
        configured = {"cluster": cluster.as_dict(), "task": {"type": "ps", "index": 0}}
        process = ServerProcess(cluster, "ps", 0, environment={"TF_CONFIG": json.dumps(configured)})
        process.arguments = ["-m", "aioexec.cli", "server"]
        try:
            await process.start()

            assert " serves /job:ps/replica:0/task:0 " in process.said
        finally:
            await process.close()

    async def test_a_server_that_ends_gives_steps_their_time_then_cancels_them(self, waiting):
        async with (
            servers("worker", options=["--grace", "0.2"]) as cluster,
            ax.Session(cluster["worker", 0].target, graph=waiting) as session,
        ):
            assert await session.run("one:0") == 1.0
            step = asyncio.create_task(session.run("taken:0"))
            await until_waiting(session)

            assert await cluster["worker", 0].terminate() == 0

            with pytest.raises((errors.CancelledError, errors.UnavailableError, errors.AbortedError)):
                await step

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    async def test_a_second_signal_ends_it_at_once(self, waiting, number):
        async with (
            servers("worker", options=["--grace", "60"]) as cluster,
            ax.Session(cluster["worker", 0].target, graph=waiting) as session,
        ):
            step = asyncio.create_task(session.run("taken:0"))
            await until_waiting(session)
            process = cluster["worker", 0]

            process.signal(number)
            await process.logged("ending")
            process.signal(number)

            assert await process.ended() == -number
            with pytest.raises(errors.UnavailableError):
                await step

    async def test_a_port_in_use_is_said_and_ends_it(self):
        async with Server.create_local_server() as server:
            process = ServerProcess(ClusterSpec({"worker": [server.address]}), "worker", 0)

            with pytest.raises(RuntimeError, match=rf"(?s)ended with 1.*aioexec server: .*{server.address}"):
                await process.start()

    @pytest.mark.may_block("a session reads the token where it is made: a line of a file")
    async def test_a_client_with_the_token_is_admitted(self, tmp_path, monkeypatch):
        token = tmp_path / "token"
        token.write_text("secret\n")
        token.chmod(0o600)
        async with servers("worker", options=["--token-file", str(token)]) as cluster:
            target = cluster["worker", 0].target
            with ax.Graph().as_default() as graph:
                one = ax.constant(1.0)

            async with ax.Session(target, graph=graph) as session:
                with pytest.raises(errors.UnauthenticatedError):
                    await session.run(one)
            monkeypatch.setenv(TOKEN_VARIABLE, str(token))
            async with ax.Session(target, graph=graph) as session:
                assert await session.run(one) == 1.0

    async def test_a_server_that_was_killed_can_be_begun_again(self, waiting):
        async with servers("worker") as cluster:
            process = cluster["worker", 0]
            async with ax.Session(process.target, graph=waiting) as session:
                await session.run("one:0")
                await process.kill()
                with pytest.raises(errors.UnavailableError):
                    await session.run("one:0")
            await process.start()

            async with ax.Session(process.target, graph=waiting) as session:
                assert await session.run("one:0") == 1.0


async def until_waiting(session: ax.Session) -> None:
    """Until a step sent before this has begun: one sent after it is over."""
    assert await session.run("one:0") == 1.0


@pytest.mark.network
@pytest.mark.slow
async def test_the_commands_of_the_guide_make_a_cluster():
    guide = (REPOSITORY / "docs" / "guide" / "distributed.md").read_text(encoding="utf-8")
    commands = [line for line in guide.splitlines() if line.startswith(".venv/bin/aioexec server ")]
    assert len(commands) == 3

    addresses = dict(
        zip(["localhost:2222", "localhost:2223", "localhost:2224"], free_addresses(3), strict=True)
    )
    for written, free in addresses.items():
        commands = [command.replace(written, free) for command in commands]
    cluster = ClusterSpec({"ps": [addresses["localhost:2222"]]})
    processes = [ServerProcess(cluster, "ps", 0) for _ in commands]

    async with AsyncExitStack() as ends:
        for process, command in zip(processes, commands, strict=True):
            process.arguments = ["-m", "aioexec.cli", *shlex.split(command)[1:]]
            ends.push_async_callback(process.close)
            await process.start()
        async with ax.Session(f"grpc://{addresses['localhost:2223']}", graph=ax.Graph()) as session:
            devices = await session.list_devices()

    assert len(devices) == 3


# Refused at the start


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cluster", "worker"], "expected job=host:port"),
        (["--cluster", "worker=a:1;worker=b:1"], "once for each job"),
        (["--cluster", '{"worker": 3}'], "must be a list or a dictionary"),
        (["--cluster", '{"worker": '], "--cluster"),
        (["--cluster", "worker=a:1", "--config", "what is this"], "is no ConfigProto"),
        (["--cluster", "worker=a:1", "--config", '{"what": 1}'], "is no ConfigProto"),
        (["--cluster", "worker=a:1", "--grace", "-1"], "number of seconds"),
    ],
)
def test_arguments_that_say_nothing_sensible_are_refused(arguments, says, capsys):
    with pytest.raises(SystemExit) as left:
        cli.main(["server", *arguments])

    assert left.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "TF_CONFIG"),
        (["--cluster", "worker=localhost:0,localhost:1"], "task_index"),
        (["--cluster", "worker=localhost:0;ps=localhost:1"], "job_name"),
        (["--cluster", "worker=localhost:0", "--job", "ps"], "No such job"),
        (["--cluster", "worker=localhost:0", "--job", "worker", "--task", "3"], "Task 3 was not defined"),
        (["--cluster", "worker=0.0.0.0:0"], "--insecure"),
        (["--cluster", "worker=localhost:0", "--token-file", "/nowhere/token"], "/nowhere/token"),
    ],
)
def test_a_server_that_cannot_be_made_says_why(arguments, says, capsys, monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)

    assert cli.main(["server", *arguments]) == 1

    said = capsys.readouterr().err.strip()
    assert said.startswith("aioexec server: ")
    assert says in said


def test_a_cluster_is_described_as_the_command_takes_it():
    assert described(ClusterSpec({"ps": ["a:1", "b:2"], "worker": ["c:3"]})) == "ps=a:1,b:2;worker=c:3"
