"""TensorFlow's own Session, Saver and MonitoredTrainingSession, unmodified, on our server: they train as on TensorFlow's."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.distributed.processes import free_addresses
from tests.interop.behaviours.both import Program
from tests.interop.comparing import difference
from tests.interop.distributed.served_to_tensorflow import ServerProcess, agreed_of_servers
from tests.interop.distributed.test_client_errors_interop import (
    test_an_error_has_its_class_and_its_operation as test_an_error_has_its_class_and_its_operation,
)

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def our_target() -> Iterator[str]:
    with ServerProcess() as server:
        yield server.target


@pytest.fixture
def clients_agree(tf_of_1x, tf_target, our_target) -> Callable[[Program], Awaitable[Any]]:
    """Runs a program of TensorFlow's client on a server of either kind; returns the common result."""
    return partial(agreed_of_servers, tf_of_1x, tf_target, our_target)


@pytest.fixture
def on_both(tf, tf_target, our_target) -> Callable[[Callable[[str], Any]], tuple[Any, Any]]:
    """Calls with the target of either server, in a new graph; returns the results with ours, and with TensorFlow's."""

    def call(program: Callable[[str], Any]) -> tuple[Any, Any]:
        results = []
        for target in (our_target, tf_target):
            tf.Session.reset(target)
            with tf.Graph().as_default():
                tf.set_random_seed(1)
                results.append(program(target))
        return results[0], results[1]

    return call


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "gradient descent": lambda train: train.GradientDescentOptimizer(0.1),
    "momentum": lambda train: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda train: train.AdagradOptimizer(0.1),
    "adam": lambda train: train.AdamOptimizer(0.1),
    "rmsprop": lambda train: train.RMSPropOptimizer(0.1, centered=True),
    "ftrl": lambda train: train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
}


