"""The lifecycle of a master's sessions: creation, extension, listing, reset, close, and collection."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.master.session_table import SessionTable
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.settings import Collection
from aioexec.distributed.transport.transport import Channel, Payload
from aioexec.errors import (
    AbortedError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
)
from aioexec.testing.cluster import InMemoryCluster


@pytest.fixture
async def cluster():
    async with InMemoryCluster({"worker": 2}) as made:
        yield made


class Client:
    """Asks a master by its messages."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.handle = ""

    async def ask(self, name: str, timeout: float | None = None, **fields: Any) -> Any:
        method = f"MasterService/{name}"
        reply = await self.channel.call(method, Payload(METHODS[method].request(**fields)), timeout)
        return reply.message

    async def create(self, graph: ax.Graph, config: Any = None, timeout: float | None = None) -> None:
        reply = await self.ask("CreateSession", timeout, graph_def=graph.as_graph_def(), config=config)
        self.handle = reply.session_handle

    async def extend(self, version: int, graph_def: Any) -> int:
        reply = await self.ask(
            "ExtendSession", session_handle=self.handle, graph_def=graph_def, current_graph_version=version
        )
        return reply.new_graph_version

    async def run(self, *fetches: str, target: tuple[str, ...] = (), request_id: int = 0) -> list[Any]:
        method = "MasterService/RunStep"
        request = METHODS[method].request(
            session_handle=self.handle, fetch=fetches, target=target, request_id=request_id
        )
        reply = await self.channel.call(method, Payload(request))
        values = dict(zip([each.name for each in reply.message.tensor], reply.tensors, strict=True))
        return [values[name] for name in fetches]


@pytest.fixture
async def client(cluster):
    channel = cluster.channel(cluster.spec.task_address("worker", 0))
    yield Client(channel)
    await channel.close()


def constants(**values: float) -> ax.Graph:
    graph = ax.Graph()
    with graph.as_default():
        for name, value in values.items():
            ax.constant(value, name=name)
    return graph


@pytest.mark.behaviour(150)
@pytest.mark.behaviour(151)
async def test_a_graph_is_extended_only_with_its_current_version(client):
    await client.create(constants(a=1.0))

    with pytest.raises(AbortedError, match=r"Current version is 0 but caller expected 99\."):
        await client.extend(99, constants(b=2.0).as_graph_def())
    assert await client.extend(0, constants(b=2.0).as_graph_def()) == 1
    with pytest.raises(InvalidArgumentError, match="which was created by a previous call"):
        await client.extend(1, constants(c=3.0, b=2.0).as_graph_def())
    with pytest.raises(NotFoundError):
        await client.run("c:0")
    assert await client.extend(1, constants(c=3.0).as_graph_def()) == 2
    assert await client.run("a:0", "b:0", "c:0") == [1.0, 2.0, 3.0]


@pytest.mark.behaviour(151)
async def test_of_many_extensions_at_once_one_succeeds(client):
    await client.create(constants(a=1.0))

    async def extend(number: int) -> int | None:
        try:
            return await client.extend(0, constants(**{f"b{number}": float(number)}).as_graph_def())
        except AbortedError:
            return None

    results = await asyncio.gather(*map(extend, range(100)))

    assert [each for each in results if each is not None] == [1]
    number = results.index(1)
    assert await client.run(f"b{number}:0") == [number]


@pytest.mark.behaviour(152)
async def test_a_run_beside_an_extension_sees_a_whole_graph(client):
    await client.create(constants(a=1.0))
    graph = ax.Graph()
    with graph.as_default():
        total = ax.constant(0.0)
        for _ in range(300):
            total = ax.add(total, 1.0)
        ax.identity(total, name="last")
    good = graph.as_graph_def()
    bad = graph.as_graph_def()
    bad.node.add(name="wrong", op="Identity", input=["last"])  # lacks its attribute: nothing is added

    outcomes = []
    for version, graph_def in enumerate([bad, good]):
        extending = asyncio.create_task(client.extend(0, graph_def))
        while not extending.done():
            try:
                outcomes.append((version, await client.run("last:0")))
            except NotFoundError:
                outcomes.append((version, None))
        await asyncio.gather(extending, return_exceptions=True)

    assert all(value is None for version, value in outcomes if version == 0)
    assert all(value in (None, [300.0]) for _, value in outcomes)
    assert await client.run("last:0") == [300.0]


