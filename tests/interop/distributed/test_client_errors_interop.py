"""Errors of a server have the class, and the operation, that TensorFlow's client reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.interop.behaviours.both import Failure, outcome

pytestmark = pytest.mark.interop

Case = Callable[[Any], Any]
"""Builds a graph; returns the fetches, or these and the feeds, or these and the initializers."""


def unknown(tf: Any, dtype: Any = None) -> Any:
    return tf.placeholder(dtype or tf.float32, name="x")


def closed_queue(tf: Any, what: str) -> Any:
    queue = tf.FIFOQueue(2, [tf.float32], shapes=[[]], shared_name=f"closed {what}")
    return (queue.dequeue() if what == "dequeue" else queue.enqueue(1.0)), {}, queue.close()


def other_graph(tf: Any) -> Any:
    with tf.Graph().as_default():
        return tf.constant(1.0)


def placed(tf: Any, device: str) -> Any:
    with tf.device(device):
        return tf.constant(1.0) + tf.constant(2.0)


CASES: dict[str, Case] = {
    "nothing fed": lambda tf: unknown(tf) * 2.0,
    "a variable that is not initialised": lambda tf: tf.Variable(1.0, use_resource=False, name="v"),
    "a resource that is not initialised": lambda tf: tf.Variable(
        1.0, use_resource=True, name="v"
    ).read_value(),
    "an update of what is not initialised": lambda tf: tf.assign_add(
        tf.Variable(1.0, use_resource=False, name="v"), 1.0
    ),
    "not a number": lambda tf: (tf.check_numerics(unknown(tf), "here"), {"x:0": np.nan}),
    "no product": lambda tf: (tf.matmul(unknown(tf), tf.ones([3, 2])), {"x:0": np.ones([2, 2], np.float32)}),
    "no sum": lambda tf: (unknown(tf) + tf.ones([3]), {"x:0": np.ones([2], np.float32)}),
    "no such form": lambda tf: (tf.reshape(unknown(tf), [3]), {"x:0": np.ones([4], np.float32)}),
    "no such row": lambda tf: (tf.gather(tf.ones([3]), unknown(tf, tf.int32)), {"x:0": 7}),
    "no such place": lambda tf: (tf.concat([unknown(tf), tf.ones([2, 2])], 0), {"x:0": np.ones([1, 3])}),
    "no such slice": lambda tf: (tf.slice(tf.ones([3]), unknown(tf, tf.int32), [2]), {"x:0": [5]}),
    "no dimension to leave out": lambda tf: (tf.squeeze(unknown(tf), [0]), {"x:0": np.ones([2])}),
    "an assertion": lambda tf: (tf.Assert(tf.less(unknown(tf), 0.0), ["too much"]), {"x:0": 1.0}),
    "a division by zero": lambda tf: (tf.floordiv(tf.constant([1]), unknown(tf, tf.int32)), {"x:0": [0]}),
    "no number": lambda tf: (tf.string_to_number(unknown(tf, tf.string)), {"x:0": "seven"}),
    "a queue that is closed and empty": lambda tf: closed_queue(tf, "dequeue"),
    "a queue that is closed": lambda tf: closed_queue(tf, "enqueue"),
    "no such file": lambda tf: tf.read_file("/nowhere/at all"),
    "no such checkpoint": lambda tf: tf.train.Saver([tf.Variable(1.0, name="v")]).saver_def.restore_op_name,
    "no such processor": lambda tf: placed(tf, "/device:GPU:7"),
    "no such job": lambda tf: placed(tf, "/job:nowhere/task:3"),
    "no such fetch": lambda tf: "nothing:0",
    "no such output": lambda tf: f"{tf.constant(1.0).op.name}:5",
    "no such feed": lambda tf: (tf.constant(1.0), {"nothing:0": 1.0}),
    "a fetch of another kind": lambda tf: 7,
    "no fetch": lambda tf: None,
    "a fetch of another graph": other_graph,
    "a feed of another shape": lambda tf: (tf.placeholder(tf.float32, [2], name="x") * 2.0, {"x:0": [1.0]}),
    "a feed that is a tensor": lambda tf: (unknown(tf) * 2.0, {"x:0": tf.constant(1.0)}),
}


@pytest.mark.behaviour(141)
@pytest.mark.parametrize("case", CASES)
async def test_an_error_has_its_class_and_its_operation(clients_agree, case):
    async def program(engine):
        other = engine.tf.constant(3.0, name="other")
        built = CASES[case](engine.tf)
        fetches, feeds, before = (*built, None)[:3] if isinstance(built, tuple) else (built, {}, None)
        async with engine.session() as session:
            if before is not None:
                await session.run(before)
            try:
                result = await session.run(fetches, feeds)
            except Exception as error:
                operation = getattr(error, "op", None)
                name = None if operation is None else operation.name
                return Failure.of(error), name, await outcome(lambda: session.run(other))
            return result

    result = await clients_agree(program)

    assert isinstance(result, tuple), f"expected an error, got {result}"
    assert result[2] == 3.0 or case.startswith("no such ")  # a node that cannot be placed spoils its graph
