"""Layers without weights: dropout, flattening, one-hot encoding, biases, softmax, maxout; images as sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.applying import finished, layer_scope, parameter
from aioexec.contrib.layers.collecting import collect_named_outputs
from aioexec.contrib.layers.formats import IMAGES, check_format, last_dimension
from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.layers.arguments import ZEROS
from aioexec.layers.core import Dropout, flatten as flattened
from aioexec.ops.array.arrays import reshape, transpose
from aioexec.ops.array.filling import one_hot
from aioexec.ops.array.gathering import gather_nd
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import not_equal, where
from aioexec.ops.nn.nn_ops import bias_add as nn_bias_add
from aioexec.ops.nn.softmax import softmax as nn_softmax
from aioexec.ops.reduction.reductions import reduce_max
from aioexec.ops.state.variable import Variable
from aioexec.ops.state.variable_scope import variable_scope


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: Any = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: Any = None,
    seed: int | None = None,
) -> Tensor:
    """In training, keep elements with probability `keep_prob`, scaled by its inverse, and set the others to 0.

    Args:
        noise_shape: shape of the random decisions, broadcast to the inputs.
        is_training: a bool or a boolean scalar tensor.

    Raises:
        GraphValueError: the probability is outside of [0, 1].
    """
    given = locals()
    with layer_scope(given, "Dropout") as opened:
        layer = Dropout(1 - keep_prob, noise_shape, seed, opened.name, _scope=opened)
        training = convert_to_tensor(is_training) if isinstance(is_training, Variable) else is_training
        return finished(layer(convert_to_tensor(inputs), training=training), given, opened.name)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> Tensor:
    """Join all axes but the first: [batch, ...] becomes [batch, product of the others].

    Raises:
        GraphValueError: the rank is not known.
    """
    with name_scope(scope, "Flatten", [inputs]) as opened:
        outputs = flattened(convert_to_tensor(inputs))
        return collect_named_outputs(outputs_collections, opened, outputs)  # type: ignore[no-any-return]


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Return labels [batch] as rows [batch, num_classes] with `on_value` in the place of the label."""
    with name_scope(scope, "OneHotEncoding", [labels, num_classes]) as opened:
        labels = convert_to_tensor(labels)
        if labels.dtype.base_dtype == dtypes.int32:
            labels = cast(labels, dtypes.int64, name="ToInt64")
        outputs = one_hot(labels, num_classes, on_value=on_value, off_value=off_value)
        return collect_named_outputs(outputs_collections, opened, outputs)  # type: ignore[no-any-return]


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Callable[[Any], Any] | None = None,
    initializer: Any = ZEROS,
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Tensor:
    """Add the variable `biases`, of the number of channels.

    Raises:
        GraphValueError: the data format is unknown, or NCHW with a rank other than 4; or the number of channels is not known.
    """
    given = locals()
    is_first = check_format(data_format, IMAGES) == "channels_first"
    with layer_scope(given, "BiasAdd", renames=False) as opened:
        inputs = convert_to_tensor(inputs)
        if inputs.shape.ndims is None:
            raise GraphValueError("Dims of shape must be known but is None")
        if is_first and inputs.shape.ndims != 4:
            raise GraphValueError("Data format NCHW only supports 4D Tensor")
        channels = inputs.shape.as_list()[1 if is_first else -1]
        if channels is None:
            raise GraphValueError("`C` dimension must be known but is None")
        dtype = inputs.dtype.base_dtype
        biases = parameter(
            "biases", [channels], dtype, given, initializer=initializer, regularizer=regularizer
        )
        return finished(nn_bias_add(inputs, biases, data_format=data_format), given, opened.name)


@add_arg_scope
def softmax(logits: Any, scope: Any = None) -> Tensor:
    """Return the softmax over the last axis, whose size is known.

    Raises:
        GraphValueError: the rank is less than 2, or the last dimension is not known.
    """
    with variable_scope(scope, "softmax", [logits]):
        count = last_dimension(logits.shape, min_rank=2)
        predictions = reshape(nn_softmax(reshape(logits, [-1, count])), shape(logits))
        predictions.set_shape(logits.shape)
        return predictions


@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: Any = None) -> Tensor:
    """Return the maximum of each group of features; `axis` gets the size `num_units`.

    Raises:
        GraphValueError: the number of features is no multiple of `num_units`.
    """
    with variable_scope(scope, "MaxOut", [inputs]):
        inputs = convert_to_tensor(inputs)
        dims: list[Any] = inputs.shape.as_list()
        features = dims[axis]
        if features % num_units:
            raise GraphValueError(
                f"number of features({features}) is not a multiple of num_units({num_units})"
            )
        dims[axis] = num_units
        whole = shape(inputs)
        target = [whole[place] if size is None else size for place, size in enumerate(dims)]
        return reduce_max(reshape(inputs, [*target, features // num_units]), -1)


@add_arg_scope
def dense_to_sparse(
    tensor: Any, eos_token: int = 0, outputs_collections: Any = None, scope: Any = None
) -> SparseTensor:
    """Return the elements other than `eos_token` as a SparseTensor."""
    with variable_scope(scope, "dense_to_sparse", [tensor]) as opened:
        tensor = convert_to_tensor(tensor)
        indices = where(not_equal(tensor, constant(eos_token, tensor.dtype.base_dtype)))
        outputs = SparseTensor(indices, gather_nd(tensor, indices), shape(tensor, out_type=dtypes.int64))
        return collect_named_outputs(outputs_collections, opened.name, outputs)  # type: ignore[no-any-return]


@add_arg_scope
def images_to_sequence(
    inputs: Any, data_format: str = "NHWC", outputs_collections: Any = None, scope: str | None = None
) -> Tensor:
    """Return images [batch, height, width, channels] as sequences [width, batch * height, channels].

    Raises:
        GraphValueError: the data format is unknown.
    """
    is_first = check_format(data_format, IMAGES) == "channels_first"
    with name_scope(scope, "ImagesToSequence", [inputs]) as opened:
        inputs = convert_to_tensor(inputs)
        if is_first:
            inputs = transpose(inputs, [0, 2, 3, 1])
        _, _, width, channels = inputs.shape.as_list()
        whole = shape(inputs)
        outputs = reshape(transpose(inputs, [2, 0, 1, 3]), [width, whole[0] * whole[1], channels])
        return collect_named_outputs(outputs_collections, opened, outputs)  # type: ignore[no-any-return]


@add_arg_scope
def sequence_to_images(
    inputs: Any,
    height: int,
    output_data_format: str = "channels_last",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Return sequences [width, batch * height, channels] as images [batch, height, width, channels], or channels_first."""
    with name_scope(scope, "SequenceToImages", [inputs]) as opened:
        inputs = convert_to_tensor(inputs)
        width, rows, channels = inputs.shape.as_list()
        images = reshape(inputs, [width, -1 if rows is None else rows // height, height, channels])
        order = [1, 3, 2, 0] if output_data_format == "channels_first" else [1, 2, 0, 3]
        return collect_named_outputs(outputs_collections, opened, transpose(images, order))  # type: ignore[no-any-return]
