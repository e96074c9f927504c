"""A whole graph, built by TensorFlow, with the runs to make of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

STEPS = 50


@dataclass(frozen=True, eq=False)
class Run:
    """One call of `session.run`: tensors to compare, operations beside them, and what is fed."""

    fetches: Sequence[Any] = ()
    feeds: dict[Any, Any] = field(default_factory=dict)
    targets: Sequence[Any] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """The runs of a graph, in order, in one session.

    Attributes:
        typical: the run whose share of native nodes is reported.
        graph_def: for programs that are not a graph of a session, but a GraphDef; tensors and operations are names then.
    """

    runs: Sequence[Run]
    typical: int = 1
    graph_def: Any = None


Builder = Callable[[Any], Program]
"""Builds in TensorFlow's default graph; gets the module `tensorflow.compat.v1`."""

PROGRAMS: dict[str, Builder] = {}


def program(build: Builder) -> Builder:
    """Add a builder to the programs, with control flow as TensorFlow 1.x writes it (Switch, Merge, Enter, …)."""

    @functools.wraps(build)
    def with_nodes(tf: Any) -> Program:
        tf.disable_control_flow_v2()
        return build(tf)

    PROGRAMS[build.__name__] = with_nodes
    return build


def also_with_functions(build: Builder) -> Builder:
    """Add it a second time, with control flow as TensorFlow 2 writes it (If, While, and functions)."""

    @functools.wraps(build)
    def with_functions(tf: Any) -> Program:
        tf.enable_control_flow_v2()
        try:
            return build(tf)
        finally:
            tf.disable_control_flow_v2()

    PROGRAMS[f"{build.__name__}_of_functions"] = with_functions
    return build


def training(
    tf: Any,
    loss: Any,
    optimizer: Any,
    feeds: Callable[[int], dict[Any, Any]],
    outputs: Sequence[Any] = (),
    steps: int = STEPS,
    beside: Sequence[Any] = (),
) -> Program:
    """Initialise, minimise `loss` for fifty steps and look at it in each, then look at `outputs`.

    Args:
        feeds: makes the feed of a step.
        beside: operations run in each step after the gradients are made: moving averages, for example.
    """
    with tf.control_dependencies([*beside, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)]):
        train = optimizer.minimize(loss)
    init = Run(targets=[tf.global_variables_initializer()])
    return Program(
        [init, *(Run([loss], feeds(k), [train]) for k in range(steps)), Run([loss, *outputs], feeds(0))]
    )


def values(seed: Any, *shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    """The same float32 values each time."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def whole(seed: Any, *shape: int, high: int, low: int = 0) -> Any:
    """The same int32 values each time, `high` excluded."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)


def weights(tf: Any, name: str, shape: Sequence[int], seed: int, resource: bool = True) -> Any:
    """A variable that begins with TensorFlow's own random numbers."""
    return tf.get_variable(
        name, shape, initializer=tf.glorot_uniform_initializer(seed=seed), use_resource=resource
    )


def zeros(tf: Any, name: str, shape: Sequence[int], value: float = 0.0, trainable: bool = True) -> Any:
    start = tf.constant_initializer(value)
    return tf.get_variable(name, shape, initializer=start, use_resource=True, trainable=trainable)


def dense(tf: Any, name: str, x: Any, size: int, seed: int, resource: bool = True) -> Any:
    """x W + b over the last dimension of a matrix."""
    with tf.variable_scope(name):
        kernel = weights(tf, "kernel", [int(x.shape[-1]), size], seed, resource)
        return tf.nn.bias_add(tf.matmul(x, kernel), zeros(tf, "bias", [size]))


def cross_entropy(tf: Any, labels: Any, logits: Any) -> Any:
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(each)