@pytest.mark.behaviour(149)
@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("_b", [], "Illegal op name '_b'"),
        ("b c", [], "Illegal op name 'b c'"),
        ("", [], "Illegal op name ''"),
        ("b", ["a:x"], "Illegal op input name 'a:x'"),
        ("b", ["^a:0"], "Illegal op input name '^a:0'"),
        ("b", ["a:01"], "Illegal op input name 'a:01'"),
        ("b", ["^a", "a"], "All control inputs must follow all data inputs"),
    ],
)
async def test_illegal_names_are_refused(client, name, given, message):
    graph_def = constants(a=1.0).as_graph_def()
    graph_def.node.add(name=name, op="Identity", input=given).attr["T"].type = 1

    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        await client.ask("CreateSession", graph_def=graph_def)
    await client.create(constants(a=1.0))
    del graph_def.node[0]
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        await client.extend(0, graph_def)
    assert await client.run("a:0") == [1.0]


async def test_a_request_that_comes_twice_is_run_once(client):
    await client.create(constants(a=1.0))
    assert await client.run("a:0", request_id=17) == [1.0]

    with pytest.raises(AbortedError, match=r"The same RunStep \(Master\) request was received twice"):
        await client.run("a:0", request_id=17)
    assert await client.run("a:0", request_id=0) == await client.run("a:0", request_id=0) == [1.0]


async def test_unknown_handles_are_refused_in_words_that_clients_know(client):
    client.handle = "0123456789abcdef"

    with pytest.raises(AbortedError, match=r"Session 0123456789abcdef is not found\."):
        await client.run("a:0")
    with pytest.raises(AbortedError, match="is not found"):
        await client.extend(0, constants(b=1.0).as_graph_def())
    with pytest.raises(AbortedError, match=r"Possibly, this master has restarted\."):
        await client.ask("CloseSession", session_handle=client.handle)
    with pytest.raises(InvalidArgumentError, match=r"Possibly, this master has restarted\."):
        await client.ask("ListDevices", session_handle=client.handle)


async def test_a_value_of_another_dtype_is_refused_not_converted(client):
    graph = ax.Graph()
    with graph.as_default():
        ax.negative(ax.placeholder(ax.float32, [2], name="x"), name="y")
    await client.create(graph)
    method = "MasterService/RunStep"
    request = METHODS[method].request(session_handle=client.handle, fetch=["y:0"], feed=[{"name": "x:0"}])

    with pytest.raises(InternalError, match="type int32 does not match declared output type float for node"):
        await client.channel.call(method, Payload(request, [np.ones(2, np.int32)]))
    reply = await client.channel.call(method, Payload(request, [np.ones(2, np.float32)]))
    assert reply.tensors[0].tolist() == [-1.0, -1.0]


async def test_parts_of_a_run_that_is_over_are_refused(client):
    await client.create(constants(a=1.0))
    handle = (
        await client.ask("PartialRunSetup", session_handle=client.handle, fetch=["a:0"])
    ).partial_run_handle
    request = {"session_handle": client.handle, "fetch": ["a:0"], "partial_run_handle": handle}
    await client.ask("RunStep", **request)

    with pytest.raises(InvalidArgumentError, match="Must run PartialRunSetup before performing partial runs"):
        await client.ask("RunStep", **request)


@pytest.mark.behaviour(155)
async def test_devices_of_all_tasks_are_listed(client):
    await client.create(constants(a=1.0))

    for handle in (client.handle, ""):
        listed = await client.ask("ListDevices", session_handle=handle)

        (local,), (remote,) = listed.local_device, listed.remote_device
        assert local.name == "/job:worker/replica:0/task:0/device:CPU:0"
        assert remote.name == "/job:worker/replica:0/task:1/device:CPU:0"
        assert all(each.device_type == "CPU" for each in (local, remote))
        assert all(each.memory_limit > 0 for each in (local, remote))
        assert local.incarnation not in (0, remote.incarnation)


@pytest.mark.behaviour(143)
async def test_device_filters_hide_other_tasks(cluster):
    graph = ax.Graph()
    with graph.as_default(), ax.device("/job:worker/task:1"):
        away = ax.constant(1.0)
    with graph.as_default():
        here = ax.constant(2.0)
    config = ax.ConfigProto(device_filters=["/job:nobody"])

    async with cluster.session("worker", 0, graph, config) as session:
        assert [each.name for each in await session.list_devices()] == [
            "/job:worker/replica:0/task:0/device:CPU:0"
        ]
        with pytest.raises(InvalidArgumentError, match="Cannot assign a device"):
            await session.run([away, here])


