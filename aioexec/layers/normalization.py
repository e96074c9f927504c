"""Batch normalization, with the fused op where it applies, and batch renormalization."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import ONES, ZEROS, initializer_of
from aioexec.layers.base import Layer, apply_once
from aioexec.layers.input_spec import InputSpec
from aioexec.layers.moving_averages import clipped, composed, update_average, update_average_if
from aioexec.ops.control_flow.smart_cond import smart_cond, smart_constant_value
from aioexec.ops.normalization import functions
from aioexec.ops.normalization.functions import in_dtype
from aioexec.ops.reduction.statistics import moments
from aioexec.ops.state.assignments import assign
from aioexec.ops.state.variable_options import VariableAggregation, VariableSynchronization
from aioexec.ops.state.variable_scope import VariableScope
from aioexec.shapes import TensorShape

Function = Callable[[Any], Any]


class BatchNormalization(Layer):
    """Normalise over all axes but `axis`: by the moments of the batch in training, else by their moving averages.

    Inputs have a floating dtype; 16-bit ones are normalised by float32 variables. Variables, of the size of the axis:
    `gamma` if `scale`, `beta` if `center`, `moving_mean`, `moving_variance`, and `moving_stddev`, `renorm_mean` and
    `renorm_stddev` if `renorm`. The nodes that update the moving averages are in UPDATE_OPS; a training step must run them.

    Args:
        axis: the axis of features, or a list of axes; the variables then have the rank of the inputs.
        momentum: share of the old value in an update of a moving average.
        renorm: batch renormalization: correct the moments of the batch by those of earlier batches.
        renorm_clipping: bounds `rmin`, `rmax` and `dmax` of the corrections; a missing one is none.
        renorm_momentum: momentum of `renorm_mean` and `renorm_stddev`.
        fused: False: never use the fused op; otherwise use it for inputs of rank 4 with one axis, 1 or 3.
        adjustment: function of the shape of the inputs that returns a scale and an offset, applied in training to the
            normalised values before `gamma` and `beta`.

    Raises:
        GraphValueError: `virtual_batch_size` is given, which is not supported; unknown keys of `renorm_clipping`; at the
            first call: an axis is not one of the inputs, or its dimension is not known.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = ZEROS,
        gamma_initializer: Any = ONES,
        moving_mean_initializer: Any = ZEROS,
        moving_variance_initializer: Any = ONES,
        beta_regularizer: Function | None = None,
        gamma_regularizer: Function | None = None,
        beta_constraint: Function | None = None,
        gamma_constraint: Function | None = None,
        renorm: bool = False,
        renorm_clipping: Mapping[str, Any] | None = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Function | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable, name, **kwargs)
        if virtual_batch_size is not None:
            raise GraphValueError(
                f"virtual batches are not supported: virtual_batch_size={virtual_batch_size}"
            )
        unknown = set(renorm_clipping or ()) - {"rmax", "rmin", "dmax"}
        if unknown:
            raise GraphValueError(f"renorm_clipping contains keys not in rmin, rmax, dmax: {sorted(unknown)}")
        self.axis = axis
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = initializer_of(beta_initializer)
        self.gamma_initializer = initializer_of(gamma_initializer)
        self.moving_mean_initializer = initializer_of(moving_mean_initializer)
        self.moving_variance_initializer = initializer_of(moving_variance_initializer)
        self.beta_regularizer = beta_regularizer
        self.gamma_regularizer = gamma_regularizer
        self.beta_constraint = beta_constraint
        self.gamma_constraint = gamma_constraint
        self.renorm = renorm
        self.renorm_clipping = dict(renorm_clipping or {})
        self.renorm_momentum = renorm_momentum
        self.fused = fused
        self.adjustment = adjustment

    # Variables

    def build(self, input_shape: Any) -> None:
        dims = self._check_axes(input_shape)
        can_fuse = len(dims) == 4 and self.axis in ([1], [3]) and not self.renorm and self.adjustment is None
        self.fused = self.fused is not False and can_fuse and self.dtype != "float64"
        self._shape = (
            [dims[self.axis[0]]]
            if len(self.axis) == 1
            else [dim if axis in self.axis else 1 for axis, dim in enumerate(dims)]
        )
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self._weight(
                "gamma",
                self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self._weight(
                "beta",
                self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
            )
        self._build_averages()
        super().build(input_shape)

    def _check_axes(self, input_shape: Any) -> list[int | None]:
        """The dimensions of the inputs; `axis` becomes a list without negative axes, and `input_spec` has their sizes."""
        shape = TensorShape(input_shape)
        if shape.rank is None:
            raise GraphValueError(f"Input has undefined rank. Received: input_shape={input_shape}")
        dims = shape.as_list()
        given = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        self.axis = [axis + len(dims) if axis < 0 else axis for axis in given]
        if any(not 0 <= axis < len(dims) for axis in self.axis):
            raise GraphValueError(
                "Invalid value for `axis` argument. Expected 0 <= axis < inputs.rank "
                f"(with inputs.rank={len(dims)}). Received: axis={given}"
            )
        if len(set(self.axis)) != len(self.axis):
            raise GraphValueError(f"Duplicate axis: {given}")
        if any(dims[axis] is None for axis in self.axis):
            raise GraphValueError(
                f"Input has undefined `axis` dimension. Received input with shape {shape} and axis={given}"
            )
        self.input_spec = InputSpec(ndim=len(dims), axes={axis: dims[axis] for axis in self.axis})
        return dims

    def _weight(self, name: str, initializer: Any, **options: Any) -> Any:
        is_narrow = self.dtype in ("float16", "bfloat16")
        dtype = dtypes.float32 if is_narrow else self.dtype
        return self.add_weight(name, self._shape, dtype, initializer, **options)

    def _build_averages(self) -> None:
        """Create the moving averages, which are never partitioned."""
        with _unpartitioned(self._scope):
            self.moving_mean = self._average("moving_mean", self.moving_mean_initializer)
            self.moving_variance = self._average("moving_variance", self.moving_variance_initializer)
            if self.renorm:
                self.moving_stddev = self._average("moving_stddev", self._initial_stddev)
                self.renorm_mean = self._average("renorm_mean", self.moving_mean_initializer)
                self.renorm_stddev = self._average("renorm_stddev", self._initial_stddev)

    def _average(self, name: str, initializer: Any) -> Any:
        return self._weight(
            name,
            initializer,
            trainable=False,
            synchronization=VariableSynchronization.ON_READ,
            aggregation=VariableAggregation.MEAN,
        )

    def _initial_stddev(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return apply_op("Sqrt", self.moving_variance_initializer(shape, dtype))

    # Calls

    def call(self, inputs: Any, training: Any = False) -> Tensor:
        """Return the normalised inputs; `training` is a bool or boolean scalar tensor."""
        training = False if training is None else training
        outputs = self._fused(inputs, training) if self.fused else self._unfused(inputs, training)
        outputs.set_shape(inputs.dims)
        return outputs

    def _fused(self, inputs: Tensor, training: Any) -> Tensor:
        gamma = constant(1.0, dtypes.float32, self._shape) if self.gamma is None else self.gamma
        beta = constant(0.0, dtypes.float32, self._shape) if self.beta is None else self.beta
        normalize = functools.partial(
            functions.fused_batch_norm,
            inputs,
            gamma,
            beta,
            epsilon=self.epsilon,
            data_format="NCHW" if self.axis == [1] else "NHWC",
            name="FusedBatchNormV3",
        )
        outputs: Tensor
        outputs, mean, variance = smart_cond(
            training,
            lambda: normalize(is_training=True),
            lambda: normalize(mean=self.moving_mean, variance=self.moving_variance, is_training=False),
        )
        known = smart_constant_value(training)
        if known is not False:
            momentum: Any = self.momentum
            if known is None:
                momentum = smart_cond(training, lambda: constant(self.momentum), lambda: constant(1.0))
            self.add_update(update_average(self.moving_mean, mean, momentum))
            self.add_update(update_average(self.moving_variance, variance, momentum))
        return outputs

    def _unfused(self, inputs: Tensor, training: Any) -> Tensor:
        scale, offset = self._broadcast(inputs, self.gamma), self._broadcast(inputs, self.beta)
        if smart_constant_value(training) is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            mean, variance, scale, offset = self._trained(inputs, training, scale, offset)
        dtype = inputs.dtype.base_dtype
        mean, variance, offset, scale = (
            value if value is None else in_dtype(_read(value), dtype)
            for value in (mean, variance, offset, scale)
        )
        return functions.batch_normalization(
            inputs,
            self._broadcast(inputs, mean),
            self._broadcast(inputs, variance),
            offset,
            scale,
            self.epsilon,
        )

    def _trained(self, inputs: Tensor, training: Any, scale: Any, offset: Any) -> tuple[Any, Any, Any, Any]:
        """Mean, variance, scale and offset in training; add the updates of the moving averages."""
        if self.adjustment is not None:
            factor, shift = self.adjustment(apply_op("Shape", inputs))
            adjusted = (
                smart_cond(training, lambda: factor, lambda: apply_op("OnesLike", factor)),
                smart_cond(training, lambda: shift, lambda: apply_op("ZerosLike", shift)),
            )
            scale, offset = composed(adjusted, (scale, offset))
        axes = [axis for axis in range(len(inputs.dims or ())) if axis not in self.axis]
        of_batch = moments(inputs, axes, keepdims=len(self.axis) > 1)
        mean = smart_cond(training, lambda: of_batch[0], lambda: _read(self.moving_mean))
        variance = smart_cond(training, lambda: of_batch[1], lambda: _read(self.moving_variance))
        new_mean, new_variance = mean, variance
        if self.renorm:
            correction, new_mean, new_variance = self._renormed(mean, variance, training)
            correction = tuple(self._broadcast(inputs, each) for each in correction)
            scale, offset = composed(correction, (scale, offset))
        self.add_update(update_average_if(training, self.moving_mean, new_mean, self.momentum))
        self.add_update(self._variance_update(new_variance, training))
        return mean, variance, scale, offset

    def _renormed(self, mean: Tensor, variance: Tensor, training: Any) -> tuple[Any, Tensor, Tensor]:
        """The corrections of batch renormalization, and the moments for the moving averages.

        The corrections use the averages before their update, and the moments wait for the update.
        """
        dtype = self.renorm_mean.dtype.base_dtype
        mean, variance = in_dtype(mean, dtype), in_dtype(variance, dtype)
        graph = get_default_graph()
        stddev = apply_op("Sqrt", apply_op("AddV2", variance, self.epsilon))
        old_stddev = apply_op("Maximum", self.renorm_stddev, math.sqrt(self.epsilon))
        ratio = apply_op("RealDiv", stddev, old_stddev)
        distance = apply_op("RealDiv", apply_op("Sub", mean, self.renorm_mean), old_stddev)
        with graph.control_dependencies([ratio, distance]):
            mean, stddev = apply_op("Identity", mean), apply_op("Identity", stddev)
        ratio, distance = clipped(ratio, distance, self.renorm_clipping)
        ratio = smart_cond(training, lambda: ratio, lambda: apply_op("OnesLike", ratio))
        distance = smart_cond(training, lambda: distance, lambda: apply_op("ZerosLike", distance))
        updates = [
            update_average_if(training, self.renorm_mean, mean, self.renorm_momentum),
            update_average_if(training, self.renorm_stddev, stddev, self.renorm_momentum),
        ]
        with graph.control_dependencies(updates):
            mean, variance = apply_op("Identity", mean), apply_op("Identity", variance)
        correction = (
            apply_op("StopGradient", ratio, name="renorm_r"),
            apply_op("StopGradient", distance, name="renorm_d"),
        )
        return correction, mean, variance

    def _variance_update(self, variance: Tensor, training: Any) -> Any:
        if not self.renorm:
            return update_average_if(training, self.moving_variance, variance, self.momentum)

        def assigned() -> Any:
            """The moving variance is that of the moving standard deviation, which includes epsilon."""
            stddev = apply_op("Sqrt", apply_op("AddV2", variance, self.epsilon))
            moved = _read(update_average(self.moving_stddev, stddev, self.momentum))
            new = apply_op("Relu", apply_op("Sub", apply_op("Mul", moved, moved), self.epsilon))
            return assign(self.moving_variance, new, name="AssignNewValue")

        if smart_constant_value(training):
            return assigned()
        return smart_cond(
            training, lambda: apply_op("Identity", assigned()), lambda: _read(self.moving_variance)
        )

    def _broadcast(self, inputs: Tensor, value: Any) -> Any:
        """A value with the dimensions of the axis, in a shape that broadcasts to the inputs; None as it is."""
        rank = len(inputs.dims or ())
        if value is None or len(value.dims) == rank or self.axis == [rank - 1]:
            return value
        shape = [self._shape[0] if axis in self.axis else 1 for axis in range(rank)]
        return apply_op("Reshape", value, shape)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        return TensorShape(input_shape)


def _read(value: Any) -> Tensor:
    """The content of a variable, or of what an assignment returns, as a tensor."""
    return convert_to_tensor(value)


@contextmanager
def _unpartitioned(scope: VariableScope | None) -> Iterator[None]:
    """Variables of the scope, if there is one, are not partitioned within."""
    if scope is None:
        yield
        return
    partitioner = scope.partitioner
    scope.set_partitioner(None)
    try:
        yield
    finally:
        scope.set_partitioner(partitioner)


def batch_normalization(
    inputs: Any,
    axis: Any = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = ZEROS,
    gamma_initializer: Any = ONES,
    moving_mean_initializer: Any = ZEROS,
    moving_variance_initializer: Any = ONES,
    beta_regularizer: Function | None = None,
    gamma_regularizer: Function | None = None,
    beta_constraint: Function | None = None,
    gamma_constraint: Function | None = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: Mapping[str, Any] | None = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Function | None = None,
) -> Tensor:
    """Apply a new `BatchNormalization` layer; `training` is a bool or boolean scalar tensor.

    `reuse`: use the variables of an earlier layer of that name. The nodes that update the moving averages are in UPDATE_OPS.
    """
    return apply_once(BatchNormalization, locals())
