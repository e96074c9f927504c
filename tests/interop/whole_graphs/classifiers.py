"""Programs over rows of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.whole_graphs.building import (
    Program,
    cross_entropy,
    dense,
    program,
    training,
    values,
    whole,
    zeros,
)


@program
def logistic_regression(tf: Any) -> Program:
    x, y = tf.placeholder(tf.float32, [None, 8], name="x"), tf.placeholder(tf.float32, [None, 1], name="y")
    slope, offset = zeros(tf, "slope", [8, 1]), zeros(tf, "offset", [1])
    logits = tf.matmul(x, slope) + offset
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    loss += 0.01 * tf.nn.l2_loss(slope)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.sigmoid(logits) > 0.5, y > 0.5), tf.float32))
    rule = values(99, 8, 1)

    def feeds(step: int) -> dict[Any, Any]:
        rows = values(step, 16, 8)
        return {x: rows, y: (rows @ rule > 0).astype(np.float32)}

    return training(tf, loss, tf.train.GradientDescentOptimizer(0.5), feeds, [accuracy, tf.sigmoid(logits)])


@program
def multilayer_perceptron(tf: Any) -> Program:
    x, y = tf.placeholder(tf.float32, [None, 12], name="x"), tf.placeholder(tf.int32, [None], name="y")
    keep = tf.placeholder_with_default(1.0, [], name="keep")
    hidden = tf.nn.relu(dense(tf, "first", x, 32, 1, resource=False))
    hidden = tf.nn.dropout(hidden, keep_prob=keep, seed=5)
    logits = dense(tf, "last", tf.tanh(dense(tf, "second", hidden, 16, 2)), 4, 3)
    loss = cross_entropy(tf, y, logits)
    step = tf.train.get_or_create_global_step()
    rate = tf.train.exponential_decay(0.02, step, 10, 0.9, staircase=True)
    optimizer = ClippedAdam(tf, rate, step)

    def feeds(k: int) -> dict[Any, Any]:
        return {x: values(k % 5, 16, 12), y: whole(k % 5, 16, high=4), keep: 0.8}

    in_top = tf.nn.in_top_k(logits, y, 2)
    return training(
        tf, loss, optimizer, feeds, [tf.nn.softmax(logits), tf.argmax(logits, 1), in_top, step.read_value()]
    )


class ClippedAdam:
    """Adam over gradients of bounded norm, with a moving average of the variables."""

    def __init__(self, tf: Any, rate: Any, step: Any) -> None:
        self.tf, self.rate, self.step = tf, rate, step

    def minimize(self, loss: Any) -> Any:
        tf, optimizer = self.tf, self.tf.train.AdamOptimizer(self.rate)
        gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
        clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
        applied = optimizer.apply_gradients(zip(clipped, variables, strict=True), self.step)
        averages = tf.train.ExponentialMovingAverage(0.9, self.step)
        with tf.control_dependencies([applied]):
            return averages.apply(variables)
