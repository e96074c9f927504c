"""Graphs that train for twenty steps, with resource variables: the losses of every step are compared."""

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
    return tf.Variable(value, name=name, trainable=trainable, use_resource=True)


def dense(tf: Any, x: Any, seed: int, size: int, dtype: str = "float32") -> Any:
    kernel = variable(tf, values(seed, int(x.shape[-1]), size, dtype=dtype) * 0.5, "kernel")
    return tf.nn.bias_add(tf.matmul(x, kernel), variable(tf, np.zeros(size, dtype), "bias"))


def trained(tf: Any, loss: Any, optimizer: Any, feeds: Any, *more: Any, tolerance: float = 10) -> Built:
    """Minimise `loss`, looking at it and at all variables in each step."""
    train = optimizer.minimize(loss)
    return Built([loss, *more], feeds, tf.global_variables_initializer(), train, tolerance)


def inputs(tf: Any, width: int, classes: int, batch: int = 8) -> tuple[Any, Any, Any]:
    """Features that decide the class, and the batches of twenty steps."""
    x, y = tf.placeholder(tf.float32, [None, width]), tf.placeholder(tf.float32, [None, classes])
    rule = values(99, width, classes)

    def wanted(step: int) -> Any:
        return np.eye(classes, dtype=np.float32)[np.argmax(values(step, batch, width) @ rule, 1)]

    return x, y, batches(tf, STEPS, (x, lambda step: values(step, batch, width)), (y, wanted))


def softmax_loss(tf: Any, logits: Any, wanted: Any) -> Any:
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=wanted, logits=logits))


@graph
def line_by_gradient_descent(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    slope, offset = variable(tf, 0.1, "slope"), variable(tf, 0.0, "offset")
    loss = tf.reduce_mean(tf.square(slope * x + offset - y))
    feeds = batches(tf, STEPS, (x, lambda step: values(step, 6)), (y, lambda step: 3 * values(step, 6) + 1))
    return trained(tf, loss, tf.train.GradientDescentOptimizer(0.3), feeds)


@graph
def plane_by_gradient_descent(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 5, 1)
    loss = tf.losses.mean_squared_error(y, dense(tf, x, 1, 1))
    return trained(tf, loss, tf.train.GradientDescentOptimizer(0.1), feeds)


@graph
def logistic_by_momentum(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 4, 2)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=dense(tf, x, 1, 2)))
    return trained(tf, loss, tf.train.MomentumOptimizer(0.2, 0.9), feeds)


@graph
def perceptron_by_gradient_descent(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 6, 3)
    logits = dense(tf, tf.nn.relu(dense(tf, x, 1, 12)), 2, 3)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1)), tf.float32))
    return trained(tf, softmax_loss(tf, logits, y), tf.train.GradientDescentOptimizer(0.3), feeds, accuracy)


@graph
def perceptron_by_momentum(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 6, 3)
    logits = dense(tf, tf.tanh(dense(tf, x, 1, 12)), 2, 3)
    return trained(tf, softmax_loss(tf, logits, y), tf.train.MomentumOptimizer(0.1, 0.8), feeds)


@graph
def perceptron_by_nesterov_momentum(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 6, 3)
    logits = dense(tf, tf.sigmoid(dense(tf, x, 1, 12)), 2, 3)
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)
    return trained(tf, softmax_loss(tf, logits, y), optimizer, feeds)


@graph
def perceptron_by_adam(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 6, 4, batch=16)
    hidden = tf.nn.elu(dense(tf, tf.nn.relu(dense(tf, x, 1, 16)), 2, 8))
    return trained(tf, softmax_loss(tf, dense(tf, hidden, 3, 4), y), tf.train.AdamOptimizer(0.02), feeds)


@graph
def double_perceptron_by_adam(tf: Any) -> Built:
    x = tf.placeholder(tf.float64, [None, 5])
    code = tf.tanh(dense(tf, x, 1, 3, "float64"))
    loss = tf.reduce_mean(tf.squared_difference(dense(tf, code, 2, 5, "float64"), x))
    feeds = batches(tf, STEPS, (x, lambda step: values(step, 4, 5, dtype="float64")))
    return trained(tf, loss, tf.train.AdamOptimizer(0.05), feeds)


def images(tf: Any, batch: int = 4) -> tuple[Any, Any, Any]:
    x, y = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.float32, [None, 3])
    return (
        x,
        y,
        batches(
            tf,
            STEPS,
            (x, lambda step: values(step, batch, 8, 8, 1)),
            (y, lambda step: labels(step, batch, 3)),
        ),
    )


