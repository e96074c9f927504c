"""Servers: one graph over several of them, and their lifecycle."""

from __future__ import annotations

import asyncio
import gc
import socket

import grpc
import numpy as np
import pytest

import aioexec as ax
from aioexec import errors
from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.transport.transport import Listener
from aioexec.formats.protos import HealthCheckResponse
from aioexec.testing import all_tasks_blocked
from aioexec.train import Server
from tests.distributed.processes import servers

pytestmark = [pytest.mark.network, pytest.mark.slow]


@pytest.fixture
def graph():
    """A graph that begins on worker 0, continues on worker 1, which has its variable, and ends on worker 0."""
    with ax.Graph().as_default() as made:
        x = ax.placeholder(ax.float32, [2], name="x")
        with ax.device("/job:worker/task:1"):
            total = ax.Variable([0.0, 0.0], name="total")
            added = total.assign_add(x, name="added")
        with ax.device("/job:worker/task:0"):
            ax.identity(added * 2.0, name="doubled")
        ax.variables_initializer([total], name="init")
        yield made


def is_free(address: str) -> bool:
    """Whether there is no listener at "localhost:port"."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) != 0


async def test_one_graph_runs_over_two_servers_from_either_of_them(serve, graph):
    cluster = serve("worker", "worker")

    async with ax.Session(cluster["worker", 0].target, graph=graph) as session:
        await session.run("init")
        first = await session.run("doubled:0", {"x:0": [1.0, 2.0]})
    async with ax.Session(cluster["worker", 1].target, graph=graph) as session:
        second = await session.run("doubled:0", {"x:0": [1.0, 2.0]})

    assert first.tolist() == [2.0, 4.0]
    assert second.tolist() == [4.0, 8.0]


async def test_a_session_sees_the_devices_of_all_servers_its_own_first(serve):
    cluster = serve("ps", "worker", config=ax.ConfigProto(device_count={"CPU": 2}))

    async with ax.Session(cluster["worker", 0].target, graph=ax.Graph()) as session:
        devices = await session.list_devices()

    tasks = ["/job:worker/replica:0/task:0", "/job:ps/replica:0/task:0"]
    assert [each.name for each in devices] == [f"{task}/device:CPU:{n}" for task in tasks for n in (0, 1)]
    assert len({each.incarnation for each in devices}) == 4


async def test_nodes_are_where_they_were_put(serve):
    cluster = serve("ps", "worker")
    with ax.Graph().as_default() as graph:
        with ax.device("/job:ps"):
            a = ax.constant([1.0, 2.0])
        with ax.device("/job:worker"):
            b = ax.reduce_sum(a)
    options = ax.RunOptions(output_partition_graphs=True)
    metadata = ax.RunMetadata()

    async with ax.Session(cluster["worker", 0].target, graph=graph) as session:
        assert await session.run(b, options=options, run_metadata=metadata) == 3.0


async def test_random_numbers_may_come_from_elsewhere():
    server = Server({"worker": ["localhost:0"]}, bits=lambda count: 7)

    (device,) = server.devices.list_device_attributes()
    await server.stop()

    assert device.incarnation == 7


# Life


async def test_a_local_server_is_a_cluster_of_its_own():
    async with Server.create_local_server() as server:
        assert server.target == f"grpc://{server.address}"
        assert server.workers.address(server.task) == server.address
        assert server.server_def.job_name == "localhost"
        with ax.Graph().as_default() as graph:
            seven = ax.constant(3.0) + 4.0
        async with ax.Session(server.target, graph=graph) as session:
            assert await session.run(seven) == 7.0


async def test_a_stopped_server_gives_its_port_to_the_next():
    first = Server.create_local_server()
    await first.stop()
    assert is_free(first.address)

    second = Server({"worker": [first.address]})

    assert second.address == first.address
    await second.stop()


async def test_a_server_that_never_served_is_stopped_likewise():
    server = Server.create_local_server(start=False)

    await server.stop()
    await server.stop()

    assert is_free(server.address)
    with pytest.raises(errors.FailedPreconditionError, match="make another"):
        server.start()


class MuteListener(Listener):
    """One that cannot begin."""

    address = "localhost:1"
    is_stopped = False

    async def start(self):
        raise errors.UnavailableError("cannot listen")

    async def stop(self, grace=None):
        self.is_stopped = True


async def test_a_server_that_cannot_begin_to_serve_gives_everything_back(monkeypatch):
    listener = MuteListener()
    monkeypatch.setattr(GrpcTransport, "listener", lambda *_: listener)

    with pytest.raises(errors.UnavailableError, match="cannot listen"):
        async with Server({"worker": ["localhost:0"]}, transport=GrpcTransport(), start=False):
            pass

    assert listener.is_stopped


async def test_a_port_in_use_is_refused_and_nothing_is_left():
    async with Server.create_local_server() as server:
        with pytest.raises(errors.UnavailableError, match=server.address):
            Server({"worker": [server.address]})


async def test_a_server_does_not_listen_beyond_this_machine_unprotected():
    with pytest.raises(errors.FailedPreconditionError, match="--insecure"):
        Server({"worker": ["0.0.0.0:0"]})

    async with Server({"worker": ["0.0.0.0:0"]}, insecure=True):
        pass
    async with Server({"worker": ["0.0.0.0:0"]}, security=Security(token="secret")):
        pass


async def test_a_server_may_listen_elsewhere_than_its_address_says():
    async with Server({"worker": ["elsewhere.invalid:0"]}, listen="127.0.0.1") as server:
        host, _, port = server.address.rpartition(":")
        with ax.Graph().as_default() as graph:
            one = ax.constant(1.0)

        async with ax.Session(f"grpc://127.0.0.1:{port}", graph=graph) as session:
            assert await session.run(one) == 1.0

    assert host == "elsewhere.invalid"
    with pytest.raises(errors.FailedPreconditionError, match="listening at"):
        Server({"worker": ["localhost:0"]}, listen="0.0.0.0")


def test_a_server_is_made_in_a_loop():
    with pytest.raises(errors.FailedPreconditionError, match="belongs to an event loop"):
        Server.create_local_server()


async def test_health_says_that_a_server_ends():
    server = Server.create_local_server()
    session, step = await queue_session(server)
    async with grpc.aio.insecure_channel(server.address) as channel:
        watching = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
        assert HealthCheckResponse.FromString(await watching.read()).status == HealthCheckResponse.SERVING

        stopping = asyncio.create_task(server.stop(10.0))

        assert HealthCheckResponse.FromString(await watching.read()).status == HealthCheckResponse.NOT_SERVING
        assert not step.done()
        step.cancel()
        await stopping
    await session.close()


async def test_join_waits_for_the_end():
    server = Server.create_local_server()
    joined = asyncio.create_task(server.join())
    await server.serve()
    assert not joined.done()

    await server.stop()

    await joined


async def test_a_server_that_is_dropped_says_so():
    server = Server.create_local_server(start=False)
    state = server.__dict__.copy()

    with pytest.warns(
        ResourceWarning, match="<Server /job:localhost.*made at .*test_server.py:.*never stopped"
    ):
        server.__del__()

    server.__dict__.update(state)
    await server.stop()
    gc.collect()


# Draining


async def queue_session(server):
    """A session with a step under way that waits for a queue, and its graph's names."""
    with ax.Graph().as_default() as graph:
        queue = ax.FIFOQueue(1, [ax.float32], name="queue")
        ax.identity(queue.dequeue(), name="taken")
        queue.enqueue(ax.constant(5.0), name="put")
    session = ax.Session(server.target, graph=graph)
    await session.run("put")
    await session.run("taken:0")
    step = asyncio.create_task(session.run("taken:0"))
    await all_tasks_blocked()
    return session, step


