"""The third Inception network, with factorized convolutions (Szegedy et al., 2015)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec.contrib.framework.arg_scopes import arg_scope
from aioexec.contrib.layers.batch_normalization import batch_norm
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.pooling import avg_pool2d, max_pool2d
from aioexec.contrib.layers.reshaping import dropout, softmax
from aioexec.contrib.slim.nets.classifiers import ArgumentScope, EndPoints, for_images_of
from aioexec.contrib.slim.nets.inception_parts import (
    Depth,
    Stage,
    depths,
    grown,
    inception_arguments,
    logits_of,
    mixed,
    plain,
    within,
)
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import squeeze
from aioexec.ops.state.initializers import TruncatedNormal
from aioexec.ops.state.variable_scope import variable_scope

_STEM: Final = (
    "Conv2d_1a_3x3 32/2",
    "Conv2d_2a_3x3 32",
    "Conv2d_2b_3x3 64 SAME",
    "MaxPool_3a_3x3/2",
    "Conv2d_3b_1x1 80",
    "Conv2d_4a_3x3 192",
    "MaxPool_5a_3x3/2",
)
_LAYERS: Final = [conv2d, max_pool2d, avg_pool2d]
_POOLED: Final = "AvgPool_0a_3x3 > Conv2d_0b_1x1"


def _of_rows_35(name: str, pooled: int, five: str = "Conv2d_0a_1x1 48 > Conv2d_0b_5x5 64") -> tuple[str, ...]:
    """A block for images of 35 rows."""
    return (
        name,
        "Conv2d_0a_1x1 64",
        five,
        "Conv2d_0a_1x1 64 > Conv2d_0b_3x3 96 > Conv2d_0c_3x3 96",
        f"{_POOLED} {pooled}",
    )


def _of_rows_17(name: str, narrow: int) -> tuple[str, ...]:
    """A block for images of 17 rows."""
    return (
        name,
        "Conv2d_0a_1x1 192",
        f"Conv2d_0a_1x1 {narrow} > Conv2d_0b_1x7 {narrow} > Conv2d_0c_7x1 192",
        f"Conv2d_0a_1x1 {narrow} > Conv2d_0b_7x1 {narrow} > Conv2d_0c_1x7 {narrow} > "
        f"Conv2d_0d_7x1 {narrow} > Conv2d_0e_1x7 192",
        f"{_POOLED} 192",
    )


def _of_rows_8(name: str, column: str) -> tuple[str, ...]:
    """A block for images of 8 rows."""
    return (
        name,
        "Conv2d_0a_1x1 320",
        f"Conv2d_0a_1x1 384 > Conv2d_0b_1x3 384 | {column} 384",
        "Conv2d_0a_1x1 448 > Conv2d_0b_3x3 384 > Conv2d_0c_1x3 384 | Conv2d_0d_3x1 384",
        f"{_POOLED} 192",
    )


_MIXED: Final = (
    _of_rows_35("Mixed_5b", 32),
    _of_rows_35("Mixed_5c", 64, "Conv2d_0b_1x1 48 > Conv_1_0c_5x5 64"),
    _of_rows_35("Mixed_5d", 64),
    (
        "Mixed_6a",
        "Conv2d_1a_1x1 384 3x3/2 VALID",
        "Conv2d_0a_1x1 64 > Conv2d_0b_3x3 96 > Conv2d_1a_1x1 96 3x3/2 VALID",
        "MaxPool_1a_3x3/2 VALID",
    ),
    _of_rows_17("Mixed_6b", 128),
    _of_rows_17("Mixed_6c", 160),
    _of_rows_17("Mixed_6d", 160),
    _of_rows_17("Mixed_6e", 192),
    (
        "Mixed_7a",
        "Conv2d_0a_1x1 192 > Conv2d_1a_3x3 320/2 VALID",
        "Conv2d_0a_1x1 192 > Conv2d_0b_1x7 192 > Conv2d_0c_7x1 192 > Conv2d_1a_3x3 192/2 VALID",
        "MaxPool_1a_3x3/2 VALID",
    ),
    _of_rows_8("Mixed_7b", "Conv2d_0b_3x1"),
    _of_rows_8("Mixed_7c", "Conv2d_0c_3x1"),
)
"""Names of blocks and their branches; the irregular scopes are those of TensorFlow's checkpoints."""


