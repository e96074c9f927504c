"""Convolutions of `tf.contrib.layers` of each channel by itself; see `convolutions` for the arguments."""

from __future__ import annotations

from typing import Any

from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.applying import (
    Arguments,
    apply_layer,
    finished,
    layer_scope,
    normalized_or_biased,
    parameter,
)
from aioexec.contrib.layers.convolutions import Activation, Normalizer
from aioexec.contrib.layers.formats import (
    IMAGES,
    channel_dimension,
    check_format,
    last_dimension,
    two_element_tuple,
)
from aioexec.contrib.layers.initializers import XAVIER
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import ZEROS
from aioexec.layers.separable import SeparableConv2D
from aioexec.ops.array.arrays import tile
from aioexec.ops.convolution.depthwise import depthwise_conv2d
from aioexec.ops.nn.activations import relu


@add_arg_scope
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
    rate: Any = 1,
    activation_fn: Activation = relu,
    normalizer_fn: Normalizer = None,
    normalizer_params: Any = None,
    weights_initializer: Any = XAVIER,
    pointwise_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """Convolve each channel of images by itself, then mix the channels; without `num_outputs` they are not mixed.

    Variables: `depthwise_weights`, `pointwise_weights` and `biases`.

    Args:
        depth_multiplier: number of outputs of the depthwise convolution for each channel.
        pointwise_initializer: that of `pointwise_weights`, by default `weights_initializer`.
    """
    given = locals()
    layer_format = check_format(data_format, IMAGES)
    if num_outputs is None:
        return _depthwise(given, layer_format)
    return apply_layer(
        SeparableConv2D,
        "SeparableConv2d",
        given,
        filters=num_outputs,
        kernel_size=kernel_size,
        strides=stride,
        padding=padding,
        data_format=layer_format,
        dilation_rate=two_element_tuple(rate),
        depth_multiplier=depth_multiplier,
        depthwise_initializer=weights_initializer,
        pointwise_initializer=pointwise_initializer or weights_initializer,
        depthwise_regularizer=weights_regularizer,
        pointwise_regularizer=weights_regularizer,
    )


def _depthwise(given: Arguments, layer_format: str) -> Tensor:
    """A depthwise convolution alone."""
    with layer_scope(given, "SeparableConv2d") as scope:
        inputs = convert_to_tensor(given["inputs"])
        channels = channel_dimension(inputs.shape, layer_format, min_rank=4)
        multiplier = given["depth_multiplier"]
        weights = parameter(
            "depthwise_weights",
            [*two_element_tuple(given["kernel_size"]), channels, multiplier],
            inputs.dtype.base_dtype,
            given,
            kind="weights",
            initializer=given["weights_initializer"],
            regularizer=given["weights_regularizer"],
        )
        stride = two_element_tuple(given["stride"])
        outputs = depthwise_conv2d(
            inputs,
            weights,
            [1, 1, *stride] if layer_format == "channels_first" else [1, *stride, 1],
            given["padding"],
            rate=two_element_tuple(given["rate"]),
            data_format=given["data_format"],
        )
        outputs = normalized_or_biased(outputs, given, multiplier * channels, given["data_format"])
        return finished(outputs, given, scope.name)


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    activation_fn: Activation = relu,
    normalizer_fn: Normalizer = None,
    normalizer_params: Any = None,
    weights_initializer: Any = XAVIER,
    weights_regularizer: Any = None,
    biases_initializer: Any = ZEROS,
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> Tensor:
    """Convolve all channels of images `[batch, height, width, channels]` by the same kernel, each by itself.

    Variables: `weights` `[height, width, 1, 1]`, `biases`.
    """
    given = locals()
    with layer_scope(given, "ConvInPlane", renames=False) as scope:
        inputs = convert_to_tensor(inputs)
        channels = last_dimension(inputs.shape, min_rank=4)
        weights = parameter(
            "weights",
            [*two_element_tuple(kernel_size), 1, 1],
            inputs.dtype.base_dtype,
            given,
            initializer=weights_initializer,
            regularizer=weights_regularizer,
        )
        each = tile(weights, [1, 1, channels, 1])
        outputs = depthwise_conv2d(inputs, each, [1, *two_element_tuple(stride), 1], padding)
        return finished(normalized_or_biased(outputs, given, channels), given, scope.name)


separable_conv2d = separable_convolution2d
conv2d_in_plane = convolution2d_in_plane
