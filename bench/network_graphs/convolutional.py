"""Layers of convolutional networks, and of them ResNet-50 and MobileNet v1 and v2.

Batch normalisation is inference's: `FusedBatchNormV3` with constant statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.network_graphs.parameters import Network, Parameters

CLASSES = 1001
EPSILON = 1e-3


def images(parameters: Parameters, batch: int, size: int) -> tuple[Any, dict[Any, Any]]:
    """A placeholder of RGB images of any number, and what is fed."""
    x = parameters.tf.placeholder(parameters.tf.float32, [None, size, size, 3], name="images")
    return x, {x: np.random.default_rng(3).standard_normal((batch, size, size, 3), np.float32)}


def convolution(
    parameters: Parameters,
    x: Any,
    filters: int,
    size: int | tuple[int, int],
    stride: int = 1,
    fixed_padding: bool = False,
    padding: str = "SAME",
) -> Any:
    """A convolution without bias; with fixed padding, strided ones pad by `size`, whatever the input's size is."""
    tf = parameters.tf
    channels = int(x.shape[-1])
    height, width = (size, size) if isinstance(size, int) else size
    deviation = np.sqrt(2 / (height * width * channels))
    weight = parameters.normal("weights", [height, width, channels, filters], deviation)
    if fixed_padding and stride > 1 and height > 1:
        before = (height - 1) // 2
        x = tf.pad(x, [[0, 0], [before, height - 1 - before], [before, height - 1 - before], [0, 0]])
        padding = "VALID"
    return tf.nn.conv2d(x, weight, strides=[1, stride, stride, 1], padding=padding)


def depthwise(parameters: Parameters, x: Any, size: int, stride: int = 1) -> Any:
    """A depthwise convolution without bias."""
    channels = int(x.shape[-1])
    weight = parameters.normal("depthwise_weights", [size, size, channels, 1], np.sqrt(2) / size)
    return parameters.tf.nn.depthwise_conv2d(x, weight, strides=[1, stride, stride, 1], padding="SAME")


def normalized(parameters: Parameters, x: Any, gain: float = 1.0) -> Any:
    """Batch normalisation, of a network that trains with the batch's statistics, else with constant ones.

    The result's deviation is `gain` where the input's is 1.
    """
    tf = parameters.tf
    channels = int(x.shape[-1])
    with tf.name_scope("BatchNorm"):
        scale = parameters.uniform("gamma", [channels], 0.8 * gain, 1.2 * gain)
        offset = parameters.normal("beta", [channels], 0.1)
        if parameters.trains:
            return tf.nn.fused_batch_norm(x, scale, offset, epsilon=EPSILON)[0]
        mean = parameters.normal("moving_mean", [channels], 0.1)
        variance = parameters.uniform("moving_variance", [channels], 0.8, 1.2)
        return tf.nn.fused_batch_norm(x, scale, offset, mean, variance, EPSILON, is_training=False)[0]


def dense(parameters: Parameters, x: Any, units: int) -> Any:
    """A product with a matrix, and a bias."""
    size = int(x.shape[-1])
    weight = parameters.normal("weights", [size, units], np.sqrt(1 / size))
    return parameters.tf.nn.bias_add(
        parameters.tf.matmul(x, weight), parameters.normal("biases", [units], 0.1)
    )