async def test_a_draining_server_lets_steps_end_but_takes_no_new_session():
    server = Server.create_local_server()
    session, step = await queue_session(server)
    other = ax.Session(server.target, graph=session.graph)

    stopping = asyncio.create_task(server.stop(10.0))
    await asyncio.sleep(0)
    with pytest.raises(errors.UnavailableError, match="is shutting down"):
        await other.run("put")
    await other.close()
    step.cancel()
    await asyncio.wait([step])
    await asyncio.wait_for(stopping, 5.0)

    await session.close()


async def test_a_draining_server_does_what_steps_of_other_servers_still_need(serve):
    cluster = serve("ps", "worker")
    with ax.Graph().as_default() as graph, ax.device("/job:worker"):
        queue = ax.FIFOQueue(3, [ax.float32], shapes=[[]])

        def body(count, total):
            taken = queue.dequeue()
            with ax.device("/job:ps"):
                doubled = taken * 2.0
            return count + 1, total + doubled

        ax.identity(ax.while_loop(lambda count, _: count < 3, body, [0, 0.0])[1], name="total")
        queue.enqueue(ax.constant(5.0), name="put")
    async with ax.Session(cluster["worker", 0].target, graph=graph) as session:
        await session.run("put")
        step = asyncio.create_task(session.run("total:0"))
        await begun(cluster["ps", 0])

        stopping = asyncio.create_task(cluster["ps", 0].stop(10.0))
        await asyncio.sleep(0)
        for _ in range(2):
            await session.run("put")

        assert await step == 30.0
        await stopping
        with pytest.raises(errors.UnavailableError):
            await session.run("total:0")


async def begun(server):
    """Until a part of another server's step is under way there."""
    while not server.draining.parts:
        await asyncio.sleep(0.001)


async def test_steps_that_outlast_the_grace_are_cancelled():
    server = Server.create_local_server()
    session, step = await queue_session(server)

    await server.stop(0.05)

    with pytest.raises((errors.CancelledError, errors.UnavailableError, errors.AbortedError)):
        await step
    await session.close()
    assert is_free(server.address)


async def test_a_stop_that_is_cancelled_still_gives_everything_back():
    server = Server.create_local_server()
    session, step = await queue_session(server)
    stopping = asyncio.create_task(server.stop(10.0))
    await asyncio.sleep(0.01)

    stopping.cancel()

    with pytest.raises(asyncio.CancelledError):
        await stopping
    with pytest.raises(errors.OpError):
        await step
    await session.close()
    await server.join()
    assert is_free(server.address)


# Processes


async def test_one_graph_runs_over_two_processes(graph):
    async with (
        servers("worker", "worker") as cluster,
        ax.Session(cluster["worker", 0].target, graph=graph) as session,
    ):
        await session.run("init")
        for count in range(1, 4):
            doubled = await session.run("doubled:0", {"x:0": np.ones(2, np.float32)})
            assert doubled.tolist() == [2.0 * count] * 2
