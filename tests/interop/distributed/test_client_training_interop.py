"""Training by our sessions on servers of both kinds: as by TensorFlow's client, and by a monitored session that recovers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.transport import channels
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from tests.distributed.processes import free_addresses
from tests.interop.behaviours.both import floats, outcome
from tests.interop.distributed.tensorflow_server import TensorFlowServer

pytestmark = pytest.mark.interop


@pytest.fixture
async def writers() -> AsyncIterator[None]:
    """Monitored sessions leave their writers open."""
    yield
    await FileWriterCache.clear()


FEATURES = floats([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
LABELS = floats([[0], [1], [1], [0]])

OPTIMIZERS = {
    "sgd": lambda tf: tf.train.GradientDescentOptimizer(0.5),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.5),
    "adam": lambda tf: tf.train.AdamOptimizer(0.05),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.05),
}


def network(tf, use_resource):
    """The loss of a small network, its inputs and its variables."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.placeholder(tf.float32, [None, 1], name="y")
    weights = np.linspace(-1, 1, 12, dtype=np.float32)
    first = tf.Variable(weights.reshape(3, 4), use_resource=use_resource, name="first")
    second = tf.Variable(weights[:4].reshape(4, 1), use_resource=use_resource, name="second")
    out = tf.sigmoid(tf.matmul(tf.tanh(tf.matmul(x, first)), second))
    return tf.reduce_mean(tf.square(out - y)), {x: FEATURES, y: LABELS}, [first, second]


@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
async def test_training_comes_to_the_same_variables(clients_agree, optimizer, use_resource):
    async def program(engine):
        tf = engine.tf
        loss, feeds, variables = network(tf, use_resource)
        train = OPTIMIZERS[optimizer](tf).minimize(loss)
        init = tf.global_variables_initializer()
        async with engine.session() as session:
            await session.run(init)
            losses = [(await session.run([train, loss], feeds))[1] for _ in range(10)]
            return losses, await session.run([each.read_value() for each in variables])

    losses, _ = await clients_agree(program)

    assert losses[-1] < losses[0]


class Restartable:
    """A server that is restarted at the same address, without its state."""

    def __init__(self, target: str, restart: Callable[[], Awaitable[None]]) -> None:
        self.target = target
        self.restart = restart


@asynccontextmanager
async def ours() -> AsyncIterator[Restartable]:
    address = free_addresses(1)[0]
    servers = [ax.train.Server({"localhost": [address]})]

    async def restart() -> None:
        await servers.pop().stop()
        servers.append(ax.train.Server({"localhost": [address]}))

    try:
        yield Restartable(f"grpc://{address}", restart)
    finally:
        await servers.pop().stop()


@asynccontextmanager
async def theirs() -> AsyncIterator[Restartable]:
    server = TensorFlowServer()
    await asyncio.to_thread(server.start)

    async def restart() -> None:
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)

    try:
        yield Restartable(server.target, restart)
    finally:
        await asyncio.to_thread(server.kill)


@pytest.fixture(params=["tensorflow", "aioexec", "aioexec by gRPC"])
async def restartable(request, monkeypatch) -> AsyncIterator[Restartable]:
    """A server of a test's own."""
    if request.param == "aioexec by gRPC":
        monkeypatch.setattr(channels, "local_channel", lambda address: None)
    async with theirs() if request.param == "tensorflow" else ours() as server:
        yield server


def counting() -> tuple[ax.Graph, ax.Operation, ax.Tensor, ax.Tensor]:
    """A graph that counts its steps, and adds them up in a variable."""
    with ax.Graph().as_default() as graph:
        step = ax.train.get_or_create_global_step()
        total = ax.get_variable("total", [], initializer=ax.zeros_initializer())
        ax.summary.scalar("total", total)
        with ax.control_dependencies([ax.assign_add(total, ax.cast(step, ax.float32))]):
            train = ax.assign_add(step, 1).op
    return graph, train, step, total


@pytest.mark.slow
async def test_a_monitored_session_saves_and_a_second_one_goes_on(target, writers, tmp_path: Path):
    await ax.Session.reset(target)
    graph, train, step, total = counting()
    with graph.as_default():
        async with ax.train.MonitoredTrainingSession(
            master=target, checkpoint_dir=str(tmp_path), save_checkpoint_steps=3, save_summaries_steps=2
        ) as session:
            for _ in range(7):
                await session.run(train)
            first = await session.run([step, total])
    await ax.Session.reset(target)  # the variables are gone, the checkpoint is not
    graph, train, step, total = counting()
    with graph.as_default():
        async with ax.train.MonitoredTrainingSession(
            master=target, checkpoint_dir=str(tmp_path), hooks=[ax.train.StopAtStepHook(last_step=10)]
        ) as session:
            began = await session.run([step, total])
            while not session.should_stop():
                await session.run(train)

    assert first == [7, sum(range(7))]
    assert began == first
    files = {each.name for each in await asyncio.to_thread(lambda: list(tmp_path.iterdir()))}
    assert {"checkpoint", "model.ckpt-10.index", "graph.pbtxt"} <= files
    assert any(each.startswith("events.out.tfevents.") for each in files)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "restart"])
async def test_a_monitored_session_recovers(writers, restartable: Restartable, tmp_path: Path, how: str):
    graph, train, step, total = counting()
    seen = []
    with graph.as_default():
        async with ax.train.MonitoredTrainingSession(
            master=restartable.target,
            checkpoint_dir=str(tmp_path),
            save_checkpoint_steps=2,
            save_summaries_steps=None,
        ) as session:
            for number in range(8):
                if number == 5:
                    await (ax.Session.reset(restartable.target) if how == "reset" else restartable.restart())
                await session.run(train)
                seen.append(int(await session.run(step)))
            result = await session.run([step, total])

    lost = seen.index(5)
    assert seen[: lost + 1] == [1, 2, 3, 4, 5]
    restored = seen[lost + 1] - 1
    assert 3 <= restored <= 5  # the last checkpoint, which was saved at most two steps before
    assert seen[lost + 1 :] == list(range(restored + 1, restored + 4))
    assert result == [seen[-1], sum(range(seen[-1]))]


@pytest.mark.slow
async def test_a_lost_server_is_unavailable_and_one_that_was_restarted_knows_no_session(
    restartable: Restartable,
):
    with ax.Graph().as_default() as graph:
        v = ax.Variable(1.0, name="v")
    session = ax.Session(restartable.target, graph=graph)
    await session.run(v.initializer)

    await restartable.restart()

    async with asyncio.timeout(60):
        while (await outcome(lambda: session.run(v))).code == ax.errors.UNAVAILABLE:
            await asyncio.sleep(0.05)
    for _ in range(3):
        with pytest.raises(ax.errors.AbortedError):
            await session.run(v)
    with pytest.raises(ax.errors.AbortedError):
        await session.close()
    async with ax.Session(restartable.target, graph=graph) as another:
        with pytest.raises(ax.errors.FailedPreconditionError):
            await another.run(v)
        await another.run(v.initializer)
        assert await another.run(v) == 1.0
