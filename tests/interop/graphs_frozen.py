"""Graphs as frozen models have them: weights as constants behind identities, batch normalisation with constant statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.interop.building import Builder, Built, values

GRAPHS: list[Builder] = []
EPSILON = 0.001


def graph(build: Builder) -> Builder:
    GRAPHS.append(build)
    return build


def frozen(tf: Any, value: Any) -> Any:
    """A weight as `convert_variables_to_constants` leaves it."""
    return tf.identity(tf.constant(value))


def vectors(tf: Any, seed: int, n: int) -> tuple[Any, Any, Any, Any]:
    """Scale, offset, mean and variance of n channels."""
    scale, variance = (values(seed + k, n, low=0.5, high=1.5) for k in (0, 3))
    return tuple(frozen(tf, each) for each in (scale, values(seed + 1, n), values(seed + 2, n), variance))


def normalized(tf: Any, y: Any, seed: int) -> Any:
    scale, offset, mean, variance = vectors(tf, seed, y.shape[-1])
    return tf.nn.fused_batch_norm(y, scale, offset, mean, variance, EPSILON, is_training=False)[0]


def written_out(tf: Any, y: Any, seed: int) -> Any:
    scale, offset, mean, variance = vectors(tf, seed, y.shape[-1])
    return tf.nn.batch_normalization(y, mean, variance, offset, scale, EPSILON)


def conv(tf: Any, x: Any, seed: int, size: int, n: int, stride: int = 1) -> Any:
    filters = frozen(tf, values(seed, size, size, x.shape[-1], n))
    return tf.nn.conv2d(x, filters, [1, stride, stride, 1], "SAME")


def depthwise(tf: Any, x: Any, seed: int, each: int = 1) -> Any:
    filters = frozen(tf, values(seed, 3, 3, x.shape[-1], each))
    return tf.nn.depthwise_conv2d(x, filters, [1, 1, 1, 1], "SAME")


Norm = Callable[[Any, Any, int], Any]


def residual_block(tf: Any, x: Any, norm: Norm) -> Any:
    y = tf.nn.relu(norm(tf, conv(tf, x, 1, 1, 8), 10))
    y = tf.nn.relu(norm(tf, conv(tf, y, 2, 3, 8), 20))
    y = norm(tf, tf.nn.bias_add(conv(tf, y, 3, 1, 16), frozen(tf, values(4, 16))), 30)
    return tf.nn.relu(y + norm(tf, conv(tf, x, 5, 1, 16), 40))


@graph
def residual_blocks(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 9, 8, 3])
    ends = [residual_block(tf, x, norm) for norm in (normalized, written_out)]
    feeds = [{x: values(n, n, 9, 8, 3)} for n in (1, 3)]
    return Built([*ends, *(tf.reduce_mean(each, [1, 2]) for each in ends)], feeds, tolerance=4)


@graph
def separable_blocks(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 7, 7, 6])
    ends = []
    for norm in (normalized, written_out):
        y = tf.nn.relu6(norm(tf, depthwise(tf, x, 1, 2), 10))
        y = tf.nn.relu6(norm(tf, conv(tf, y, 2, 1, 8), 20))
        ends.append(tf.nn.leaky_relu(norm(tf, depthwise(tf, y, 3), 30)))
    return Built(ends, [{x: values(n, n, 7, 7, 6)} for n in (1, 2)], tolerance=4)


@graph
def normalized_products(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 12])
    y = tf.nn.relu(written_out(tf, tf.matmul(x, frozen(tf, values(1, 12, 20))), 10))
    z = tf.matmul(y, frozen(tf, values(2, 5, 20)), transpose_b=True) * 0.25 + frozen(tf, values(3, 5))
    return Built([y, z], [{x: values(n, n, 12)} for n in (1, 6)], tolerance=4)


@graph
def gradients_through_constant_statistics(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [2, 6, 5, 3])
    ends = [residual_block(tf, x, norm) for norm in (normalized, written_out)]
    slopes = [tf.gradients(tf.reduce_sum(tf.square(each)), x)[0] for each in ends]
    return Built([*ends, *slopes], [{x: values(1, 2, 6, 5, 3)}], tolerance=8)
