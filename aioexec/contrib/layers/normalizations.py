"""Normalization of each example by itself: over its axes, groups of its channels, or its places; and unit vectors.

Arguments that layers share are explained in `convolutions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.applying import Arguments, finished, initial, layer_scope, parameter
from aioexec.contrib.layers.formats import IMAGES, check_format
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.layers.arguments import ONES, ZEROS
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.math.arithmetic import divide, multiply
from aioexec.ops.math.extremes import minimum
from aioexec.ops.math.math_functions import rsqrt, sqrt, square
from aioexec.ops.normalization.functions import (
    batch_normalization,
    normalize_moments,
    sufficient_statistics,
)
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.reduction.statistics import moments
from aioexec.ops.state.variable_scope import variable_scope

Activation = Callable[[Any], Any] | None


def _parameters(given: Arguments, dims: list[int], dtype: dtypes.DType) -> tuple[Any, Any]:
    """`beta` and `gamma`; None for what is not asked for."""
    initializers = given.get("param_initializers")

    def made(name: str, default: Any) -> Any:
        return parameter(name, dims, dtype, given, initializer=initial(initializers, name, default))

    return made("beta", ZEROS) if given["center"] else None, made("gamma", ONES) if given["scale"] else None


def _known_rank(inputs: Tensor) -> list[int | None]:
    if inputs.shape.ndims is None:
        raise GraphValueError(f"Inputs {inputs.name} has undefined rank.")
    return inputs.shape.as_list()


@add_arg_scope
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Activation = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> Tensor:
    """Normalise over the axes from `begin_norm_axis` to the last one.

    Variables, of the dimensions from `begin_params_axis` on: `beta` if `center`, `gamma` if `scale`.

    Raises:
        GraphValueError: the rank, or a dimension of the variables, is not known; or an axis is beyond the last.
    """
    given = locals()
    with layer_scope(given, "LayerNorm", renames=False) as opened:
        inputs = convert_to_tensor(inputs)
        dims = _known_rank(inputs)
        rank, dtype = len(dims), inputs.dtype.base_dtype
        first = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or first >= rank:
            raise GraphValueError(
                f"begin_params_axis ({begin_params_axis}) and begin_norm_axis ({first}) must be < rank(inputs) ({rank})"
            )
        sizes = dims[begin_params_axis:]
        if None in sizes:
            raise GraphValueError(
                f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not fully defined: {inputs.shape}"
            )
        beta, gamma = _parameters(given, [size or 0 for size in sizes], dtype)
        mean, variance = moments(inputs, list(range(first, rank)), keepdims=True)
        epsilon = 1e-3 if dtype is dtypes.float16 else 1e-12
        outputs = batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        return finished(outputs, given, opened.name)


@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Activation = None,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> Tensor:
    """Normalise each channel of each example over its places; variables as those of `layer_norm`, one for a channel.

    Args:
        param_initializers: initializers by the names of the variables.

    Raises:
        GraphValueError: the data format is unknown, or the rank or number of channels.
    """
    given = locals()
    is_first = check_format(data_format, IMAGES) == "channels_first"
    with layer_scope(given, "InstanceNorm", renames=False) as opened:
        inputs = convert_to_tensor(inputs)
        dims = _known_rank(inputs)
        channels = dims[1 if is_first else -1]
        if channels is None:
            raise GraphValueError(f"Inputs {inputs.name} has undefined channels dimension {inputs.shape}.")
        beta, gamma = _parameters(given, [channels], inputs.dtype.base_dtype)
        if is_first:
            broadcast = [1, channels, *(1,) * (len(dims) - 2)]
            beta, gamma = (each if each is None else reshape(each, broadcast) for each in (beta, gamma))
        axes = list(range(2, len(dims))) if is_first else list(range(1, len(dims) - 1))
        mean, variance = moments(inputs, axes, keepdims=True)
        outputs = batch_normalization(inputs, mean, variance, beta, gamma, epsilon, name="instancenorm")
        outputs.set_shape(inputs.shape)
        return finished(outputs, given, opened.name)


@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Sequence[int] = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Activation = None,
    param_initializers: Mapping[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    mean_close_to_zero: bool = False,
) -> Tensor:
    """Normalise groups of channels over `reduction_axes` and the channels of the group; variables as `instance_norm`.

    Args:
        groups: the number of groups, a divisor of the number of channels.
        mean_close_to_zero: take the variance from sums of squares.

    Raises:
        GraphValueError: an axis or the number of groups does not fit, or the rank or number of channels is not known.
    """
    given = locals()
    inputs = convert_to_tensor(inputs)
    dims = _known_rank(inputs)
    axis, reduced = _group_axes(dims, channels_axis, reduction_axes)
    channels = dims[axis]
    if channels is None:
        raise GraphValueError(f"Inputs {inputs.name} has undefined channel dimension: {channels_axis}.")
    if groups > channels:
        raise GraphValueError(f"Invalid groups {groups} for {channels} channels.")
    if channels % groups:
        raise GraphValueError(f"{channels} channels is not commensurate with {groups} groups.")
    whole = shape(inputs)
    sizes: list[Any] = [whole[place] if size is None else size for place, size in enumerate(dims)]
    parted = [groups, channels // groups]
    grouped = reshape(inputs, [*sizes[:axis], *parted, *sizes[axis + 1 :]])
    axes = [axis + 1, *(each + 1 if each > axis else each for each in reduced)]
    with layer_scope(given, "GroupNorm", renames=False) as opened:
        broadcast = [*(1,) * axis, *parted, *(1,) * (len(dims) - axis - 1)]
        beta, gamma = (
            each if each is None else reshape(each, broadcast)
            for each in _parameters(given, [channels], inputs.dtype.base_dtype)
        )
        mean, variance = _group_moments(grouped, axes, mean_close_to_zero)
        gain = rsqrt(variance + epsilon)
        offset = -mean * gain
        if gamma is not None:
            gain, offset = gain * gamma, offset * gamma
        if beta is not None:
            offset = offset + beta
        outputs = reshape(grouped * gain + offset, sizes)
        outputs.set_shape(inputs.shape)
        return finished(outputs, given, opened.name)


def _group_axes(
    dims: Sequence[int | None], channels_axis: int, reduction_axes: Sequence[int]
) -> tuple[int, list[int]]:
    """The axes without negative ones."""
    rank = len(dims)
    if channels_axis > rank - 1:
        raise GraphValueError("Axis is out of bounds.")
    axis = channels_axis + rank if channels_axis < 0 else channels_axis
    reduced = [each + rank if each < 0 else each for each in reduction_axes]
    if any(not 0 <= each < rank for each in reduced):
        raise GraphValueError("Axis is out of bounds.")
    if axis in reduced:
        raise GraphValueError("reduction_axes must be mutually exclusive with channels_axis")
    return axis, reduced


def _group_moments(grouped: Tensor, axes: list[int], mean_close_to_zero: bool) -> tuple[Any, Any]:
    if not mean_close_to_zero:
        return moments(grouped, axes, keepdims=True)
    counts, total, squares, _ = sufficient_statistics(grouped, axes, keepdims=True)
    return normalize_moments(counts, total, squares, shift=None)


@add_arg_scope
def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> Tensor:
    """Divide by the length along an axis: sqrt(epsilon + the sum of squares).

    Raises:
        GraphValueError: the rank is not known, or the axis is none of the inputs.
    """
    with variable_scope(scope, "UnitNorm", [inputs]):
        inputs = convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None:
            raise GraphValueError("The input rank must be known.")
        if not 0 <= dim < rank:
            raise GraphValueError("dim must be positive but smaller than the input rank.")
        lengths = sqrt(epsilon + reduce_sum(square(inputs), dim, keepdims=True))
        return divide(inputs, lengths)


def poincare_normalize(x: Any, axis: Any = 1, epsilon: float = 1e-5, name: str | None = None) -> Tensor:
    """Scale vectors along `axis` down to the length 1 - epsilon, if they are longer."""
    with name_scope(name, "poincare_normalize", [x]) as scope:
        x = convert_to_tensor(x, name="x")
        inverse = rsqrt(reduce_sum(square(x), axis, keepdims=True))
        return multiply(x, minimum((1.0 - epsilon) * inverse, 1.0), name=scope)
