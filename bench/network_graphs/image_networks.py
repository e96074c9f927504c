"""Networks of images with branches: Inception v3, EfficientNet-B0, U-Net."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bench.network_graphs.convolutional import (
    CLASSES,
    convolution,
    dense,
    depthwise,
    images,
    normalized,
)
from bench.network_graphs.parameters import Network, Parameters

Filters = tuple[int, int | tuple[int, int], int]
"""Of a convolution of a branch: filters, size, stride; strided ones do not pad."""


def inception_v3(parameters: Parameters, batch: int) -> Network:
    """Inception v3 of 299x299 pixels, without the auxiliary classifier."""
    tf = parameters.tf
    x, feeds = images(parameters, batch, 299)
    y = x
    for number, (filters, size, stride, padding) in enumerate(
        [(32, 3, 2, "VALID"), (32, 3, 1, "VALID"), (64, 3, 1, "SAME")]
    ):
        y = _unit(parameters, f"Conv2d_{number}", y, filters, size, stride, padding)
    y = _largest(parameters, y)
    y = _unit(parameters, "Conv2d_3b", y, 80, 1, 1, "VALID")
    y = _unit(parameters, "Conv2d_4a", y, 192, 3, 1, "VALID")
    y = _largest(parameters, y)
    for number, pooled in enumerate((32, 64, 64)):
        branches: list[list[Filters]] = [
            [(64, 1, 1)],
            [(48, 1, 1), (64, 5, 1)],
            [(64, 1, 1), (96, 3, 1), (96, 3, 1)],
        ]
        y = _mixed(parameters, f"Mixed_5{'bcd'[number]}", y, branches, pooled)
    y = _mixed(parameters, "Mixed_6a", y, [[(384, 3, 2)], [(64, 1, 1), (96, 3, 1), (96, 3, 2)]], 0)
    for number, width in enumerate((128, 160, 160, 192)):
        y = _mixed(parameters, f"Mixed_6{'bcde'[number]}", y, _factorized(width), 192)
    y = _mixed(
        parameters,
        "Mixed_7a",
        y,
        [[(192, 1, 1), (320, 3, 2)], [(192, 1, 1), (192, (1, 7), 1), (192, (7, 1), 1), (192, 3, 2)]],
        0,
    )
    for name in ("Mixed_7b", "Mixed_7c"):
        y = _mixed_last(parameters, name, y)
    y = tf.reduce_mean(y, [1, 2], name="GlobalPool")
    with tf.name_scope("Logits"):
        logits = dense(parameters, y, CLASSES)
    return Network([tf.nn.softmax(logits, name="Predictions")], feeds)


def _factorized(width: int) -> list[list[Filters]]:
    """The branches of a block with convolutions of 7 in one direction, then in the other."""
    return [
        [(192, 1, 1)],
        [(width, 1, 1), (width, (1, 7), 1), (192, (7, 1), 1)],
        [(width, 1, 1), (width, (7, 1), 1), (width, (1, 7), 1), (width, (7, 1), 1), (192, (1, 7), 1)],
    ]


def _unit(
    parameters: Parameters,
    name: str,
    x: Any,
    filters: int,
    size: int | tuple[int, int],
    stride: int = 1,
    padding: str = "SAME",
) -> Any:
    with parameters.tf.name_scope(name):
        y = convolution(parameters, x, filters, size, stride, padding=padding)
        return parameters.tf.nn.relu(normalized(parameters, y))


def _largest(parameters: Parameters, x: Any) -> Any:
    return parameters.tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "VALID")


def _mixed(
    parameters: Parameters, name: str, x: Any, branches: Sequence[Sequence[Filters]], pooled: int
) -> Any:
    """Branches of convolutions, and one that pools: then with so many filters, or with stride 2 if there are none."""
    tf = parameters.tf
    ends = []
    with tf.name_scope(name):
        for number, branch in enumerate(branches):
            y = x
            for place, (filters, size, stride) in enumerate(branch):
                padding = "VALID" if stride > 1 else "SAME"
                y = _unit(parameters, f"Branch_{number}/Conv2d_{place}", y, filters, size, stride, padding)
            ends.append(y)
        ends.append(_pooled(parameters, x, pooled) if pooled else _largest(parameters, x))
        return tf.concat(ends, 3)


def _pooled(parameters: Parameters, x: Any, filters: int) -> Any:
    y = parameters.tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
    return _unit(parameters, "Branch_pool", y, filters, 1)


def _mixed_last(parameters: Parameters, name: str, x: Any) -> Any:
    """The block whose branches split once more."""
    tf = parameters.tf
    with tf.name_scope(name):
        first = _unit(parameters, "Branch_0", x, 320, 1)
        second = _unit(parameters, "Branch_1", x, 384, 1)
        third = _unit(parameters, "Branch_2/Conv2d_1", _unit(parameters, "Branch_2", x, 448, 1), 384, 3)
        ends = [first]
        for number, y in enumerate((second, third)):
            halves = [_unit(parameters, f"Half_{number}", y, 384, size) for size in ((1, 3), (3, 1))]
            ends.append(tf.concat(halves, 3))
        return tf.concat([*ends, _pooled(parameters, x, 192)], 3)


EFFICIENT_BLOCKS: Sequence[tuple[int, int, int, int, int]] = [
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
]  # fmt: skip
"""Factor of expansion, filters, repetitions, stride of the first of them, and size of the depthwise filters."""


def efficientnet_b0(parameters: Parameters, batch: int) -> Network:
    """EfficientNet-B0 of 224x224 pixels."""
    tf = parameters.tf
    x, feeds = images(parameters, batch, 224)
    with tf.name_scope("stem"):
        y = _swish(parameters, normalized(parameters, convolution(parameters, x, 32, 3, 2)))
    number = 0
    for factor, filters, repetitions, first_stride, size in EFFICIENT_BLOCKS:
        for repetition in range(repetitions):
            with tf.name_scope(f"blocks_{number}"):
                stride = first_stride if repetition == 0 else 1
                y = _squeezed(parameters, y, factor, filters, stride, size)
            number += 1
    with tf.name_scope("head"):
        y = _swish(parameters, normalized(parameters, convolution(parameters, y, 1280, 1)))
        logits = dense(parameters, tf.reduce_mean(y, [1, 2]), CLASSES)
    return Network([tf.nn.softmax(logits, name="probabilities")], feeds)


def _swish(parameters: Parameters, x: Any) -> Any:
    return x * parameters.tf.sigmoid(x)


def _squeezed(parameters: Parameters, x: Any, factor: int, filters: int, stride: int, size: int) -> Any:
    """An inverted bottleneck whose channels are scaled by what their means say."""
    tf = parameters.tf
    y, channels = x, int(x.shape[-1])
    if factor > 1:
        with tf.name_scope("expand"):
            expanded = convolution(parameters, y, factor * channels, 1)
            y = _swish(parameters, normalized(parameters, expanded, gain=0.7))
    with tf.name_scope("depthwise"):
        y = _swish(parameters, normalized(parameters, depthwise(parameters, y, size, stride), gain=1.2))
    with tf.name_scope("se"):
        means = tf.reduce_mean(y, [1, 2], keepdims=True)
        reduced = _swish(parameters, _biased(parameters, means, max(1, channels // 4)))
        y = y * tf.sigmoid(_biased(parameters, reduced, factor * channels))
    with tf.name_scope("project"):
        y = normalized(parameters, convolution(parameters, y, filters, 1))
    return x + y if stride == 1 and channels == filters else y


def _biased(parameters: Parameters, x: Any, filters: int, size: int = 1) -> Any:
    y = convolution(parameters, x, filters, size)
    return parameters.tf.nn.bias_add(y, parameters.normal("biases", [filters], 0.1))


def unet(parameters: Parameters, batch: int, width: int = 32, levels: int = 4) -> Network:
    """A U-Net of 256x256 pixels with 32 filters in the first level; a probability for each pixel."""
    tf = parameters.tf
    x, feeds = images(parameters, batch, 256)
    y, kept = x, []
    for level in range(levels):
        with tf.name_scope(f"down_{level}"):
            y = _twice(parameters, y, width << level)
        kept.append(y)
        y = tf.nn.max_pool(y, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    with tf.name_scope("bottom"):
        y = _twice(parameters, y, width << levels)
    for level in reversed(range(levels)):
        with tf.name_scope(f"up_{level}"):
            y = tf.concat([kept[level], _enlarged(parameters, y, width << level)], 3)
            y = _twice(parameters, y, width << level)
    with tf.name_scope("output"):
        return Network([tf.sigmoid(_biased(parameters, y, 1))], feeds)


def _twice(parameters: Parameters, x: Any, filters: int) -> Any:
    for _ in range(2):
        x = parameters.tf.nn.relu(_biased(parameters, x, filters, 3))
    return x


def _enlarged(parameters: Parameters, x: Any, filters: int) -> Any:
    """A transposed convolution of 2x2 with stride 2: twice as high and wide."""
    tf = parameters.tf
    channels = int(x.shape[-1])
    weight = parameters.normal("weights", [2, 2, filters, channels], np.sqrt(2 / channels))
    shape = tf.shape(x)
    size = tf.stack([shape[0], shape[1] * 2, shape[2] * 2, filters])
    y = tf.nn.conv2d_transpose(x, weight, size, strides=[1, 2, 2, 1], padding="SAME")
    _, height, long, _ = x.shape.as_list()
    y.set_shape([None, height * 2, long * 2, filters])
    return tf.nn.bias_add(y, parameters.normal("biases", [filters], 0.1))