@pytest.mark.behaviour(148)
async def test_variables_belong_to_the_cluster(cluster):
    graph = ax.Graph()
    with graph.as_default(), ax.device("/job:worker/task:1"):
        variable = ax.Variable(1.0, use_resource=True, name="shared")
        more = variable.assign_add(1.0)

    async with (
        cluster.session("worker", 0, graph) as one,
        cluster.session("worker", 1, graph) as other,
    ):
        await one.run(variable.initializer)
        await one.run(more)
        assert await other.run(variable.read_value()) == 2.0
        await other.run(variable.initializer)
        assert await one.run(more) == 2.0


async def test_isolated_sessions_have_variables_of_their_own(cluster):
    graph = ax.Graph()
    with graph.as_default():
        variables = []
        for task in range(2):
            with ax.device(f"/job:worker/task:{task}"):
                variables.append(ax.Variable(float(task), use_resource=True, name=f"v{task}"))
        grown = [variable.assign_add(10.0) for variable in variables]
        init = ax.global_variables_initializer()
    config = ax.ConfigProto(isolate_session_state=True)

    async with cluster.session("worker", 0, graph) as shared:
        await shared.run(init)
        async with cluster.session("worker", 0, graph, config) as isolated:
            await isolated.run(init)
            assert await isolated.run(grown) == [10.0, 11.0]
        assert await shared.run([variable.read_value() for variable in variables]) == [0.0, 1.0]


async def test_a_client_gives_tasks_other_names_for_its_session(cluster):
    own, other = (cluster.spec.task_address("worker", task) for task in range(2))
    config = ax.ConfigProto(
        cluster_def=ax.train.ClusterSpec({"trainer": {3: own, 5: other}}).as_cluster_def()
    )
    graph = ax.Graph()
    with graph.as_default():
        with ax.device("/job:trainer/task:5"):
            variable = ax.Variable(2.0, use_resource=True, name="v")
            tripled = ax.multiply(variable, 3.0)
        with ax.device("/job:trainer/task:3"):
            result = ax.add(tripled, 1.0)
        with ax.device("/job:trainer/task:5"):
            back = ax.negative(result)

    async with (
        cluster.session("worker", 0, graph, config) as session,
        cluster.session("worker", 0, graph, config) as another,
    ):
        assert [each.name for each in await session.list_devices()] == [
            "/job:trainer/replica:0/task:3/device:CPU:0",
            "/job:trainer/replica:0/task:5/device:CPU:0",
        ]
        await session.run(variable.initializer)
        assert await session.run([result, back]) == [7.0, -7.0]
        with pytest.raises(FailedPreconditionError):
            await another.run(back)  # such sessions have state of their own


@pytest.mark.parametrize(
    ("own_name", "message"),
    [
        ("nowhere", "The master (current machine) is not included in the provided cluster_def"),
        ("worker", "to be the same names that were provided when the server booted"),
    ],
)
async def test_a_cluster_the_master_cannot_be_in_is_refused(cluster, own_name, message):
    own = cluster.spec.task_address("worker", 0) if own_name == "worker" else "elsewhere:2222"
    config = ax.ConfigProto(cluster_def=ax.train.ClusterSpec({own_name: [own]}).as_cluster_def())

    async with cluster.session("worker", 0, constants(a=1.0), config) as session:
        with pytest.raises(InvalidArgumentError, match=re.escape(message)):
            await session.run("a:0")


@pytest.mark.behaviour(153)
async def test_a_session_waits_for_tasks_that_are_away_until_its_deadline(virtual_clock):
    async with InMemoryCluster({"worker": 2}) as cluster:
        await cluster.kill("worker", 1)
        channel = cluster.channel(cluster.spec.task_address("worker", 0))
        client = Client(channel)

        with pytest.raises(DeadlineExceededError):
            await client.create(constants(a=1.0), timeout=4.0)
        waiting = asyncio.create_task(client.create(constants(a=1.0)))
        await asyncio.sleep(5)
        assert not waiting.done()
        cluster.restart("worker", 1)
        await waiting

        assert await client.run("a:0") == [1.0]
        await channel.close()


