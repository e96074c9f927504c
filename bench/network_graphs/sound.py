"""A network of sound: WaveNet, of dilated causal convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.network_graphs.parameters import Network, Parameters

SAMPLES, CHANNELS, SKIPPED, LEVELS = 4096, 64, 128, 256
DILATIONS = [1 << power for _ in range(2) for power in range(10)]


def wavenet(parameters: Parameters, batch: int) -> Network:
    """The logits of the next sample after each of 4,096, from two stacks of ten dilations."""
    tf = parameters.tf
    samples = tf.placeholder(tf.int32, [None, SAMPLES], name="samples")
    feeds = {samples: np.random.default_rng(12).integers(0, LEVELS, (batch, SAMPLES), np.int32)}
    x = _convolved(parameters, "causal", tf.one_hot(samples, LEVELS), CHANNELS, 2, 1)
    skips: list[Any] = []
    for number, dilation in enumerate(DILATIONS):
        with tf.name_scope(f"layer_{number}"):
            value = tf.tanh(_convolved(parameters, "filter", x, CHANNELS, 2, dilation))
            gate = tf.sigmoid(_convolved(parameters, "gate", x, CHANNELS, 2, dilation))
            y = value * gate
            skips.append(_convolved(parameters, "skip", y, SKIPPED, 1, 1))
            x = x + _convolved(parameters, "residual", y, CHANNELS, 1, 1)
    y = tf.nn.relu(sum(skips[1:], skips[0]) * np.float32(0.5))
    y = tf.nn.relu(_convolved(parameters, "post_1", y, SKIPPED, 1, 1))
    return Network([_convolved(parameters, "post_2", y, LEVELS, 1, 1)], feeds)


def _convolved(parameters: Parameters, name: str, x: Any, filters: int, size: int, dilation: int) -> Any:
    """A causal convolution with bias: what follows a sample has no part in its result."""
    tf = parameters.tf
    channels = int(x.shape[-1])
    with tf.name_scope(name):
        weight = parameters.normal("kernel", [size, channels, filters], np.sqrt(1 / (size * channels)))
        if size > 1:
            x = tf.pad(x, [[0, 0], [(size - 1) * dilation, 0], [0, 0]])
        y = tf.nn.convolution(x, weight, "VALID", dilations=[dilation])
        return tf.nn.bias_add(y, parameters.normal("bias", [filters], 0.1))
