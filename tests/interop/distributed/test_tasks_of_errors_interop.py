"""An error of a step names the task it came from, in TensorFlow's form, with servers of either kind.

Nothing is fetched: for a value that another task waits for, TensorFlow names the one task, the other, or both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import aioexec as ax
from tests.distributed.processes import free_addresses
from tests.interop.distributed.mixed import TASK_0, TASK_1
from tests.interop.distributed.served_to_tensorflow import ServerProcess

pytestmark = [pytest.mark.interop, pytest.mark.network]
Build = Callable[[Any], Any]
CASES: dict[str, Build] = {}

_FROM = re.compile(r"^From .*:$", re.MULTILINE)


@pytest.fixture(scope="module")
def our_pair() -> Iterator[str]:
    """The target of task 0 of a cluster of two servers of ours."""
    cluster = {"worker": free_addresses(2)}
    servers = [ServerProcess(cluster, "worker", task) for task in range(2)]
    for server in servers:
        server.start()
    with servers[0].started(), servers[1].started():
        yield servers[0].target


def case(name: str) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        CASES[name] = build
        return build

    return add


def asserted(tf: Any, task: str) -> Any:
    with tf.device(task):
        return tf.Assert(tf.placeholder_with_default(False, []), ["no"], name="asserted")


@case("an operation of the master's task")
def _(tf: Any) -> Any:
    return asserted(tf, TASK_0)


@case("an operation of another task")
def _(tf: Any) -> Any:
    return asserted(tf, TASK_1)


@case("a placeholder that is not fed")
def _(tf: Any) -> Any:
    with tf.device(TASK_1):
        return (tf.placeholder(tf.float32, []) + 1.0).op


@case("a variable that has no value")
def _(tf: Any) -> Any:
    with tf.device(TASK_1):
        return (tf.Variable(1.0, use_resource=False) + 1.0).op


@case("a device that is not there")
def _(tf: Any) -> Any:
    with tf.device("/job:worker/task:7"):
        return tf.constant(1.0).op


def tasks_named(tf: Any, target: str, build: Build, timeout_ms: int = 0) -> tuple[str, list[str]]:
    """The failure of a step for TensorFlow's client: the class, and the tasks that its message names."""
    with tf.Graph().as_default():
        operation = build(tf)
        options = tf.RunOptions(timeout_in_ms=timeout_ms)
        with tf.Session(target) as session, pytest.raises(tf.errors.OpError) as caught:
            session.run(operation, options=options)
    return type(caught.value).__name__, sorted(set(_FROM.findall(caught.value.message)))


@pytest.mark.parametrize("name", CASES)
def test_servers_say_alike_from_which_task_an_error_came(
    name: str, tf_of_1x: Any, tf_pair: str, our_pair: str
):
    expected = tasks_named(tf_of_1x, tf_pair, CASES[name])
    assert tasks_named(tf_of_1x, our_pair, CASES[name]) == expected


def test_no_task_is_named_when_time_is_over(tf_of_1x: Any, tf_pair: str, our_pair: str):
    def waits(tf: Any) -> Any:
        with tf.device(TASK_1):
            return tf.FIFOQueue(1, [tf.float32], shared_name="empty").dequeue().op

    found = [tasks_named(tf_of_1x, target, waits, 300) for target in (tf_pair, our_pair)]

    assert found == [("DeadlineExceededError", [])] * 2


def test_it_is_the_task_where_it_happened_though_another_waits(tf_of_1x: Any, our_pair: str):
    def waits(tf: Any) -> Any:
        with tf.device(TASK_0), tf.control_dependencies([asserted(tf, TASK_1)]):
            return tf.placeholder_with_default(1.0, []) + 1.0

    kind, named = tasks_named(tf_of_1x, our_pair, waits)

    assert (kind, named) == ("InvalidArgumentError", ["From /job:worker/replica:0/task:1:"])


async def test_a_client_of_ours_names_the_device_instead(our_pair: str):
    with ax.Graph().as_default():
        failing = asserted(ax, TASK_1)
        async with ax.Session(our_pair) as session:
            with pytest.raises(ax.errors.InvalidArgumentError) as caught:
                await session.run(failing)

    assert re.match(r"Assert '\S+' on /job:worker/replica:0/task:1/device:CPU:0: ", caught.value.message)
