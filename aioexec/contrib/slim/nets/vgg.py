"""VGG: convolutions of 3 by 3 in five blocks (Simonyan and Zisserman, 2014)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aioexec.contrib.framework.arg_scopes import arg_scope
from aioexec.contrib.layers.compositions import repeat
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.dense import fully_connected
from aioexec.contrib.layers.pooling import max_pool2d
from aioexec.contrib.layers.regularizers import l2_regularizer
from aioexec.contrib.slim.nets.classifiers import (
    LAYERS,
    ArgumentScope,
    EndPoints,
    classified,
    collected,
    convolutional_head,
    for_images_of,
)
from aioexec.graph.node import Tensor
from aioexec.ops.nn.activations import relu
from aioexec.ops.state.initializers import Zeros

_WIDTHS: Final = (64, 128, 256, 512, 512)


def vgg_arg_scope(weight_decay: float = 0.0005) -> ArgumentScope:
    """Return the arguments of layers in VGG, for `arg_scope`.

    Args:
        weight_decay: the factor of the squares of weights in the losses of regularization.
    """
    with (
        arg_scope(
            [conv2d, fully_connected],
            activation_fn=relu,
            weights_regularizer=l2_regularizer(weight_decay),
            biases_initializer=Zeros(),
        ),
        arg_scope([conv2d], padding="SAME") as arguments,
    ):
        return arguments


def _vgg(
    inputs: Any,
    repetitions: Sequence[int],
    num_classes: int,
    is_training: Any,
    dropout_keep_prob: float,
    spatial_squeeze: bool,
    scope: Any,
    default: str,
) -> tuple[Tensor, EndPoints]:
    with collected(scope, default, inputs, LAYERS) as (opened, end_points):
        net = inputs
        for block, (count, width) in enumerate(zip(repetitions, _WIDTHS, strict=True), 1):
            net = repeat(net, count, conv2d, width, [3, 3], scope=f"conv{block}")
            net = max_pool2d(net, [2, 2], scope=f"pool{block}")
        net = convolutional_head(net, num_classes, 7, (4096, 4096), is_training, dropout_keep_prob)
        return classified(net, opened, end_points(), spatial_squeeze)


@for_images_of(224)
def vgg_a(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_a",
) -> tuple[Tensor, EndPoints]:
    """Build VGG with 11 layers; see `vgg_16`."""
    return _vgg(
        inputs,
        (1, 1, 2, 2, 2),
        num_classes,
        is_training,
        dropout_keep_prob,
        spatial_squeeze,
        scope,
        "vgg_a",
    )


@for_images_of(224)
def vgg_16(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_16",
) -> tuple[Tensor, EndPoints]:
    """Build VGG with 16 layers.

    Args:
        inputs: [batch, rows, columns, channels].
        is_training: whether units are dropped.
        spatial_squeeze: remove the dimensions of rows and columns from the logits, which are 1 for images of 224 by 224.

    Returns:
        The logits, [batch, num_classes] or [batch, rows, columns, num_classes], and the outputs of layers by name.
    """
    return _vgg(
        inputs,
        (2, 2, 3, 3, 3),
        num_classes,
        is_training,
        dropout_keep_prob,
        spatial_squeeze,
        scope,
        "vgg_16",
    )


@for_images_of(224)
def vgg_19(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_19",
) -> tuple[Tensor, EndPoints]:
    """Build VGG with 19 layers; see `vgg_16`."""
    return _vgg(
        inputs,
        (2, 2, 4, 4, 4),
        num_classes,
        is_training,
        dropout_keep_prob,
        spatial_squeeze,
        scope,
        "vgg_19",
    )


vgg_d = vgg_16
vgg_e = vgg_19