@pytest.mark.behaviour(154)
async def test_reset_closes_all_sessions_and_forgets_their_variables(cluster, client):
    graph = ax.Graph()
    with graph.as_default():
        for task in range(2):
            with ax.device(f"/job:worker/task:{task}"):
                variable = ax.Variable(1.0, use_resource=True, name=f"v{task}")
        ax.group(ax.global_variables_initializer(), name="all")
        with ax.device("/job:worker/task:1"):
            ax.FIFOQueue(1, ax.float32, []).dequeue(name="never")
    await client.create(graph)
    await client.run(target=("all",))
    assert await client.run(f"{variable.op.name}/Read/ReadVariableOp:0") == [1.0]
    waiting = asyncio.create_task(client.run("never:0"))
    while not all(len(server.worker.steps) for server in cluster.servers):
        await asyncio.sleep(0.001)

    await client.ask("Reset")

    with pytest.raises(Exception, match="Step was cancelled by an explicit call to `Session::Close"):
        await waiting
    with pytest.raises(AbortedError):
        await client.run("v1:0")
    with pytest.raises(AbortedError):
        await client.ask("CloseSession", session_handle=client.handle)
    await client.create(graph)
    with pytest.raises(Exception, match="ninitialized"):
        await client.run("v1/Read/ReadVariableOp:0")


class _Steps:
    def __init__(self) -> None:
        self.life = self
        self.under_way: set[int] = set()


class _Session:
    def __init__(self, handle: str) -> None:
        self.session_handle = handle
        self.steps = _Steps()


async def test_abandoned_sessions_are_collected(virtual_clock):
    collected: list[str] = []
    table: Any = SessionTable(
        Collection(idle=100, orphaned=10), lambda session: collected.append(session.session_handle)
    )
    for handle, peer in (("idle", "a"), ("used", "a"), ("orphan", "b"), ("adopted", "b"), ("busy", "b")):
        table.add(_Session(handle), peer)
    table.find("busy", "b").steps.under_way.add(1)

    await asyncio.sleep(1)
    table.on_peer_gone("b")
    table.find("adopted", "c")
    await asyncio.sleep(11)
    assert collected == ["orphan"]

    await asyncio.sleep(80)
    table.find("used", "a")
    table.find("busy", "b").steps.under_way.clear()
    await asyncio.sleep(8.5)
    assert collected == ["orphan", "idle"]
    assert table.find("idle", "a") is None
    assert {session.session_handle for session in table.pop_all()} == {"used", "adopted", "busy"}


async def test_a_client_that_has_gone_has_its_session_collected(cluster, client, virtual_clock):
    await client.create(constants(a=1.0))
    master = cluster.server("worker", 0).master
    assert master.session_count == 1

    await client.channel.close()
    await asyncio.sleep(3600)
    assert master.session_count == 1
    await asyncio.sleep(6 * 3600)
    assert master.session_count == 0


async def test_steps_of_one_session_run_at_the_same_time(cluster):
    graph = ax.Graph()
    with graph.as_default(), ax.device("/job:worker/task:1"):
        queue = ax.FIFOQueue(4, ax.float32, [])
        fed = ax.placeholder(ax.float32, [])
        put, taken = queue.enqueue(fed), queue.dequeue()

    async with cluster.session("worker", 0, graph) as session:
        takers = [asyncio.create_task(session.run(taken)) for _ in range(10)]
        for number in range(10):
            await session.run(put, {fed: np.float32(number)})

        assert sorted(await asyncio.gather(*takers)) == list(range(10))


@pytest.mark.parametrize(("asked", "expected"), [("", "eager"), ("off", "off"), ("background", "background")])
async def test_a_session_that_leaves_jit_open_has_its_servers(asked, expected):
    servers, own = ax.ConfigProto(), ax.ConfigProto()
    servers.aioexec.jit, own.aioexec.jit = "eager", asked
    async with ax.train.Server.create_local_server(servers) as server:
        with ax.Graph().as_default():
            y = ax.constant(1.0) * 2.0
        async with ax.Session(server.target, graph=y.graph, config=own) as session:
            assert await session.run(y) == 2.0

            (made,) = server.master._sessions._entries.values()
            assert made.session.options.jit == expected