def resnet50(parameters: Parameters, batch: int) -> Network:
    """ResNet-50 v1: the stride is in the 3x3 convolution of a block."""
    tf = parameters.tf
    x, feeds = images(parameters, batch, 224)
    with tf.name_scope("conv1"):
        y = convolution(parameters, x, 64, 7, 2, fixed_padding=True)
        y = tf.nn.relu(normalized(parameters, y))
    y = tf.nn.max_pool(y, [1, 3, 3, 1], [1, 2, 2, 1], "SAME", name="pool1")
    for stage, (filters, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            with tf.name_scope(f"block{stage + 1}/unit_{block + 1}"):
                y = _bottleneck(parameters, y, filters, stride, is_first=block == 0)
    y = tf.reduce_mean(y, [1, 2], name="pool5")
    with tf.name_scope("logits"):
        logits = dense(parameters, y, CLASSES)
    return Network([tf.nn.softmax(logits, name="predictions")], feeds)


def _bottleneck(parameters: Parameters, x: Any, filters: int, stride: int, is_first: bool) -> Any:
    tf = parameters.tf
    shortcut = x
    if is_first:
        with tf.name_scope("shortcut"):
            shortcut = normalized(parameters, convolution(parameters, x, 4 * filters, 1, stride), gain=0.7)
    y = x
    for name, width, size, step in [("conv1", filters, 1, 1), ("conv2", filters, 3, stride)]:
        with tf.name_scope(name):
            y = tf.nn.relu(
                normalized(parameters, convolution(parameters, y, width, size, step, fixed_padding=True))
            )
    with tf.name_scope("conv3"):
        y = normalized(parameters, convolution(parameters, y, 4 * filters, 1), gain=0.3)
    return tf.nn.relu(shortcut + y)


MOBILENET_BLOCKS: Sequence[tuple[int, int]] = [
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1),
]  # fmt: skip
"""Filters of the 1x1 convolution and stride of the depthwise one."""


def mobilenet_v1(parameters: Parameters, batch: int) -> Network:
    """MobileNet v1, width 1, of 224x224 pixels."""
    tf = parameters.tf
    x, feeds = images(parameters, batch, 224)
    with tf.name_scope("Conv2d_0"):
        y = tf.nn.relu6(normalized(parameters, convolution(parameters, x, 32, 3, 2)))
    for number, (filters, stride) in enumerate(MOBILENET_BLOCKS, 1):
        with tf.name_scope(f"Conv2d_{number}_depthwise"):
            y = tf.nn.relu6(normalized(parameters, depthwise(parameters, y, 3, stride)))
        with tf.name_scope(f"Conv2d_{number}_pointwise"):
            y = tf.nn.relu6(normalized(parameters, convolution(parameters, y, filters, 1)))
    with tf.name_scope("Logits"):
        y = tf.nn.avg_pool(y, [1, 7, 7, 1], [1, 1, 1, 1], "VALID")
        y = convolution(parameters, y, CLASSES, 1)
        y = tf.nn.bias_add(y, parameters.normal("biases", [CLASSES], 0.1))
        logits = tf.squeeze(y, [1, 2], name="SpatialSqueeze")
    return Network([tf.nn.softmax(logits, name="Predictions")], feeds)


INVERTED_BLOCKS: Sequence[tuple[int, int, int, int]] = [
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
]  # fmt: skip
"""Factor of expansion, filters, repetitions, and stride of the first of them."""


def mobilenet_v2(parameters: Parameters, batch: int) -> Network:
    """MobileNet v2, width 1, of 224x224 pixels."""
    tf = parameters.tf
    x, feeds = images(parameters, batch, 224)
    with tf.name_scope("Conv"):
        y = tf.nn.relu6(normalized(parameters, convolution(parameters, x, 32, 3, 2)))
    number = 0
    for factor, filters, repetitions, first_stride in INVERTED_BLOCKS:
        for repetition in range(repetitions):
            with tf.name_scope(f"expanded_conv_{number}"):
                y = _inverted(parameters, y, factor, filters, first_stride if repetition == 0 else 1)
            number += 1
    with tf.name_scope("Conv_1"):
        y = tf.nn.relu6(normalized(parameters, convolution(parameters, y, 1280, 1)))
    y = tf.reduce_mean(y, [1, 2])
    with tf.name_scope("Logits"):
        logits = dense(parameters, y, CLASSES)
    return Network([tf.nn.softmax(logits, name="Predictions")], feeds)


def _inverted(parameters: Parameters, x: Any, factor: int, filters: int, stride: int) -> Any:
    tf = parameters.tf
    y, channels = x, int(x.shape[-1])
    if factor > 1:
        with tf.name_scope("expand"):
            y = tf.nn.relu6(normalized(parameters, convolution(parameters, y, factor * channels, 1)))
    with tf.name_scope("depthwise"):
        y = tf.nn.relu6(normalized(parameters, depthwise(parameters, y, 3, stride)))
    with tf.name_scope("project"):
        y = normalized(parameters, convolution(parameters, y, filters, 1), gain=0.7)
    return x + y if stride == 1 and channels == filters else y
