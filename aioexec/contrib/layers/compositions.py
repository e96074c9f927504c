"""A layer applied several times, and spatial softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.applying import parameter
from aioexec.contrib.layers.formats import IMAGES, channel_dimension, check_format
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.array.arrays import reshape, transpose
from aioexec.ops.array.filling import lin_space
from aioexec.ops.array.joining import concat, meshgrid
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.nn.softmax import softmax
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.state.initializers import Constant, Ones
from aioexec.ops.state.variable_scope import variable_scope


def _layer_name(layer: Any, default: str) -> str:
    """The name of a function, also of one in a `functools.partial`."""
    named = layer if hasattr(layer, "__name__") else getattr(layer, "func", None)
    return str(getattr(named, "__name__", default))


def repeat(inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a layer several times with the same arguments, in the scopes `scope/scope_1`, `scope/scope_2`, …

    `scope` is by default the name of the layer, in a scope `Repeat`.
    """
    return _applied(inputs, layer, [list(args)] * repetitions, "Repeat", "repeat", kwargs)


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Sequence[Any], **kwargs: Any) -> Any:
    """Apply a layer once for each of `stack_args`, an argument or a list of arguments, in scopes as those of `repeat`.

    Raises:
        GraphValueError: `stack_args` is no list or tuple.
    """
    if not isinstance(stack_args, list | tuple):
        raise GraphValueError("stack_args need to be a list or tuple")
    listed = [list(each) if isinstance(each, list | tuple) else [each] for each in stack_args]
    return _applied(inputs, layer, listed, "Stack", "stack", kwargs)


def _applied(
    inputs: Any,
    layer: Any,
    arguments: list[list[Any]],
    default_scope: str,
    unnamed: str,
    kwargs: dict[str, Any],
) -> Any:
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, default_scope, [inputs]):
        outputs = convert_to_tensor(inputs)
        prefix = _layer_name(layer, unnamed) if scope is None else scope
        for number, each in enumerate(arguments, 1):
            outputs = layer(outputs, *each, **kwargs, scope=f"{prefix}_{number}")
        return outputs


@add_arg_scope
def spatial_softmax(
    features: Any,
    temperature: float | None = None,
    name: Any = None,
    variables_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> Tensor:
    """Return for each channel the expected place of its maximum: [batch, 2 * channels], x and y of each in [-1, 1].

    The probabilities of places are the softmax of features / temperature.

    Variables: the scalar `temperature`, which starts at 1 or the given value.

    Raises:
        GraphValueError: the data format is unknown, or the number of channels is.
    """
    is_last = check_format(data_format, IMAGES) == "channels_last"
    with variable_scope(name, "spatial_softmax"):
        channels = channel_dimension(features.shape, "channels_last" if is_last else "channels_first", 4)
        whole = shape(features)
        height, width = (whole[1], whole[2]) if is_last else (whole[2], whole[3])
        with name_scope("spatial_softmax_op", "spatial_softmax_op", [features]):
            grid = meshgrid(lin_space(-1.0, 1.0, num=height), lin_space(-1.0, 1.0, num=width), indexing="ij")
            places = [reshape(axis, [height * width]) for axis in grid]
            given = {
                "variables_collections": variables_collections if trainable else None,
                "trainable": trainable,
            }
            initializer = Ones() if temperature is None else Constant(temperature)
            scaled_by = parameter("temperature", (), dtypes.float32, given, initializer=initializer)
            by_channel = transpose(features, [0, 3, 1, 2]) if is_last else features
            attention = softmax(reshape(by_channel, [-1, height * width]) / scaled_by)
            expected = [reduce_sum(place * attention, [1], keepdims=True) for place in places]
            keypoints = reshape(concat(expected, 1), [-1, channels * 2])
            keypoints.set_shape([None, channels * 2])
            return keypoints
