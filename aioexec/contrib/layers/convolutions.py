"""Convolutions of `tf.contrib.layers`: a layer of `aioexec.layers`, then normalization or a bias, then an activation.

Arguments that all of these functions have:

- inputs: `[batch, ..., channels]`, or `[batch, channels, ...]` for a data format that begins with NC.
- kernel_size, stride, rate: one integer, or one for each spatial axis; of `stride` and `rate` one is 1.
- padding: SAME or VALID.
- activation_fn: a function of the outputs, or None.
- normalizer_fn: a function of the outputs in place of a bias, with keyword arguments `normalizer_params`.
- weights_initializer, biases_initializer: initializers; without that of biases there are none.
- weights_regularizer, biases_regularizer: functions of a variable, whose results are added to REGULARIZATION_LOSSES.
- reuse: whether the variables in `scope` must exist; True, False, None or AUTO_REUSE.
- variables_collections: collections for all variables, or a dict of them by `weights` and `biases`.
- outputs_collections: a collection for the output, or several.
- trainable: whether the variables are added to TRAINABLE_VARIABLES.
- scope: the variable scope or its name.

Variables: `weights` and `biases`, unless a function says otherwise. GraphValueError if arguments do not fit the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.applying import Arguments, apply_layer
from aioexec.contrib.layers.formats import ALL, IMAGES, VOLUMES, check_format, layer_format
from aioexec.contrib.layers.initializers import XAVIER
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import ZEROS
from aioexec.layers.convolutional import Conv1D, Conv2D, Conv3D
from aioexec.layers.transposed import Conv2DTranspose, Conv3DTranspose
from aioexec.ops.nn.activations import relu

Activation = Callable[[Any], Any] | None
Normalizer = Callable[..., Any] | None

_LAYERS: Final = {1: Conv1D, 2: Conv2D, 3: Conv3D}


def _convolved(given: Arguments, rank: int | None) -> Tensor:
    """Convolve over `rank` spatial axes; None: as many as the inputs have."""
    if given["data_format"] not in ALL:
        raise GraphValueError(f"Invalid data_format: {given['data_format']!r}")
    given["inputs"] = convert_to_tensor(given["inputs"])
    found = given["inputs"].shape.ndims
    if rank is not None and rank + 2 != found:
        raise GraphValueError(f"Convolution expects input with rank {rank + 2}, got {found}")
    if found not in (3, 4, 5):
        raise GraphValueError(f"Convolution not supported for input with rank {found}")
    return apply_layer(
        _LAYERS[found - 2],
        "Conv",
        given,
        data_format=layer_format(given["data_format"]),
        dilation_rate=given["rate"],
        **_options(given),
    )


def _options(given: Arguments) -> Arguments:
    """The arguments of a layer that all convolutions have."""
    return {
        "filters": given["num_outputs"],
        "kernel_size": given["kernel_size"],
        "strides": given["stride"],
        "padding": given["padding"],
        "kernel_initializer": given["weights_initializer"],
        "kernel_regularizer": given["weights_regularizer"],
    }


def _transposed(kind: Any, default_name: str, given: Arguments, formats: tuple[str, str]) -> Tensor:
    data_format = check_format(given["data_format"], formats)
    return apply_layer(kind, default_name, given, data_format=data_format, **_options(given))


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
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
    conv_dims: int | None = None,
) -> Tensor:
    """Convolve over the spatial axes of the inputs, 1 to 3; `conv_dims` is their number if it is to be checked."""
    return _convolved(locals(), conv_dims)


@add_arg_scope
def convolution1d(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
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
    """Convolve inputs `[batch, length, channels]`."""
    return _convolved(locals(), 1)


@add_arg_scope
def convolution2d(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
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
    """Convolve inputs `[batch, height, width, channels]`."""
    return _convolved(locals(), 2)


@add_arg_scope
def convolution3d(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
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
    """Convolve inputs `[batch, depth, height, width, channels]`."""
    return _convolved(locals(), 3)


@add_arg_scope
def convolution2d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NHWC",
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
    """Enlarge inputs `[batch, height, width, channels]` by a transposed convolution."""
    return _transposed(Conv2DTranspose, "Conv2d_transpose", locals(), IMAGES)


@add_arg_scope
def convolution3d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str = "NDHWC",
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
    """Enlarge inputs `[batch, depth, height, width, channels]` by a transposed convolution."""
    return _transposed(Conv3DTranspose, "Conv3d_transpose", locals(), VOLUMES)


conv1d = convolution1d
conv2d = convolution2d
conv3d = convolution3d
conv2d_transpose = convolution2d_transpose
conv3d_transpose = convolution3d_transpose
