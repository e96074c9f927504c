"""What the networks for images share: end points, heads of convolutions, and the image size that a network is made for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from aioexec.contrib.framework.arg_scopes import arg_scope
from aioexec.contrib.layers.collecting import convert_collection_to_dict
from aioexec.contrib.layers.convolutions import conv2d
from aioexec.contrib.layers.dense import fully_connected
from aioexec.contrib.layers.pooling import max_pool2d
from aioexec.contrib.layers.reshaping import dropout
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import squeeze
from aioexec.ops.state.initializers import Constant, TruncatedNormal, Zeros
from aioexec.ops.state.variable_scope import VariableScope, variable_scope

Network = TypeVar("Network", bound=Callable[..., Any])
ArgumentScope = Mapping[str, Mapping[str, Any]]
"""Arguments of functions, for `arg_scope`."""

EndPoints = dict[str, Tensor]
"""Outputs of layers by name."""


def for_images_of(size: int) -> Callable[[Network], Network]:
    """Set the attribute `default_image_size` of a function: the rows and columns that the network was trained with."""

    def decorate(network: Network) -> Network:
        network.default_image_size = size  # type: ignore[attr-defined]
        return network

    return decorate


@contextmanager
def collected(
    scope: Any, default: str, inputs: Any, layers: list[Any], reuse: Any = None
) -> Iterator[tuple[VariableScope, Callable[[], EndPoints]]]:
    """Open the variable scope of a network, in which layers put their outputs into a collection.

    Returns:
        The scope, and a function that returns what is in the collection.
    """
    with variable_scope(scope, default, [inputs], reuse=reuse) as opened:
        collection = f"{opened.original_name_scope}_end_points"
        with arg_scope(layers, outputs_collections=collection):
            yield opened, lambda: dict(convert_collection_to_dict(collection))


def convolutional_head(
    net: Tensor,
    num_classes: int,
    kernel: int,
    widths: tuple[int, int],
    is_training: Any,
    keep_prob: float,
    **options: Any,
) -> Tensor:
    """Apply the layers `fc6`, `fc7` and `fc8` as convolutions, so that they can be moved over larger images.

    Args:
        kernel: rows and columns of the features, of which `fc6` makes one.
        options: of all three convolutions; `fc8` has zeros as its first bias nevertheless.
    """
    with arg_scope([conv2d], **options):
        net = conv2d(net, widths[0], kernel, padding="VALID", scope="fc6")
        net = dropout(net, keep_prob, is_training=is_training, scope="dropout6")
        net = conv2d(net, widths[1], 1, scope="fc7")
        net = dropout(net, keep_prob, is_training=is_training, scope="dropout7")
        logits: Tensor = conv2d(
            net,
            num_classes,
            1,
            activation_fn=None,
            normalizer_fn=None,
            biases_initializer=Zeros(),
            scope="fc8",
        )
        return logits


def classified(
    net: Tensor, scope: VariableScope, end_points: EndPoints, is_squeezed: bool
) -> tuple[Tensor, EndPoints]:
    """The output of `fc8`, without its dimensions of rows and columns if they are to go; it is an end point then."""
    if is_squeezed:
        net = squeeze(net, [1, 2], name="fc8/squeezed")
        end_points[f"{scope.name}/fc8"] = net
    return net, end_points


SMALL_WEIGHTS = {"weights_initializer": TruncatedNormal(0.0, 0.005), "biases_initializer": Constant(0.1)}
"""Initial values of the heads of AlexNet and OverFeat."""

LAYERS = [conv2d, fully_connected, max_pool2d]
"""The layers whose outputs are end points."""
