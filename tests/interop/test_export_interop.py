"""Graphs built here run in TensorFlow, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.interop.building import labels, values
from tests.interop.comparing import difference, session_here

pytestmark = pytest.mark.interop
STEPS = 20

OPTIMIZERS = {
    "descent": lambda: ax.train.GradientDescentOptimizer(0.3),
    "momentum": lambda: ax.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: ax.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: ax.train.AdamOptimizer(0.02),
}


def classifier(optimizer: str, resource: bool) -> ax.Graph:
    """A small convolutional classifier with everything needed to train it."""
    with ax.Graph().as_default() as graph, ax.variable_scope("model", use_resource=resource):
        x = ax.placeholder(ax.float32, [None, 6, 6, 1], name="x")
        y = ax.placeholder(ax.float32, [None, 3], name="y")
        kernel = ax.get_variable("kernel", initializer=ax.constant(values(1, 3, 3, 1, 4)))
        layer = ax.nn.relu(ax.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME"))
        layer = ax.reshape(ax.nn.max_pool(layer, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"), [-1, 36])
        weights = ax.get_variable("weights", initializer=ax.constant(values(2, 36, 3)))
        bias = ax.get_variable("bias", [3], initializer=ax.zeros_initializer())
        logits = ax.matmul(layer, weights) + bias
        penalty = 0.01 * ax.reduce_sum(ax.square(weights))
        losses = ax.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits)
        loss = ax.add(ax.reduce_mean(losses), penalty, name="loss")
        OPTIMIZERS[optimizer]().minimize(loss, name="train")
        ax.group(ax.global_variables_initializer(), name="init")
    return graph


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
async def test_a_model_built_here_trains_there_as_it_does_here(optimizer, resource, tf):
    graph = classifier(optimizer, resource)
    written = tf.GraphDef.FromString(graph.as_graph_def(add_shapes=True).SerializeToString())
    feeds = [{"model/x:0": values(n, 4, 6, 6, 1), "model/y:0": labels(n, 4, 3)} for n in range(STEPS)]
    loss, train, init = "model/loss:0", "model/train", "model/init"

    async with session_here(graph, "off") as ours:
        await ours.run(init)
        here = [(await ours.run([loss, train], feed))[0] for feed in feeds]
    with tf.Graph().as_default() as theirs:
        tf.import_graph_def(written, name="")
    with tf.Session(graph=theirs) as session:
        session.run(init)
        there = [session.run([loss, train], feed)[0] for feed in feeds]

    assert difference(np.array(here), np.array(there), factor=20) == ""
    assert len(set(there)) > 15


async def test_shapes_inferred_here_are_those_inferred_there(tf):
    graph = classifier("adam", resource=True)
    written = tf.GraphDef.FromString(graph.as_graph_def().SerializeToString())

    with tf.Graph().as_default() as theirs:
        tf.import_graph_def(written, name="")

    contradictions: list[Any] = []
    for op in graph.get_operations():
        for ours, other in zip(op.outputs, theirs.get_operation_by_name(op.name).outputs, strict=True):
            shape = other.shape.as_list() if other.shape.rank is not None else None
            if not ours.shape.is_compatible_with(shape):
                contradictions.append((ours.name, ours.shape, shape))
    assert contradictions == []