def convolutional(tf: Any, x: Any, pool: Any) -> Any:
    layer = x
    for i, channels in enumerate((4, 6)):
        kernel = variable(tf, values(i, 3, 3, int(layer.shape[3]), channels) * 0.5)
        layer = tf.nn.relu(
            tf.nn.conv2d(layer, kernel, [1, 1, 1, 1], "SAME") + variable(tf, np.zeros(channels, np.float32))
        )
        layer = pool(layer, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    return dense(tf, tf.reshape(layer, [-1, 24]), 5, 3)


@graph
def convolutional_by_gradient_descent(tf: Any) -> Built:
    x, y, feeds = images(tf)
    logits = convolutional(tf, x, tf.nn.max_pool)
    return trained(tf, softmax_loss(tf, logits, y), tf.train.GradientDescentOptimizer(0.1), feeds)


@graph
def convolutional_by_adam(tf: Any) -> Built:
    x, y, feeds = images(tf)
    logits = convolutional(tf, x, tf.nn.avg_pool)
    return trained(tf, softmax_loss(tf, logits, y), tf.train.AdamOptimizer(0.01), feeds)


@graph
def recurrent_by_momentum(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 5, 2]), tf.placeholder(tf.float32, [None, 1])
    inner, outer = variable(tf, values(1, 2, 6) * 0.5), variable(tf, values(2, 6, 6) * 0.5)
    state = tf.zeros([tf.shape(x)[0], 6])
    for moment in tf.unstack(x, axis=1):
        state = tf.tanh(tf.matmul(moment, inner) + tf.matmul(state, outer))
    loss = tf.losses.mean_squared_error(y, dense(tf, state, 3, 1))
    feeds = batches(
        tf,
        STEPS,
        (x, lambda step: values(step, 6, 5, 2)),
        (y, lambda step: values(step, 6, 5, 2).sum((1, 2)).reshape(6, 1)),
    )
    return trained(tf, loss, tf.train.MomentumOptimizer(0.05, 0.9), feeds)


@graph
def decayed_weights_and_a_global_step(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 6, 3)
    logits = dense(tf, tf.nn.relu(dense(tf, x, 1, 8)), 2, 3)
    penalty = tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    loss = softmax_loss(tf, logits, y) + 0.01 * penalty
    step = variable(tf, np.int64(0), "global_step", trainable=False)
    rate = 0.5 * tf.pow(0.9, tf.cast(step, tf.float32))
    train = tf.train.GradientDescentOptimizer(rate).minimize(loss, global_step=step)
    fetches = [loss, penalty]
    return Built(fetches, feeds, tf.global_variables_initializer(), train, tolerance=10)


@graph
def clipped_gradients(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 6, 3)
    loss = softmax_loss(tf, dense(tf, tf.nn.softplus(dense(tf, x, 1, 8)), 2, 3), y)
    optimizer = tf.train.MomentumOptimizer(0.3, 0.5)
    pairs = optimizer.compute_gradients(loss)
    norm = tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(gradient)) for gradient, _ in pairs]))
    factor = tf.minimum(1.0, 0.2 / norm)
    clipped = [(tf.clip_by_value(gradient * factor, -0.1, 0.1), each) for gradient, each in pairs]
    train = optimizer.apply_gradients(clipped)
    return Built([loss, norm], feeds, tf.global_variables_initializer(), train, tolerance=10)


@graph
def averages_that_follow_the_weights(tf: Any) -> Built:
    x, y, feeds = inputs(tf, 4, 2)
    loss = softmax_loss(tf, dense(tf, x, 1, 2), y)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    averages = [
        variable(tf, np.zeros(v.shape.as_list(), np.float32), trainable=False)
        for v in tf.trainable_variables()
    ]
    with tf.control_dependencies([train]):
        pairs = zip(averages, tf.trainable_variables(), strict=True)
        moves = [
            average.assign_sub((average - v.read_value()) * 0.1, read_value=False) for average, v in pairs
        ]
    return Built([loss], feeds, tf.global_variables_initializer(), tf.group(*moves), tolerance=10)


@graph
def embeddings_by_gradient_descent(tf: Any) -> Built:
    words, y = tf.placeholder(tf.int32, [None, 2]), tf.placeholder(tf.float32, [None, 3])
    table = variable(tf, values(1, 9, 4))
    joined = tf.reshape(tf.gather(table, words), [-1, 8])
    feeds = batches(
        tf,
        STEPS,
        (words, lambda step: whole(step, 5, 2, low=0, high=9)),
        (y, lambda step: labels(step, 5, 3)),
    )
    loss = softmax_loss(tf, dense(tf, joined, 2, 3), y)
    return trained(tf, loss, tf.train.GradientDescentOptimizer(0.2), feeds)
