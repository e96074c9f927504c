"""What `ax.contrib` has against its successors in TensorFlow, which has no `contrib` any more: outputs, gradients and updates.

A program is built by `contrib` here, and by `tf.layers`, `tf.losses` and the like there; variables are matched by their kind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.interop.building import Builder, Built, labels, values, whole
from tests.interop.train.engines import Measured, Outcome, differences, here, with_tensorflow

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

KINDS = {
    "weights": "kernel",
    "biases": "bias",
    "depthwise_weights": "depthwise_kernel",
    "pointwise_weights": "pointwise_kernel",
}
"""The names of variables in `contrib`, and those in `tf.layers`."""

Make = Callable[[Any, Any], Any]
layers = ax.contrib.layers


def by_kind(tf: Any) -> list[Any]:
    """All variables in an order that both have."""

    def kind(variable: Any) -> str:
        last = variable.op.name.rpartition("/")[2]
        return KINDS.get(last, last)

    return sorted(tf.global_variables(), key=kind)


def program(ours: Make, theirs: Make, *dims: int | None, batch: int = 3) -> Builder:
    """The outputs of what both make of images or vectors, their gradients and losses, and the variables after updates."""

    def build(tf: Any) -> Built:
        x = tf.placeholder(tf.float32, [None, *dims])
        outputs = ours(tf, x) if tf is ax else theirs(tf, x)
        variables = by_kind(tf)
        init = tf.group(
            *(
                tf.assign(variable, values(place, *variable.shape.as_list(), low=0.5, high=1.5))
                for place, variable in enumerate(variables)
            )
        )
        trained = [variable for variable in variables if variable in tf.trainable_variables()]
        gradients = tf.gradients(tf.reduce_sum(tf.sin(outputs)), [x, *trained])
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        updates = tf.group(*tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        feeds = [{x: values(seed, batch, *(dim or 7 for dim in dims))} for seed in (1, 2)]
        fetches = [outputs, *(each for each in gradients if each is not None), *losses]
        return Measured(fetches, feeds, init, updates, after=variables)

    return build


async def compared(tf: Any, build: Builder, resource: bool = False) -> list[str]:
    """The differences of values; collections and names differ by design."""
    outcomes: list[Outcome] = [with_tensorflow(tf, build, resource), await here(build, resource)]
    for outcome in outcomes:
        outcome.collections = {}
    return list(differences(outcomes[0], outcomes[1], 20.0))


LINE, IMAGE, VOLUME = (10, 4), (9, 8, 4), (5, 6, 5, 4)


def relu(tf: Any, **options: Any) -> dict[str, Any]:
    return {"activation": tf.nn.relu, "padding": "same", **options}


def normalized(tf: Any, x: Any, axes: list[int], epsilon: float) -> Any:
    """x normalised over axes, times gamma plus beta."""
    channels = x.shape.as_list()[-1]
    beta = tf.get_variable("beta", [channels])
    gamma = tf.get_variable("gamma", [channels])
    mean, variance = tf.nn.moments(x, axes, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)


def grouped(tf: Any, x: Any) -> Any:
    """x normalised over the places and pairs of channels of an example, times gamma plus beta."""
    beta, gamma = tf.get_variable("beta", [4]), tf.get_variable("gamma", [4])
    parts = tf.reshape(x, [-1, 9, 8, 2, 2])
    mean, variance = tf.nn.moments(parts, [1, 2, 4], keepdims=True)
    return tf.reshape((parts - mean) * tf.rsqrt(variance + 1e-6), [-1, 9, 8, 4]) * gamma + beta


PAIRS: dict[str, tuple[Make, Make, tuple[int, ...]]] = {
    "fully_connected": (
        lambda tf, x: layers.fully_connected(x, 3),
        lambda tf, x: tf.layers.dense(x, 3, tf.nn.relu),
        (4,),
    ),
    "fully_connected of higher rank": (
        lambda tf, x: layers.linear(x, 3),
        lambda tf, x: tf.layers.dense(x, 3),
        (5, 4),
    ),
    "fully_connected with a regularizer": (
        lambda tf, x: layers.linear(x, 3, weights_regularizer=layers.l2_regularizer(0.1)),
        lambda tf, x: tf.layers.dense(x, 3, kernel_regularizer=lambda w: 0.1 * tf.nn.l2_loss(w)),
        (4,),
    ),
    "fully_connected with normalization": (
        lambda tf, x: layers.fully_connected(x, 3, normalizer_fn=layers.batch_norm),
        lambda tf, x: tf.nn.relu(
            tf.layers.batch_normalization(
                tf.layers.dense(x, 3, use_bias=False)[:, None, None],
                momentum=0.999,
                scale=False,
                training=True,
            )[:, 0, 0]
        ),
        (4,),
    ),
    "conv1d": (
        lambda tf, x: layers.conv1d(x, 3, 3),
        lambda tf, x: tf.layers.conv1d(x, 3, 3, **relu(tf)),
        LINE,
    ),
    "conv2d": (
        lambda tf, x: layers.conv2d(x, 3, [3, 2], stride=2),
        lambda tf, x: tf.layers.conv2d(x, 3, [3, 2], strides=2, **relu(tf)),
        IMAGE,
    ),
    "conv2d valid": (
        lambda tf, x: layers.conv2d(x, 3, 3, padding="VALID", activation_fn=None),
        lambda tf, x: tf.layers.conv2d(x, 3, 3),
        IMAGE,
    ),
    "conv2d dilated": (
        lambda tf, x: layers.conv2d(x, 3, 3, rate=2),
        lambda tf, x: tf.layers.conv2d(x, 3, 3, dilation_rate=2, **relu(tf)),
        IMAGE,
    ),
    "conv3d": (
        lambda tf, x: layers.conv3d(x, 2, 3),
        lambda tf, x: tf.layers.conv3d(x, 2, 3, **relu(tf)),
        VOLUME,
    ),
    "conv2d_transpose": (
        lambda tf, x: layers.conv2d_transpose(x, 3, 3, stride=2),
        lambda tf, x: tf.layers.conv2d_transpose(x, 3, 3, strides=2, **relu(tf)),
        IMAGE,
    ),
    "conv3d_transpose": (
        lambda tf, x: layers.conv3d_transpose(x, 2, 3, stride=2),
        lambda tf, x: tf.layers.conv3d_transpose(x, 2, 3, strides=2, **relu(tf)),
        VOLUME,
    ),
    "separable_conv2d": (
        lambda tf, x: layers.separable_conv2d(x, 3, 3, 2),
        lambda tf, x: tf.layers.separable_conv2d(x, 3, 3, depth_multiplier=2, **relu(tf)),
        IMAGE,
    ),
    "max_pool2d": (
        lambda tf, x: layers.max_pool2d(x, 2),
        lambda tf, x: tf.layers.max_pooling2d(x, 2, 2),
        IMAGE,
    ),
    "avg_pool2d": (
        lambda tf, x: layers.avg_pool2d(x, 3, stride=1, padding="SAME"),
        lambda tf, x: tf.layers.average_pooling2d(x, 3, 1, "same"),
        IMAGE,
    ),
    "max_pool3d": (
        lambda tf, x: layers.max_pool3d(x, 2),
        lambda tf, x: tf.layers.max_pooling3d(x, 2, 2),
        VOLUME,
    ),
    "avg_pool3d": (
        lambda tf, x: layers.avg_pool3d(x, 2),
        lambda tf, x: tf.layers.average_pooling3d(x, 2, 2),
        VOLUME,
    ),
    "batch_norm": (
        lambda tf, x: layers.batch_norm(x, decay=0.9, scale=True),
        lambda tf, x: tf.layers.batch_normalization(x, momentum=0.9, training=True),
        IMAGE,
    ),
    "batch_norm of sequences": (
        lambda tf, x: layers.batch_norm(x, decay=0.9, scale=True),
        lambda tf, x: tf.layers.batch_normalization(x, momentum=0.9, training=True),
        LINE,
    ),
    "batch_norm outside of training": (
        lambda tf, x: layers.batch_norm(x, is_training=False),
        lambda tf, x: tf.layers.batch_normalization(x, scale=False),
        IMAGE,
    ),
    "layer_norm": (
        lambda tf, x: layers.layer_norm(x),
        lambda tf, x: normalized(tf, x, [1, 2, 3], 1e-12),
        IMAGE,
    ),
    "instance_norm": (
        lambda tf, x: layers.instance_norm(x),
        lambda tf, x: normalized(tf, x, [1, 2], 1e-6),
        IMAGE,
    ),
    "group_norm": (lambda tf, x: layers.group_norm(x, 2), grouped, IMAGE),
    "flatten": (lambda tf, x: layers.flatten(x), lambda tf, x: tf.layers.flatten(x), IMAGE),
    "softmax": (lambda tf, x: layers.softmax(x), lambda tf, x: tf.nn.softmax(x), LINE),
    "unit_norm": (
        lambda tf, x: layers.unit_norm(x, 2),
        lambda tf, x: x / tf.sqrt(1e-7 + tf.reduce_sum(tf.square(x), 2, keepdims=True)),
        LINE,
    ),
    "maxout": (
        lambda tf, x: layers.maxout(x, 2),
        lambda tf, x: tf.reduce_max(tf.reshape(x, [-1, 10, 2, 2]), -1),
        LINE,
    ),
}


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("name", PAIRS)
async def test_a_layer_computes_what_its_successor_does(tf: Any, name: str, resource: bool):
    ours, theirs, dims = PAIRS[name]

    assert await compared(tf, program(ours, theirs, *dims), resource) == []


LOSSES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "mean_squared_error": (
        lambda p, q, w: ax.contrib.losses.mean_squared_error(p, q, w),
        lambda tf, p, q, w: tf.losses.mean_squared_error(q, p, w),
    ),
    "absolute_difference": (
        lambda p, q, w: ax.contrib.losses.absolute_difference(p, q, w),
        lambda tf, p, q, w: tf.losses.absolute_difference(q, p, w),
    ),
    "softmax_cross_entropy": (
        lambda p, q, w: ax.contrib.losses.softmax_cross_entropy(p, q, w[:, 0], label_smoothing=0.1),
        lambda tf, p, q, w: tf.losses.softmax_cross_entropy(q, p, w[:, 0], label_smoothing=0.1),
    ),
    "sigmoid_cross_entropy": (
        lambda p, q, w: ax.contrib.losses.sigmoid_cross_entropy(p, q, w),
        lambda tf, p, q, w: tf.losses.sigmoid_cross_entropy(q, p, w),
    ),
    "hinge_loss": (
        lambda p, q, w: ax.contrib.losses.hinge_loss(p, q),
        lambda tf, p, q, w: tf.losses.hinge_loss(q, p, reduction="none"),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
async def test_a_loss_computes_what_its_successor_does(tf: Any, name: str):
    ours, theirs = LOSSES[name]

    def build(tf: Any) -> Built:
        p, q = tf.constant(values(1, 5, 3)), tf.constant(labels(2, 5, 3))
        weights = tf.constant(whole(3, 5, 1, low=0, high=3, dtype="float32"))
        loss = ours(p, q, weights) if tf is ax else theirs(tf, p, q, weights)
        return Built([loss, *tf.gradients(loss, [p])])

    assert await compared(tf, build) == []


async def test_steps_of_optimize_loss_are_those_of_the_optimizer(tf: Any):
    def build(tf: Any) -> Built:
        w = tf.get_variable("w", initializer=values(1, 3))
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(tf.square(w - 1.0))
        if tf is ax:
            train = layers.optimize_loss(loss, step, 0.1, "Adam", clip_gradients=1.0)
        else:
            optimizer = tf.train.AdamOptimizer(0.1)
            gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
            clipped, _ = tf.clip_by_global_norm(gradients, 1.0)
            train = optimizer.apply_gradients(zip(clipped, variables, strict=True), global_step=step)
        return Measured([loss], [{}] * 3, tf.global_variables_initializer(), train, after=[w, step])

    assert await compared(tf, build) == []


async def test_sequences_are_embedded_as_by_a_lookup(tf: Any):
    def build(tf: Any) -> Built:
        ids = tf.constant(whole(1, 4, 3, low=0, high=7))
        table = values(2, 7, 5)
        if tf is ax:
            initializer = ax.constant_initializer(table)
            rows = layers.embed_sequence(ids, 7, 5, unique=True, initializer=initializer)
        else:
            rows = tf.nn.embedding_lookup(tf.get_variable("table", initializer=table), ids)
        return Built([rows], init=tf.global_variables_initializer())

    assert await compared(tf, build) == []


def test_tensorboard_reads_the_configuration_of_the_projector(tmp_path: Path):
    config_pb2 = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    text_format = pytest.importorskip("google.protobuf.text_format")
    projector = ax.contrib.tensorboard.plugins.projector
    ours = projector.ProjectorConfig(model_checkpoint_path="model", model_checkpoint_dir="folder")
    ours.embeddings.add(
        tensor_name="a",
        metadata_path="b",
        bookmarks_path="c",
        tensor_shape=[2, 3],
        tensor_path="d",
        sprite=projector.SpriteMetadata(image_path="e", single_image_dim=[4, 5]),
    )
    projector.visualize_embeddings(SimpleNamespace(get_logdir=lambda: tmp_path), ours)
    text = (tmp_path / projector.PROJECTOR_FILENAME).read_text("utf-8")

    theirs = text_format.Parse(text, config_pb2.ProjectorConfig())
    assert theirs.SerializeToString() == ours.SerializeToString()
    assert np.prod(theirs.embeddings[0].tensor_shape) == 6
