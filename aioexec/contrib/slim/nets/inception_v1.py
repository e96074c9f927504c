"""GoogLeNet, the first Inception network (Szegedy et al., 2014)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec.contrib.framework.arg_scopes import arg_scope
from aioexec.contrib.layers.batch_normalization import batch_norm
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.dense import fully_connected
from aioexec.contrib.layers.pooling import avg_pool2d, max_pool2d
from aioexec.contrib.layers.reshaping import dropout, softmax
from aioexec.contrib.slim.nets.classifiers import ArgumentScope, EndPoints, for_images_of
from aioexec.contrib.slim.nets.inception_parts import (
    Stage,
    depths,
    grown,
    inception_arguments,
    logits_of,
    mixed,
    plain,
)
from aioexec.graph.node import Tensor
from aioexec.ops.state.initializers import TruncatedNormal
from aioexec.ops.state.variable_scope import variable_scope

_STEM: Final = (
    "Conv2d_1a_7x7 64/2",
    "MaxPool_2a_3x3/2",
    "Conv2d_2b_1x1 64",
    "Conv2d_2c_3x3 192",
    "MaxPool_3a_3x3/2",
)
_MIXED: Final = {
    "3b": (64, 96, 128, 16, 32, 32),
    "3c": (128, 128, 192, 32, 96, 64),
    "4b": (192, 96, 208, 16, 48, 64),
    "4c": (160, 112, 224, 24, 64, 64),
    "4d": (128, 128, 256, 24, 64, 64),
    "4e": (112, 144, 288, 32, 64, 64),
    "4f": (256, 160, 320, 32, 128, 128),
    "5b": (256, 160, 320, 32, 128, 128),
    "5c": (384, 192, 384, 48, 128, 128),
}
"""Channels of blocks: of the branch of one convolution, of the two of two convolutions, and after pooling."""

_POOLED_BEFORE: Final = {"4b": "MaxPool_4a_3x3/2", "5b": "MaxPool_5a_2x2/2"}


def _stages() -> list[Stage]:
    depth = depths(1.0, 0)
    stages = plain(_STEM, depth)
    for name, (one, narrow_a, wide_a, narrow_b, wide_b, pooled) in _MIXED.items():
        if name in _POOLED_BEFORE:
            stages += plain([_POOLED_BEFORE[name]], depth)
        last = "Conv2d_0a_3x3" if name == "5b" else "Conv2d_0b_3x3"  # so it is in TensorFlow's checkpoints
        branches = (
            f"Mixed_{name}",
            f"Conv2d_0a_1x1 {one}",
            f"Conv2d_0a_1x1 {narrow_a} > Conv2d_0b_3x3 {wide_a}",
            f"Conv2d_0a_1x1 {narrow_b} > {last} {wide_b}",
            f"MaxPool_0a_3x3 > Conv2d_0b_1x1 {pooled}",
        )
        stages.append(mixed(branches, depth))
    return stages


def inception_v1_base(
    inputs: Any, final_endpoint: str = "Mixed_5c", scope: Any = "InceptionV1"
) -> tuple[Tensor, EndPoints]:
    """Build the network without its classifier, up to an end point.

    Args:
        inputs: [batch, rows, columns, channels].

    Returns:
        The output of that end point, and the outputs up to it by name.

    Raises:
        GraphValueError: there is no such end point.
    """
    with (
        variable_scope(scope, "InceptionV1", [inputs]),
        arg_scope([conv2d, fully_connected], weights_initializer=TruncatedNormal(0.0, 0.01)),
        arg_scope([conv2d, max_pool2d], stride=1, padding="SAME"),
    ):
        return grown(inputs, _stages(), final_endpoint)


@for_images_of(224)
def inception_v1(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    prediction_fn: Callable[..., Tensor] = softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV1",
) -> tuple[Tensor, EndPoints]:
    """Build the network with its classifier.

    Args:
        inputs: [batch, rows, columns, channels].
        is_training: whether batch normalization trains and units are dropped.
        prediction_fn: of the logits, for the end point `Predictions`.
        spatial_squeeze: remove the dimensions of rows and columns from the logits, which are 1 for images of 224 by 224.

    Returns:
        The logits, [batch, num_classes] or [batch, rows, columns, num_classes], and the outputs by name.
    """
    with (
        variable_scope(scope, "InceptionV1", [inputs, num_classes], reuse=reuse) as opened,
        arg_scope([batch_norm, dropout], is_training=is_training),
    ):
        net, end_points = inception_v1_base(inputs, scope=opened)
        with variable_scope("Logits"):
            net = avg_pool2d(net, [7, 7], stride=1, scope="MaxPool_0a_7x7")
            scopes = ("Dropout_0b", "Conv2d_0c_1x1")
            _, logits = logits_of(net, num_classes, dropout_keep_prob, spatial_squeeze, scopes)
            end_points["Logits"] = logits
            end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
        return logits, end_points


def inception_v1_arg_scope(
    weight_decay: float = 0.00004, use_batch_norm: bool = True, batch_norm_var_collection: str = "moving_vars"
) -> ArgumentScope:
    """Return the arguments of layers, for `arg_scope`.

    Args:
        weight_decay: the factor of the squares of weights in the losses of regularization.
        batch_norm_var_collection: the collection of moving averages.
    """
    return inception_arguments(weight_decay, batch_norm_var_collection, use_batch_norm)
