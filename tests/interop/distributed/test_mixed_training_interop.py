"""Training over a task of TensorFlow's and one of ours: the losses are those of two of TensorFlow's, step by step.

A master of TensorFlow's optimises the graph before our worker gets its part, so this also tests fused nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interop.behaviours.both import Engine
from tests.interop.distributed.mixed import TASK_0, TASK_1

pytestmark = pytest.mark.interop

STEPS = 4
OPTIMIZERS = {
    "descent": lambda train: train.GradientDescentOptimizer(0.1),
    "momentum": lambda train: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda train: train.AdamOptimizer(0.01),
    "adagrad": lambda train: train.AdagradOptimizer(0.1),
    "rmsprop": lambda train: train.RMSPropOptimizer(0.01),
}


class Variables:
    """Makes variables on a task, with initial values that are the same every time."""

    def __init__(self, tf: Any, task: str, use_resource: bool) -> None:
        self._tf = tf
        self._task = task
        self._use_resource = use_resource
        self._random = np.random.RandomState(1)

    def new(self, *shape: int) -> Any:
        value = self._random.randn(*shape).astype(np.float32) * 0.3
        with self._tf.device(self._task):
            return self._tf.Variable(value, use_resource=self._use_resource)


def dense(tf: Any, x: Any, variables: Variables) -> Any:
    for width, units in ((8, 16), (16, 16)):
        x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, variables.new(width, units)), variables.new(units)))
    return tf.nn.bias_add(tf.matmul(x, variables.new(16, 4)), variables.new(4))


def convolutional(tf: Any, x: Any, variables: Variables) -> Any:
    x = tf.reshape(x, [-1, 4, 2, 1])
    x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, variables.new(3, 3, 1, 4), 1, "SAME"), variables.new(4)))
    x = tf.nn.conv2d(x, variables.new(3, 3, 4, 4), 1, "SAME")
    x, _, _ = tf.nn.fused_batch_norm(x, variables.new(4), variables.new(4), is_training=True)
    x = tf.nn.max_pool(tf.nn.relu(x), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    return tf.matmul(tf.reshape(x, [-1, 8]), variables.new(8, 4))


def training(model: Any, optimizer: str, use_resource: bool, variables_on: str, works_on: str) -> Any:
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        random = np.random.RandomState(0)
        x, labels = tf.placeholder(tf.float32, [None, 8]), tf.placeholder(tf.int32, [None])
        feed = {x: random.randn(16, 8).astype(np.float32), labels: random.randint(0, 4, 16).astype(np.int32)}
        with tf.device(works_on):
            logits = model(tf, x, Variables(tf, variables_on, use_resource))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        train = OPTIMIZERS[optimizer](tf.train).minimize(loss)
        async with engine.session() as session:
            await session.run(tf.global_variables_initializer())
            found = [(await session.run([loss, train], feed))[0] for _ in range(STEPS)]
            return np.array([*found, *np.ravel(await session.run(logits, feed))])

    return program


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(("variables_on", "works_on"), [(TASK_0, TASK_1), (TASK_1, TASK_0)])
async def test_dense_layers_learn_alike(agree_mixed, optimizer, variables_on, works_on):
    await agree_mixed(training(dense, optimizer, True, variables_on, works_on), 1e-4)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("task", [TASK_0, TASK_1])
async def test_convolutions_learn_alike(agree_mixed, use_resource, task):
    await agree_mixed(training(convolutional, "descent", use_resource, task, task), 1e-4)