@pytest.mark.parametrize("is_resource", [False, True], ids=["references", "resources"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_goes_the_same_way(tf, on_both, optimizer, is_resource):
    random = np.random.default_rng(3)
    inputs = random.normal(size=(16, 4)).astype(np.float32)
    wanted = (inputs @ np.array([[1.0], [-2.0], [0.5], [3.0]]) + 1).astype(np.float32)

    def train(target: str) -> list[Any]:
        x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
        weights = tf.Variable(tf.ones([4, 1]) * 0.1, use_resource=is_resource)
        bias = tf.Variable([0.0], use_resource=is_resource)
        rows = tf.Variable(tf.ones([8, 4]), use_resource=is_resource)
        gathered = tf.gather(rows, [1, 3, 3])
        loss = tf.reduce_mean(tf.square(tf.nn.xw_plus_b(x, weights, bias) - y)) + tf.reduce_sum(gathered**2)
        step = tf.train.get_or_create_global_step()
        operation = OPTIMIZERS[optimizer](tf.train).minimize(loss, step)
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run([loss, operation], {x: inputs, y: wanted})[0] for _ in range(10)]
            return [losses, *session.run([weights, bias, rows, step])]

    ours, theirs = on_both(train)

    assert all(not difference(*pair, 16.0) for pair in zip(ours[1:], theirs[1:], strict=True))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    assert ours[0][-1] < ours[0][0]


def test_values_of_all_dtypes_go_there_and_back(tf, on_both):
    dtypes = [
        *(tf.bool, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64, tf.uint64),
        *(tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128, tf.string),
    ]

    def values(dtype: Any) -> Any:
        if dtype == tf.string:
            return np.array([[b"a", b""], [b"\x00\xff", b"long" * 100]], object)
        return np.array([[0, 1], [2, 3]]).astype(dtype.as_numpy_dtype)

    def run(target: str) -> list[Any]:
        fed = [tf.placeholder(dtype) for dtype in dtypes]
        results = [*map(tf.identity, fed), *(tf.reshape(each, [4, 1]) for each in fed)]
        empty = tf.zeros([0, 3])
        with tf.Session(target) as session:
            return session.run([*results, empty], dict(zip(fed, map(values, dtypes), strict=True)))

    ours, theirs = on_both(run)

    for one, other in zip(ours, theirs, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_a_step_is_traced(tf, on_both):
    def run(target: str) -> Any:
        product = tf.matmul(tf.random_uniform([2, 2]), tf.random_uniform([2, 2]), name="product")
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
        with tf.Session(target) as session:
            session.run(product, options=options, run_metadata=metadata)
        nodes = {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}
        graphs = {node.name for graph in metadata.partition_graphs for node in graph.node}
        return (
            [device.device for device in metadata.step_stats.dev_stats],
            "product" in nodes,
            "product" in graphs,
        )

    ours, theirs = on_both(run)

    assert ours == theirs == (["/job:localhost/replica:0/task:0/device:CPU:0"], True, True)


def test_a_close_ends_the_step_that_waits(tf, on_both):
    def run(target: str) -> Any:
        waits = tf.FIFOQueue(1, [tf.float32], [[]]).dequeue()
        session = tf.Session(target)
        session.run(tf.constant(1.0))
        found: list[Any] = []

        def wait() -> None:
            try:
                session.run(waits)
            except tf.errors.OpError as error:
                found.append((type(error).__name__, "Session::Close()" in error.message))

        thread = threading.Thread(target=wait)
        thread.start()
        while not found:
            thread.join(0.3)
            session.close()
        thread.join()
        return found

    ours, theirs = on_both(run)

    assert ours == theirs == [("CancelledError", True)]


@pytest.mark.behaviour(153)
def test_timeouts_end_steps(tf, on_both):
    def run(target: str) -> Any:
        waits = tf.FIFOQueue(1, [tf.float32], [[]]).dequeue()
        other = tf.constant(2.0)
        found = []
        for config, options in (
            (None, tf.RunOptions(timeout_in_ms=200)),
            (tf.ConfigProto(operation_timeout_in_ms=1000), None),
        ):
            with tf.Session(target, config=config) as session:
                session.run(other)
                try:
                    session.run(waits, options=options)
                except tf.errors.OpError as error:
                    found.append(type(error).__name__)
                found.append(session.run(other))
        return found

    ours, theirs = on_both(run)

    assert ours == theirs == ["DeadlineExceededError", 2.0, "DeadlineExceededError", 2.0]


@pytest.mark.behaviour(146)
def test_a_long_message_arrives_whole(tf, on_both):
    def run(target: str) -> Any:
        asserted = tf.Assert(
            tf.placeholder_with_default(False, []), [tf.constant("long " * 10_000)], name="asserted"
        )
        with tf.Session(target) as session:
            try:
                session.run(asserted)
            except tf.errors.InvalidArgumentError as error:
                return error.op.name, len(error.message) > 40_000

    ours, theirs = on_both(run)

    assert ours == theirs
    assert ours[1]


@pytest.mark.behaviour(154)
def test_a_reset_ends_sessions_and_their_variables(tf, on_both):
    def run(target: str) -> Any:
        variable = tf.Variable(1.0, use_resource=False, name="reset_v")
        first = tf.Session(target)
        first.run(variable.initializer)
        with tf.Session(target) as other:
            shared = other.run(variable)
        tf.Session.reset(target)
        found = [shared]
        for session in (first, tf.Session(target)):
            try:
                session.run(variable)
            except tf.errors.OpError as error:
                found.append(type(error).__name__)
        return found

    ours, theirs = on_both(run)

    assert ours == theirs == [1.0, "AbortedError", "FailedPreconditionError"]


@pytest.mark.behaviour(142)
@pytest.mark.behaviour(155)
def test_a_cluster_of_ours_runs_a_graph_over_two_tasks(tf):
    addresses = free_addresses(2)
    cluster = {"worker": addresses}
    servers = [ServerProcess(cluster, "worker", task) for task in range(2)]
    for server in servers:
        server.start()

    with tf.Graph().as_default(), servers[0].started(), servers[1].started():
        with tf.device("/job:worker/task:1"):
            variable = tf.Variable([1.0, 2.0], use_resource=True)
            _, doubled = tf.while_loop(
                lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.0), [0, variable.read_value()]
            )
        with tf.device("/job:worker/task:0"):
            result = tf.reduce_sum(doubled)
        update = tf.train.GradientDescentOptimizer(0.5).minimize(result, var_list=[variable])
        with tf.Session(servers[0].target) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(result) == 24.0
            session.run(update)
            assert session.run(variable).tolist() == [-3.0, -2.0]
            assert [device.name for device in session.list_devices()] == [
                f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in range(2)
            ]


def test_a_monitored_session_trains_saves_and_recovers_when_its_server_is_restarted(tf, tmp_path: Path):
    server = ServerProcess()
    server.start()

    with tf.Graph().as_default(), server.started():
        step = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", initializer=5.0)
        loss = tf.square(weight)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        tf.summary.scalar("loss", loss)
        seen: list[tuple[int, float]] = []

        def train_to(last: int, at: int | None = None) -> None:
            hooks = [tf.train.StopAtStepHook(last_step=last)]
            with tf.train.MonitoredTrainingSession(
                server.target,
                checkpoint_dir=str(tmp_path),
                save_checkpoint_steps=5,
                save_summaries_steps=5,
                hooks=hooks,
            ) as session:
                while not session.should_stop():
                    if seen and seen[-1][0] == at:
                        at = None
                        server.kill()
                        server.start()
                        server.wait()
                    number, _, value = session.run([step, train, weight])
                    seen.append((int(number), float(value)))

        train_to(12)
        assert len(seen) == 12
        train_to(40, at=23)

    tf.summary.FileWriterCache.clear()  # its threads would stay

    numbers = [number for number, _ in seen]
    assert numbers[-1] >= 39
    assert len(numbers) > 40  # some steps were made again, from the last checkpoint
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("-40")
    assert tf.train.load_variable(str(tmp_path), "weight") == pytest.approx(5.0 * 0.8**40, rel=1e-4)
    assert list(tmp_path.glob("events.out.tfevents.*"))
