"""Graphs with reference variables (VariableV2, Assign and similar ops), some of them trained for twenty steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.building import Builder, Built, batches, labels, values, whole

STEPS = 20
GRAPHS: list[Builder] = []


def graph(build: Builder) -> Builder:
    GRAPHS.append(build)
    return build


def variable(tf: Any, value: Any, name: str | None = None, trainable: bool = True) -> Any:
    return tf.Variable(value, name=name, trainable=trainable, use_resource=False)


def dense(tf: Any, x: Any, seed: int, size: int) -> Any:
    kernel = variable(tf, values(seed, int(x.shape[-1]), size) * 0.5, "kernel")
    return tf.matmul(x, kernel) + variable(tf, np.zeros(size, np.float32), "bias")


def classified(tf: Any, optimizer: Any, activation: Any) -> Built:
    """A perceptron trained for twenty steps."""
    x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.float32, [None, 3])
    logits = dense(tf, activation(dense(tf, x, 1, 9)), 2, 3)
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=logits))
    feeds = batches(tf, STEPS, (x, lambda step: values(step, 7, 5)), (y, lambda step: labels(step, 7, 3)))
    train = optimizer.minimize(loss)
    return Built([loss], feeds, tf.global_variables_initializer(), train, tolerance=10)


@graph
def line_by_gradient_descent(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    slope, offset = variable(tf, 0.1), variable(tf, 0.0)
    loss = tf.reduce_mean(tf.square(slope * x + offset - y))
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    feeds = batches(tf, STEPS, (x, lambda step: values(step, 6)), (y, lambda step: 3 * values(step, 6) + 1))
    return Built([loss], feeds, tf.global_variables_initializer(), train, tolerance=10)


@graph
def perceptron_by_gradient_descent(tf: Any) -> Built:
    return classified(tf, tf.train.GradientDescentOptimizer(0.3), tf.nn.relu)


@graph
def perceptron_by_momentum(tf: Any) -> Built:
    return classified(tf, tf.train.MomentumOptimizer(0.1, 0.9), tf.tanh)


@graph
def perceptron_by_nesterov_momentum(tf: Any) -> Built:
    return classified(tf, tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True), tf.sigmoid)


@graph
def perceptron_by_adam(tf: Any) -> Built:
    return classified(tf, tf.train.AdamOptimizer(0.02), tf.nn.elu)


@graph
def convolution_by_adam(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 6, 6, 1]), tf.placeholder(tf.int32, [None])
    kernel = variable(tf, values(1, 3, 3, 1, 4))
    layer = tf.nn.max_pool(
        tf.nn.relu(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME")), [1, 2, 2, 1], [1, 2, 2, 1], "VALID"
    )
    logits = dense(tf, tf.reshape(layer, [-1, 36]), 2, 3)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    feeds = batches(
        tf, STEPS, (x, lambda step: values(step, 4, 6, 6, 1)), (y, lambda step: whole(step, 4, low=0, high=3))
    )
    return Built([loss], feeds, tf.global_variables_initializer(), train, tolerance=10)


@graph
def counters(tf: Any) -> Built:
    kinds = [variable(tf, np.array(1, dtype)) for dtype in ("int32", "int64", "float32", "float64")]
    added = [tf.assign_add(each, tf.cast(3, each.dtype.base_dtype)) for each in kinds]
    with tf.control_dependencies(added):
        taken = [tf.assign_sub(each, tf.cast(1, each.dtype.base_dtype)) for each in kinds]
    return Built([tf.identity(each) for each in taken], [{}] * 4, tf.global_variables_initializer())


@graph
def fibonacci_by_ordered_assignments(tf: Any) -> Built:
    before, last = variable(tf, np.int64(0)), variable(tf, np.int64(1))
    total = tf.add(before, last)
    with tf.control_dependencies([total]):
        shift = tf.assign(before, last + 0)
    with tf.control_dependencies([shift]):
        store = tf.assign(last, total)
    with tf.control_dependencies([store]):
        shown = tf.stack([tf.identity(before.read_value()), tf.identity(last.read_value())])
    return Built([shown], [{}] * 12, tf.global_variables_initializer())


@graph
def dominant_eigenvector_by_powers(tf: Any) -> Built:
    matrix = tf.constant(values(1, 5, 5) @ values(1, 5, 5).T)
    vector = variable(tf, np.ones((5, 1), np.float32))
    moved = tf.matmul(matrix, vector)
    update = tf.assign(vector, moved / tf.sqrt(tf.reduce_sum(tf.square(moved))))
    with tf.control_dependencies([update]):
        vector_now = vector.read_value()
        value = tf.matmul(vector_now, tf.matmul(matrix, vector_now), transpose_a=True)
    return Built([value, update], [{}] * 8, tf.global_variables_initializer(), tolerance=4)


@graph
def linear_system_by_relaxation(tf: Any) -> Built:
    matrix = values(2, 4, 4) + 6 * np.eye(4, dtype=np.float32)
    rhs = tf.placeholder(tf.float32, [4])
    diagonal, rest = tf.constant(np.diag(matrix)), tf.constant(matrix - np.diag(np.diag(matrix)))
    guess = variable(tf, np.zeros(4, np.float32))
    residual = rhs - tf.reduce_sum(rest * guess, 1)
    step = tf.assign(guess, residual / diagonal)
    return Built([step, residual], [{rhs: values(3, 4)}] * 10, tf.global_variables_initializer())


@graph
def moving_statistics(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 3])
    mean, spread = variable(tf, np.zeros(3, np.float32)), variable(tf, np.ones(3, np.float32))
    seen = variable(tf, 0, trainable=False)
    now, variance = tf.nn.moments(x, [0])
    updates = [tf.assign_sub(mean, 0.2 * (mean - now)), tf.assign_sub(spread, 0.2 * (spread - variance))]
    updates.append(tf.assign_add(seen, tf.shape(x)[0]))
    with tf.control_dependencies(updates):
        normal = (x - mean.read_value()) * tf.rsqrt(spread.read_value() + 1e-3)
    return Built(
        [normal, *updates], [{x: values(n, n, 3)} for n in (5, 2, 9, 4)], tf.global_variables_initializer()
    )


@graph
def rows_of_a_table(tf: Any) -> Built:
    rows, news = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None, 2])
    table = variable(tf, values(1, 6, 2))
    put = tf.scatter_update(table, rows, news)
    with tf.control_dependencies([put]):
        added = tf.scatter_add(table, rows, news * 2.0)
    with tf.control_dependencies([added]):
        read = tf.gather(table.read_value(), rows)
    feeds = [{rows: np.array([0, 3, 5], np.int32), news: values(n, 3, 2)} for n in range(3)]
    return Built([read, added], feeds, tf.global_variables_initializer())


@graph
def variables_initialised_from_each_other(tf: Any) -> Built:
    base, derived = variable(tf, values(1, 3, 3)), variable(tf, np.zeros((3, 3), np.float32))
    with tf.control_dependencies([base.initializer]):
        start = base.read_value()
    filled = tf.assign(derived, tf.matmul(start, start))
    doubled = tf.assign(base, base * 2.0)
    with tf.control_dependencies([doubled]):
        copied = tf.assign(derived, derived - base.read_value())
    return Built([doubled, copied], [{}] * 3, tf.group(filled))
