"""Programs over images."""

from __future__ import annotations

from typing import Any

from tests.interop.whole_graphs.building import (
    Program,
    cross_entropy,
    dense,
    program,
    training,
    values,
    weights,
    whole,
    zeros,
)


def batch(tf: Any, size: int, channels: int, classes: int, rows: int = 4) -> tuple[Any, Any, Any]:
    """Images and labels, and what makes a feed of them."""
    x = tf.placeholder(tf.float32, [None, size, size, channels], name="x")
    y = tf.placeholder(tf.int32, [None], name="y")

    def feeds(step: int) -> dict[Any, Any]:
        return {x: values(step % 5, rows, size, size, channels), y: whole(step % 5, rows, high=classes)}

    return x, y, feeds


def conv(
    tf: Any, name: str, x: Any, width: int, filters: int, seed: int, stride: int = 1, padding: str = "SAME"
) -> Any:
    with tf.variable_scope(name):
        kernel = weights(tf, "kernel", [width, width, int(x.shape[-1]), filters], seed)
        return tf.nn.conv2d(x, kernel, strides=[1, stride, stride, 1], padding=padding)


def normalized(tf: Any, name: str, x: Any, momentum: float = 0.9) -> Any:
    """Batch normalisation in training, its moving averages kept in UPDATE_OPS."""
    channels = int(x.shape[-1])
    with tf.variable_scope(name):
        scale, offset = zeros(tf, "gamma", [channels], 1.0), zeros(tf, "beta", [channels])
        moving = (
            zeros(tf, "moving_mean", [channels], trainable=False),
            zeros(tf, "moving_variance", [channels], 1.0, trainable=False),
        )
        y, mean, variance = tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3, is_training=True)
        for average, now in zip(moving, (mean, variance), strict=True):
            update = tf.assign_sub(average, (average - now) * (1 - momentum))
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        return y


def flat(tf: Any, x: Any) -> Any:
    return tf.reshape(x, [-1, int(x.shape[1] * x.shape[2] * x.shape[3])])


@program
def lenet(tf: Any) -> Program:
    x, y, feeds = batch(tf, 16, 1, 5)
    h = tf.nn.relu(tf.nn.bias_add(conv(tf, "first", x, 5, 6, 1), zeros(tf, "b1", [6])))
    h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    h = tf.nn.relu(tf.nn.bias_add(conv(tf, "second", h, 5, 16, 2, padding="VALID"), zeros(tf, "b2", [16])))
    h = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    h = tf.nn.relu(dense(tf, "third", flat(tf, h), 24, 3))
    logits = dense(tf, "fourth", h, 5, 4)
    optimizer = tf.train.MomentumOptimizer(0.02, 0.9, use_nesterov=True)
    return training(tf, cross_entropy(tf, y, logits), optimizer, feeds, [tf.nn.softmax(logits)])


@program
def residual_network(tf: Any) -> Program:
    x, y, feeds = batch(tf, 8, 3, 4)
    h = conv(tf, "stem", x, 3, 8, 1)
    for block, (filters, stride) in enumerate(((8, 1), (16, 2))):
        shortcut = h if stride == 1 else conv(tf, f"shortcut{block}", h, 1, filters, 20 + block, stride)
        h = tf.nn.relu(normalized(tf, f"norm{block}a", h))
        h = conv(tf, f"conv{block}a", h, 3, filters, 30 + block, stride)
        h = tf.nn.relu(normalized(tf, f"norm{block}b", h))
        h = conv(tf, f"conv{block}b", h, 3, filters, 40 + block) + shortcut
    h = tf.reduce_mean(tf.nn.relu(normalized(tf, "norm", h)), [1, 2])
    logits = dense(tf, "head", h, 4, 5)
    decay = tf.add_n([tf.nn.l2_loss(each) for each in tf.trainable_variables() if "kernel" in each.name])
    loss = cross_entropy(tf, y, logits) + 1e-3 * decay
    moving = [each.read_value() for each in tf.global_variables() if "moving" in each.name]
    return training(tf, loss, tf.train.MomentumOptimizer(0.05, 0.9), feeds, [tf.nn.softmax(logits), *moving])


@program
def depthwise_separable_network(tf: Any) -> Program:
    x, y, feeds = batch(tf, 12, 3, 4)
    h = tf.nn.relu6(normalized(tf, "norm0", conv(tf, "stem", x, 3, 8, 1, 2)))
    for block, (filters, stride) in enumerate(((12, 1), (16, 2))):
        with tf.variable_scope(f"block{block}"):
            kernel = weights(tf, "depthwise", [3, 3, int(h.shape[-1]), 1], 50 + block)
            h = tf.nn.depthwise_conv2d(h, kernel, [1, stride, stride, 1], "SAME")
            h = tf.nn.relu6(normalized(tf, "norm_a", h))
            h = tf.nn.relu6(normalized(tf, "norm_b", conv(tf, "pointwise", h, 1, filters, 60 + block)))
    h = tf.nn.avg_pool(h, [1, 3, 3, 1], [1, 1, 1, 1], "VALID")
    logits = dense(tf, "head", flat(tf, h), 4, 5)
    optimizer = tf.train.RMSPropOptimizer(0.003, momentum=0.9)
    return training(tf, cross_entropy(tf, y, logits), optimizer, feeds, [tf.nn.log_softmax(logits)])
