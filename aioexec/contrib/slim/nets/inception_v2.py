"""Inception with batch normalization (Ioffe and Szegedy, 2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec.contrib.framework.arg_scopes import arg_scope
from aioexec.contrib.layers.batch_normalization import batch_norm
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.depthwise import separable_conv2d
from aioexec.contrib.layers.pooling import avg_pool2d, max_pool2d
from aioexec.contrib.layers.reshaping import dropout, softmax
from aioexec.contrib.slim.nets.classifiers import ArgumentScope, EndPoints, for_images_of
from aioexec.contrib.slim.nets.inception_parts import (
    Depth,
    Stage,
    depths,
    grown,
    inception_arguments,
    layer,
    logits_of,
    mixed,
    plain,
    within,
)
from aioexec.graph.node import Tensor
from aioexec.ops.state.initializers import TruncatedNormal
from aioexec.ops.state.variable_scope import variable_scope

_STDDEVS: Final = (0.09, 0.1)
_MIXED: Final[dict[str, tuple[int, ...]]] = {
    "3b": (64, 64, 64, 64, 96, 32),
    "3c": (64, 64, 96, 64, 96, 64),
    "4a": (128, 160, 64, 96),
    "4b": (224, 64, 96, 96, 128, 128),
    "4c": (192, 96, 128, 96, 128, 128),
    "4d": (160, 128, 160, 128, 160, 96),
    "4e": (96, 128, 192, 160, 192, 96),
    "5a": (128, 192, 192, 256),
    "5b": (352, 192, 320, 160, 224, 128),
    "5c": (352, 192, 320, 192, 224, 128),
}
"""Channels of blocks: of one convolution, of two, of three (the last two alike), and after pooling.

Those with four numbers halve rows and columns: they have branches of two convolutions, of three, and of pooling alone.
"""


def _branches(name: str) -> tuple[str, ...]:
    sizes = _MIXED[name]
    if len(sizes) == 4:
        narrow_a, wide_a, narrow_b, wide_b = sizes
        return (
            f"Mixed_{name}",
            f"Conv2d_0a_1x1 {narrow_a} > Conv2d_1a_3x3 {wide_a}/2",
            f"Conv2d_0a_1x1 {narrow_b} > Conv2d_0b_3x3 {wide_b} > Conv2d_1a_3x3 {wide_b}/2",
            "MaxPool_1a_3x3/2",
        )
    one, narrow_a, wide_a, narrow_b, wide_b, pooled = sizes
    pool = "MaxPool_0a_3x3" if name == "5c" else "AvgPool_0a_3x3"
    return (
        f"Mixed_{name}",
        f"Conv2d_0a_1x1 {one}",
        f"Conv2d_0a_1x1 {narrow_a} > Conv2d_0b_3x3 {wide_a}",
        f"Conv2d_0a_1x1 {narrow_b} > Conv2d_0b_3x3 {wide_b} > Conv2d_0c_3x3 {wide_b}",
        f"{pool} > Conv2d_0b_1x1 {pooled}",
    )


def _stages(depth: Depth) -> list[Stage]:
    def first(net: Tensor) -> Tensor:
        convolved: Tensor = separable_conv2d(
            net,
            depth(64),
            [7, 7],
            depth_multiplier=min(depth(64) // 3, 8),
            stride=2,
            weights_initializer=TruncatedNormal(0.0, 1.0),
            scope="Conv2d_1a_7x7",
        )
        return convolved

    return [
        ("Conv2d_1a_7x7", first),
        *plain(["MaxPool_2a_3x3/2"], depth),
        ("Conv2d_2b_1x1", lambda net: layer(net, "Conv2d_2b_1x1 64", depth, 0.1)),
        *plain(["Conv2d_2c_3x3 192", "MaxPool_3a_3x3/2"], depth),
        *(mixed(_branches(name), depth, _STDDEVS) for name in _MIXED),
    ]


def inception_v2_base(
    inputs: Any,
    final_endpoint: str = "Mixed_5c",
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    scope: Any = None,
) -> tuple[Tensor, EndPoints]:
    """Build the network without its classifier, up to an end point.

    Args:
        inputs: [batch, rows, columns, channels].
        min_depth, depth_multiplier: the least channels of a layer, and the factor of all.

    Returns:
        The output of that end point, and the outputs up to it by name.

    Raises:
        GraphValueError: there is no such end point, or the factor is not above 0.
    """
    depth = depths(depth_multiplier, min_depth)
    layers = [conv2d, max_pool2d, avg_pool2d, separable_conv2d]
    with (
        variable_scope(scope, "InceptionV2", [inputs]),
        arg_scope(layers, stride=1, padding="SAME"),
    ):
        return grown(inputs, _stages(depth), final_endpoint)


@for_images_of(224)
def inception_v2(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    prediction_fn: Callable[..., Tensor] = softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV2",
) -> tuple[Tensor, EndPoints]:
    """Build the network with its classifier; the arguments are those of `inception_v2_base` and `inception_v1`.

    Returns:
        The logits, [batch, num_classes] or [batch, rows, columns, num_classes], and the outputs by name.

    Raises:
        GraphValueError: `depth_multiplier` is not above 0.
    """
    with (
        variable_scope(scope, "InceptionV2", [inputs, num_classes], reuse=reuse) as opened,
        arg_scope([batch_norm, dropout], is_training=is_training),
    ):
        net, end_points = inception_v2_base(
            inputs, scope=opened, min_depth=min_depth, depth_multiplier=depth_multiplier
        )
        with variable_scope("Logits"):
            kernel = within(net, [7, 7])
            name = "AvgPool_1a_{}x{}".format(*kernel)
            net = avg_pool2d(net, kernel, padding="VALID", scope=name)
            scopes = ("Dropout_1b", "Conv2d_1c_1x1")
            _, logits = logits_of(net, num_classes, dropout_keep_prob, spatial_squeeze, scopes)
        end_points["Logits"] = logits
        end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
        return logits, end_points


def inception_v2_arg_scope(
    weight_decay: float = 0.00004, batch_norm_var_collection: str = "moving_vars"
) -> ArgumentScope:
    """Return the arguments of layers, for `arg_scope`; see `inception_v1_arg_scope`."""
    return inception_arguments(weight_decay, batch_norm_var_collection)
