"""Batch normalization of `tf.contrib.layers`: by the layer of `aioexec.layers`, or with updates that the layer does not have.

The layer adds the updates of the moving averages to UPDATE_OPS. Updates in other collections, updates in place
(`updates_collections=None`), weights of examples and averages without the bias of their initial value are added here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aioexec import dtypes
from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.applying import Arguments, finished, initial, layer_scope, parameter
from aioexec.contrib.layers.collecting import add_to_variable_collections
from aioexec.contrib.layers.formats import IMAGES, check_format
from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies
from aioexec.layers.arguments import ONES, ZEROS
from aioexec.layers.normalization import BatchNormalization
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.identity import identity
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.smart_cond import smart_cond, smart_constant_value
from aioexec.ops.normalization.functions import batch_normalization, fused_batch_norm, weighted_moments
from aioexec.ops.reduction.statistics import moments
from aioexec.ops.state.variable import Variable
from aioexec.ops.state.variable_scope import get_variable_scope, variable_scope
from aioexec.train.optimizers.moving_averages import assign_moving_average

Pair = tuple[Any, Any]


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Callable[[Any], Any] | None = None,
    param_initializers: Mapping[str, Any] | None = None,
    param_regularizers: Mapping[str, Any] | None = None,
    updates_collections: Any = GraphKeys.UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    renorm: bool = False,
    renorm_clipping: Mapping[str, Any] | None = None,
    renorm_decay: float = 0.99,
    adjustment: Callable[[Any], Any] | None = None,
) -> Tensor:
    """Normalise each channel: by the moments of the batch in training, else by their moving averages.

    Variables, of the number of channels: `beta` if `center`, `gamma` if `scale`, `moving_mean`, `moving_variance`.

    Args:
        inputs: [batch, ..., channels], or [batch, channels, ...] for `NCHW`.
        decay: share of the old value in an update of a moving average.
        param_initializers: initializers by the names of the variables.
        param_regularizers: regularizers of `beta` and `gamma`.
        updates_collections: where the updates are added, which a training step must run; None: the outputs wait for them.
        is_training: a bool or a boolean scalar tensor.
        batch_weights: [batch], the weight of each example in the moments.
        fused: False: without the fused op; otherwise it is used for inputs of rank 2 or 4 where it applies.
        zero_debias_moving_mean: correct the average of the mean for its initial value zero, by the variables
            `moving_mean/biased` and `moving_mean/local_step`.
        renorm, renorm_clipping, renorm_decay, adjustment: see `aioexec.layers.BatchNormalization`.

    Raises:
        GraphValueError: the data format is unknown; the rank or the number of channels is not known; or `renorm` is asked
            for with what the layer does not have.
    """
    given = locals()
    given["inputs"] = inputs = convert_to_tensor(inputs)
    layer_format = check_format(data_format, IMAGES)
    is_plain = updates_collections == GraphKeys.UPDATE_OPS and not zero_debias_moving_mean
    rank = inputs.shape.ndims
    can_fuse = batch_weights is None and not renorm and rank in (2, 4) and adjustment is None
    if fused is not False and can_fuse and (rank == 2 or not is_plain):
        return _normalized(given, _fused)
    if is_plain and batch_weights is None:
        return _by_layer(given, layer_format)
    if renorm:
        raise GraphValueError(
            "renorm is not supported with batch_weights, updates_collections or zero_debias_moving_mean"
        )
    return _normalized(given, _unfused)


def _by_layer(given: Arguments, layer_format: str) -> Tensor:
    """Apply the layer of `aioexec.layers`."""
    with layer_scope(given, "BatchNorm") as scope:
        initializers, regularizers = given["param_initializers"], given["param_regularizers"]
        layer = BatchNormalization(
            axis=1 if layer_format == "channels_first" else -1,
            momentum=given["decay"],
            epsilon=given["epsilon"],
            center=given["center"],
            scale=given["scale"],
            beta_initializer=initial(initializers, "beta", ZEROS),
            gamma_initializer=initial(initializers, "gamma", ONES),
            moving_mean_initializer=initial(initializers, "moving_mean", ZEROS),
            moving_variance_initializer=initial(initializers, "moving_variance", ONES),
            beta_regularizer=initial(regularizers, "beta", None),
            gamma_regularizer=initial(regularizers, "gamma", None),
            trainable=given["trainable"],
            renorm=given["renorm"],
            renorm_clipping=given["renorm_clipping"],
            renorm_momentum=given["renorm_decay"],
            adjustment=given["adjustment"],
            name=scope.name,
            _scope=scope,
            _reuse=given["reuse"],
            fused=given["fused"],
        )
        outputs = layer(given["inputs"], training=given["is_training"])
        for name in ("moving_mean", "moving_variance", "beta", "gamma"):
            if getattr(layer, name) is not None:
                add_to_variable_collections(getattr(layer, name), given["variables_collections"], name)
        return finished(outputs, given, scope.name)


class _Parameters:
    """The variables of a normalization over `channels`: `beta` and `gamma`, None if not asked for, and the averages."""

    def __init__(self, given: Arguments, channels: int, dtype: dtypes.DType) -> None:
        initializers, regularizers = given["param_initializers"], given["param_regularizers"]

        def made(name: str, default: Any, **options: Any) -> Any:
            first = initial(initializers, name, default)
            return parameter(name, [channels], dtype, given, initializer=first, **options)

        self.beta = (
            made("beta", ZEROS, regularizer=initial(regularizers, "beta", None)) if given["center"] else None
        )
        self.gamma = (
            made("gamma", ONES, regularizer=initial(regularizers, "gamma", None)) if given["scale"] else None
        )
        with variable_scope(get_variable_scope()) as scope:  # averages are never partitioned
            scope.set_partitioner(None)
            self.mean = made("moving_mean", ZEROS, trainable=False)
            self.variance = made("moving_variance", ONES, trainable=False)


def _normalized(given: Arguments, compute: Callable[[Arguments, Tensor, _Parameters], Tensor]) -> Tensor:
    """Create the variables, normalise by `compute`, and finish the layer."""
    with layer_scope(given, "BatchNorm", renames=False) as scope:
        inputs = given["inputs"]
        if inputs.shape.ndims is None:
            raise GraphValueError(f"Inputs {inputs.name} has undefined rank")
        channels = inputs.shape.as_list()[1 if given["data_format"] == "NCHW" else -1]
        if channels is None:
            raise GraphValueError(f"Inputs {inputs.name} has undefined `C` dimension {inputs.shape}.")
        dtype = dtypes.float32 if compute is _fused else inputs.dtype.base_dtype
        outputs = compute(given, inputs, _Parameters(given, channels, dtype))
        return finished(outputs, given, scope.name)


def _fused(given: Arguments, inputs: Tensor, parameters: _Parameters) -> Tensor:
    """Normalise by the fused op; a matrix is a batch of images of one place."""
    data_format, original = given["data_format"], inputs
    channels = parameters.mean.shape.as_list()[0]
    if inputs.shape.ndims == 2:
        inputs = reshape(inputs, [-1, channels, 1, 1] if data_format == "NCHW" else [-1, 1, 1, channels])
    gamma = constant(1.0, dtypes.float32, [channels]) if parameters.gamma is None else parameters.gamma
    beta = constant(0.0, dtypes.float32, [channels]) if parameters.beta is None else parameters.beta
    options = {"epsilon": given["epsilon"], "data_format": data_format}
    outputs, mean, variance = smart_cond(
        _predicate(given),
        lambda: fused_batch_norm(inputs, gamma, beta, **options),
        lambda: fused_batch_norm(
            inputs, gamma, beta, parameters.mean, parameters.variance, is_training=False, **options
        ),
    )
    if smart_constant_value(_predicate(given)) is not False:
        (outputs,) = _with_updates(given, parameters, (mean, variance), (outputs,))
    outputs.set_shape(inputs.shape)
    return reshape(outputs, shape(original)) if original.shape.ndims == 2 else outputs


def _unfused(given: Arguments, inputs: Tensor, parameters: _Parameters) -> Tensor:
    """Normalise by the moments, which examples may have weights in."""
    rank = len(inputs.shape.as_list())
    is_first = given["data_format"] == "NCHW"
    mean, variance = parameters.mean, parameters.variance
    if smart_constant_value(_predicate(given)) is not False:
        axes = [0, *range(2, rank)] if is_first else list(range(rank - 1))
        of_batch = _moments(given, inputs, axes)
        updated = _with_updates(given, parameters, of_batch, of_batch)
        mean, variance = smart_cond(_predicate(given), lambda: updated, lambda: _read(parameters))
    beta, gamma = parameters.beta, parameters.gamma
    if is_first:
        broadcast = [1, -1, *(1,) * (rank - 2)]
        mean, variance, beta, gamma = (
            value if value is None else reshape(value, broadcast) for value in (mean, variance, beta, gamma)
        )
    outputs = batch_normalization(inputs, mean, variance, beta, gamma, given["epsilon"])
    outputs.set_shape(inputs.shape)
    return outputs


def _moments(given: Arguments, inputs: Tensor, axes: list[int]) -> Pair:
    weights = given["batch_weights"]
    if weights is None:
        return moments(inputs, axes)
    weights = convert_to_tensor(weights)
    inputs.shape[0:1].assert_is_compatible_with(weights.shape)
    rank = len(inputs.shape.as_list())
    return weighted_moments(inputs, axes, reshape(weights, [-1, *(1,) * (rank - 1)]))


def _with_updates(
    given: Arguments, parameters: _Parameters, of_batch: Pair, values: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Add the updates of the moving averages to their collections; without any, return the values after the updates."""

    def update() -> Pair:
        return (
            assign_moving_average(
                parameters.mean, of_batch[0], given["decay"], zero_debias=given["zero_debias_moving_mean"]
            ),
            assign_moving_average(parameters.variance, of_batch[1], given["decay"], zero_debias=False),
        )

    def update_first() -> tuple[Tensor, ...]:
        with control_dependencies([_node(each) for each in update()]):
            return tuple(identity(value) for value in values)

    if given["updates_collections"] is None:
        after = smart_cond(_predicate(given), update_first, lambda: values)
        return (after,) if isinstance(after, Tensor) else tuple(after)
    graph = get_default_graph()
    for each in smart_cond(_predicate(given), update, lambda: _read(parameters)):
        graph.add_to_collections(given["updates_collections"], each)
    return values


def _predicate(given: Arguments) -> Any:
    """Whether it is training: a bool or a tensor."""
    is_training = given["is_training"]
    return convert_to_tensor(is_training) if isinstance(is_training, Variable) else is_training


def _read(parameters: _Parameters) -> Pair:
    return convert_to_tensor(parameters.mean), convert_to_tensor(parameters.variance)


def _node(updated: Any) -> Any:
    return updated.op if isinstance(updated, Variable) else updated
