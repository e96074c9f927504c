"""Training steps: a network of this package, a loss, TensorFlow's gradients, and an optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bench.network_graphs.parameters import Network, Parameters

Builder = Callable[[Parameters, int], Network]


def trained(build: Builder, optimizer: Callable[[Any], Any], classes: int = 0) -> Builder:
    """A step that trains a network and fetches its loss.

    The loss is the cross entropy of the output, before its softmax, with a label below `classes`; without classes it is the
    mean square of the output.
    """

    def training(parameters: Parameters, batch: int) -> Network:
        tf = parameters.tf
        parameters.trains = True
        network = build(parameters, batch)
        feeds, (output,) = dict(network.feeds), network.outputs
        if classes:
            labels = tf.placeholder(tf.int32, [None], name="labels")
            feeds[labels] = np.random.default_rng(13).integers(0, classes, batch, np.int32)
            logits = output.op.inputs[0] if output.op.type == "Softmax" else output
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        else:
            loss = tf.reduce_mean(tf.square(output))
        return replace(network, outputs=[loss], feeds=feeds, train=optimizer(tf).minimize(loss))

    return training
