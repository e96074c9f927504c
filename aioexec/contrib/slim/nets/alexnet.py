"""AlexNet in its second version, of one column (Krizhevsky, 2014)."""

from __future__ import annotations

from typing import Any

from aioexec.contrib.framework.arg_scopes import arg_scope
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.dense import fully_connected
from aioexec.contrib.layers.pooling import max_pool2d
from aioexec.contrib.layers.regularizers import l2_regularizer
from aioexec.contrib.slim.nets.classifiers import (
    LAYERS,
    SMALL_WEIGHTS,
    ArgumentScope,
    EndPoints,
    classified,
    collected,
    convolutional_head,
    for_images_of,
)
from aioexec.graph.node import Tensor
from aioexec.ops.nn.activations import relu
from aioexec.ops.state.initializers import Constant


def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> ArgumentScope:
    """Return the arguments of layers in AlexNet, for `arg_scope`.

    Args:
        weight_decay: the factor of the squares of weights in the losses of regularization.
    """
    with (
        arg_scope(
            [conv2d, fully_connected],
            activation_fn=relu,
            biases_initializer=Constant(0.1),
            weights_regularizer=l2_regularizer(weight_decay),
        ),
        arg_scope([conv2d], padding="SAME"),
        arg_scope([max_pool2d], padding="VALID") as arguments,
    ):
        return arguments


@for_images_of(224)
def alexnet_v2(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "alexnet_v2",
) -> tuple[Tensor, EndPoints]:
    """Build AlexNet.

    Args:
        inputs: [batch, rows, columns, channels].
        is_training: whether units are dropped.
        spatial_squeeze: remove the dimensions of rows and columns from the logits, which are 1 for images of 224 by 224.

    Returns:
        The logits, [batch, num_classes] or [batch, rows, columns, num_classes], and the outputs of layers by name.
    """
    with collected(scope, "alexnet_v2", inputs, LAYERS) as (opened, end_points):
        net = conv2d(inputs, 64, [11, 11], 4, padding="VALID", scope="conv1")
        net = max_pool2d(net, [3, 3], 2, scope="pool1")
        net = conv2d(net, 192, [5, 5], scope="conv2")
        net = max_pool2d(net, [3, 3], 2, scope="pool2")
        for name, width in (("conv3", 384), ("conv4", 384), ("conv5", 256)):
            net = conv2d(net, width, [3, 3], scope=name)
        net = max_pool2d(net, [3, 3], 2, scope="pool5")
        net = convolutional_head(
            net, num_classes, 5, (4096, 4096), is_training, dropout_keep_prob, **SMALL_WEIGHTS
        )
        return classified(net, opened, end_points(), spatial_squeeze)
