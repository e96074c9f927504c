"""Inception networks as text: a layer is its scope, the channels of a convolution, and what differs from the usual.

Conv2d_0a_1x1 64                      a convolution of 1 by 1 with 64 channels
Conv2d_1a_1x1 384 3x3/2 VALID         with another kernel than its name says, a stride and a padding
MaxPool_1a_3x3/2                      pooling, AvgPool the same
MaxPool_0a_3x3 > Conv2d_0b_1x1 32     one after the other: a branch
… > Conv2d_0b_1x3 384 | Conv2d_0c_3x1 384     beside each other: their outputs are joined
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from aioexec.contrib.framework.arg_scopes import arg_scope
from aioexec.contrib.layers.batch_normalization import batch_norm
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.dense import fully_connected
from aioexec.contrib.layers.initializers import variance_scaling_initializer
from aioexec.contrib.layers.pooling import avg_pool2d, max_pool2d
from aioexec.contrib.layers.regularizers import l2_regularizer
from aioexec.contrib.layers.reshaping import dropout
from aioexec.contrib.slim.nets.classifiers import ArgumentScope, EndPoints
from aioexec.errors import GraphValueError
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import squeeze
from aioexec.ops.array.joining import concat
from aioexec.ops.nn.activations import relu
from aioexec.ops.state.initializers import TruncatedNormal
from aioexec.ops.state.variable_scope import variable_scope

_LAYER: Final = re.compile(
    r"(?P<scope>(?P<kind>Conv|MaxPool|AvgPool)\w*_(?P<size>\d+x\d+))(?: (?P<depth>\d+))?"
    r"(?: (?P<kernel>\d+x\d+))?(?:/(?P<stride>\d))?(?: (?P<padding>VALID|SAME))?"
)
_POOLS: Final = {"MaxPool": max_pool2d, "AvgPool": avg_pool2d}

Depth = Callable[[int], int]
"""Channels of a layer by those of the full network."""

Stage = tuple[str, Callable[[Tensor], Tensor]]
"""A part of a network: the name of its end point, and the function that applies it."""


def depths(depth_multiplier: float, min_depth: int) -> Depth:
    """The channels of a network that is thinner or wider by a factor, at least `min_depth`.

    Raises:
        GraphValueError: the factor is not above 0.
    """
    if depth_multiplier <= 0:
        raise GraphValueError("depth_multiplier is not greater than zero.")
    return lambda depth: max(int(depth * depth_multiplier), min_depth)


def layer(net: Tensor, text: str, depth: Depth, stddev: float | None = None) -> Tensor:
    """Apply one layer; `stddev` is the deviation of a convolution's first weights, if not that of the scope."""
    found = _LAYER.fullmatch(text)
    assert found is not None, text
    kernel = [int(size) for size in (found["kernel"] or found["size"]).split("x")]
    options: dict[str, Any] = {"scope": found["scope"]}
    if found["stride"]:
        options["stride"] = int(found["stride"])
    if found["padding"]:
        options["padding"] = found["padding"]
    if found["kind"] != "Conv":
        pooled: Tensor = _POOLS[found["kind"]](net, kernel, **options)
        return pooled
    if stddev is not None:
        options["weights_initializer"] = TruncatedNormal(0.0, stddev)
    convolved: Tensor = conv2d(net, depth(int(found["depth"])), kernel, **options)
    return convolved


def mixed(branches: Sequence[str], depth: Depth, stddevs: tuple[float, float] | None = None) -> Stage:
    """A block of branches, the first text being the name: their outputs are joined along the channels.

    Args:
        stddevs: of the first weights of convolutions that others follow, and of those after pooling.
    """
    name, *texts = branches

    def apply(net: Tensor) -> Tensor:
        outputs = []
        with variable_scope(name):
            for number, text in enumerate(texts):
                with variable_scope(f"Branch_{number}"):
                    outputs.append(_branch(net, text.split(" > "), depth, stddevs))
            return concat(outputs, 3)

    return name, apply


def _branch(net: Tensor, steps: Sequence[str], depth: Depth, stddevs: tuple[float, float] | None) -> Tensor:
    for position, step in enumerate(steps):
        stddev = None
        if stddevs is not None and len(steps) > 1:
            stddev = stddevs[0] if position == 0 else stddevs[1] if "Pool" in steps[0] else None
        parts = [layer(net, text, depth, stddev) for text in step.split(" | ")]
        net = parts[0] if len(parts) == 1 else concat(parts, 3)
    return net


def plain(texts: Sequence[str], depth: Depth) -> list[Stage]:
    """Layers one after the other, each an end point."""

    def stage(text: str) -> Stage:
        return re.split("[ /]", text)[0], lambda net: layer(net, text, depth)

    return [stage(text) for text in texts]


def grown(net: Tensor, stages: Iterable[Stage], final_endpoint: str) -> tuple[Tensor, EndPoints]:
    """Apply stages up to one of them.

    Raises:
        GraphValueError: there is no stage of that name.
    """
    end_points: EndPoints = {}
    for name, apply in stages:
        end_points[name] = net = apply(net)
        if name == final_endpoint:
            return net, end_points
    raise GraphValueError(f"Unknown final endpoint {final_endpoint}")


def within(net: Tensor, kernel: Sequence[int]) -> list[int]:
    """A kernel no larger than the image, if its size is known."""
    rows, columns = net.shape.as_list()[1:3]
    if rows is None or columns is None:
        return list(kernel)
    return [min(rows, kernel[0]), min(columns, kernel[1])]


def logits_of(
    net: Tensor, num_classes: int, keep_prob: float, is_squeezed: bool, scopes: tuple[str, str]
) -> tuple[Tensor, Tensor]:
    """Drop units of pooled features, and apply the last convolution, in the scopes given.

    Returns:
        The features, and the logits, [batch, num_classes] or [batch, 1, 1, num_classes].
    """
    features = dropout(net, keep_prob=keep_prob, scope=scopes[0])
    logits = conv2d(features, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope=scopes[1])
    return features, squeeze(logits, [1, 2], name="SpatialSqueeze") if is_squeezed else logits


def inception_arguments(
    weight_decay: float, collection: str, is_normalized: bool = True, **normalization: Any
) -> ArgumentScope:
    """The arguments of layers in Inception networks, for `arg_scope`; moving averages are put into a collection."""
    parameters = {
        "decay": 0.9997,
        "epsilon": 0.001,
        "updates_collections": GraphKeys.UPDATE_OPS,
        "variables_collections": {
            "beta": None,
            "gamma": None,
            "moving_mean": [collection],
            "moving_variance": [collection],
        },
        **normalization,
    }
    with (
        arg_scope([conv2d, fully_connected], weights_regularizer=l2_regularizer(weight_decay)),
        arg_scope(
            [conv2d],
            weights_initializer=variance_scaling_initializer(),
            activation_fn=relu,
            normalizer_fn=batch_norm if is_normalized else None,
            normalizer_params=parameters if is_normalized else {},
        ) as arguments,
    ):
        return arguments