def _stages(depth: Depth) -> list[Stage]:
    def padded(stage: Stage) -> Stage:
        name, apply = stage

        def within_scope(net: Tensor) -> Tensor:
            with arg_scope(_LAYERS, stride=1, padding="SAME"):
                return apply(net)

        return name, within_scope

    return [*plain(_STEM, depth), *(padded(mixed(branches, depth)) for branches in _MIXED)]


def inception_v3_base(
    inputs: Any,
    final_endpoint: str = "Mixed_7c",
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    scope: Any = None,
) -> tuple[Tensor, EndPoints]:
    """Build the network without its classifiers, up to an end point; see `inception_v2_base`.

    Raises:
        GraphValueError: there is no such end point, or the factor is not above 0.
    """
    depth = depths(depth_multiplier, min_depth)
    with (
        variable_scope(scope, "InceptionV3", [inputs]),
        arg_scope(_LAYERS, stride=1, padding="VALID"),
    ):
        return grown(inputs, _stages(depth), final_endpoint)


@for_images_of(299)
def inception_v3(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: float = 0.8,
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    prediction_fn: Callable[..., Tensor] = softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV3",
) -> tuple[Tensor, EndPoints]:
    """Build the network with both classifiers; the arguments are those of `inception_v2_base` and `inception_v1`.

    Returns:
        The logits, [batch, num_classes] or [batch, rows, columns, num_classes], and the outputs by name; `AuxLogits`
        are those of the classifier in the middle of the network, for training.

    Raises:
        GraphValueError: `depth_multiplier` is not above 0.
    """
    depth = depths(depth_multiplier, min_depth)
    with (
        variable_scope(scope, "InceptionV3", [inputs, num_classes], reuse=reuse) as opened,
        arg_scope([batch_norm, dropout], is_training=is_training),
    ):
        net, end_points = inception_v3_base(
            inputs, scope=opened, min_depth=min_depth, depth_multiplier=depth_multiplier
        )
        end_points["AuxLogits"] = _middle(end_points["Mixed_6e"], num_classes, depth, spatial_squeeze)
        with variable_scope("Logits"):
            kernel = within(net, [8, 8])
            name = "AvgPool_1a_{}x{}".format(*kernel)
            net = avg_pool2d(net, kernel, padding="VALID", scope=name)
            scopes = ("Dropout_1b", "Conv2d_1c_1x1")
            features, logits = logits_of(net, num_classes, dropout_keep_prob, spatial_squeeze, scopes)
        end_points["PreLogits"] = features
        end_points["Logits"] = logits
        end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
        return logits, end_points


def _middle(net: Tensor, num_classes: int, depth: Depth, is_squeezed: bool) -> Tensor:
    """The logits of the classifier in the middle."""
    with arg_scope(_LAYERS, stride=1, padding="SAME"), variable_scope("AuxLogits"):
        net = avg_pool2d(net, [5, 5], stride=3, padding="VALID", scope="AvgPool_1a_5x5")
        net = conv2d(net, depth(128), [1, 1], scope="Conv2d_1b_1x1")
        kernel = within(net, [5, 5])
        net = conv2d(
            net,
            depth(768),
            kernel,
            weights_initializer=TruncatedNormal(0.0, 0.01),
            padding="VALID",
            scope="Conv2d_2a_{}x{}".format(*kernel),
        )
        net = conv2d(
            net,
            num_classes,
            [1, 1],
            activation_fn=None,
            normalizer_fn=None,
            weights_initializer=TruncatedNormal(0.0, 0.001),
            scope="Conv2d_2b_1x1",
        )
        return squeeze(net, [1, 2], name="SpatialSqueeze") if is_squeezed else net


def inception_v3_arg_scope(
    weight_decay: float = 0.00004,
    batch_norm_var_collection: str = "moving_vars",
    use_fused_batchnorm: bool = True,
) -> ArgumentScope:
    """Return the arguments of layers, for `arg_scope`; see `inception_v1_arg_scope`."""
    return inception_arguments(weight_decay, batch_norm_var_collection, fused=use_fused_batchnorm)
