"""Dense layers, dropout and flattening."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import ZEROS, activation_of, data_format_of, initializer_of, to_channels_last
from aioexec.layers.base import Layer, apply_once
from aioexec.layers.input_spec import InputSpec
from aioexec.ops.control_flow.smart_cond import smart_cond
from aioexec.ops.linalg.tensordot import tensordot
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.random import random_ops
from aioexec.shapes import TensorShape


class Dense(Layer):
    """`activation(inputs @ kernel + bias)` over the last axis of inputs [..., channels], of a floating dtype.

    Variables: `kernel` [channels, units], and `bias` [units] if `use_bias`.

    Args:
        activation: a function or the name of one; None for none.
        kernel_initializer, bias_initializer: an initializer or the name of one; None for that of the scope.
        kernel_regularizer, bias_regularizer, kernel_constraint, bias_constraint: functions of the variable.
        activity_regularizer: function of the output.

    Raises:
        GraphValueError: `units` is not positive; at a call: the last dimension is not known, or the rank is less than 2.
        GraphTypeError: at the first call: the dtype is not floating.
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        kernel_regularizer: Callable[[Any], Any] | None = None,
        bias_regularizer: Callable[[Any], Any] | None = None,
        activity_regularizer: Callable[[Any], Any] | None = None,
        kernel_constraint: Callable[[Any], Any] | None = None,
        bias_constraint: Callable[[Any], Any] | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        self.units = int(units)
        if self.units <= 0:
            raise GraphValueError(
                f"Received an invalid value for `units`, expected a positive integer. Received: units={units}"
            )
        self.activation = activation_of(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializer_of(kernel_initializer)
        self.bias_initializer = initializer_of(bias_initializer)
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        dtype = dtypes.as_dtype(self.dtype or dtypes.float32)
        if not (dtype.is_floating or dtype.is_complex):
            raise GraphTypeError(
                f"A Dense layer can only be built with a floating-point dtype. Received: dtype={dtype.name}"
            )
        channels = TensorShape(input_shape).as_list()[-1]
        if channels is None:
            raise GraphValueError(
                "The last dimension of the inputs to a Dense layer should be defined. Found None. "
                f"Full input shape received: {input_shape}"
            )
        self.input_spec = InputSpec(min_ndim=2, axes={-1: channels})
        self.kernel = self.add_weight(
            "kernel",
            [channels, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                [self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )
        super().build(input_shape)

    def call(self, inputs: Any) -> Tensor:
        rank = len(inputs.dims)
        outputs = (
            apply_op("MatMul", inputs, self.kernel)
            if rank == 2
            else tensordot(inputs, self.kernel, [[rank - 1], [0]])
        )
        outputs.set_shape([*inputs.dims[:-1], self.units])
        if self.use_bias:
            outputs = bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        """Return the shape of the inputs with `units` as the last dimension.

        Raises:
            GraphValueError: the last dimension is not known.
        """
        dims = TensorShape(input_shape).as_list()
        if dims[-1] is None:
            raise GraphValueError(
                f"The last dimension of the input shape of a Dense layer should be defined. Received: {input_shape}"
            )
        return TensorShape([*dims[:-1], self.units])


def dense(
    inputs: Any,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = ZEROS,
    kernel_regularizer: Callable[[Any], Any] | None = None,
    bias_regularizer: Callable[[Any], Any] | None = None,
    activity_regularizer: Callable[[Any], Any] | None = None,
    kernel_constraint: Callable[[Any], Any] | None = None,
    bias_constraint: Callable[[Any], Any] | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Apply a new `Dense` layer to inputs [..., channels]; `reuse`: use the variables of an earlier one of that name."""
    return apply_once(Dense, locals())


class Dropout(Layer):
    """In training, set elements to 0 with probability `rate`, and scale the others by 1 / (1 - rate).

    Args:
        noise_shape: shape of the random decisions, broadcast to the inputs; None in it: the dimension of the inputs.

    Raises:
        GraphValueError: `rate` is outside of [0, 1].
    """

    def __init__(
        self,
        rate: Any = 0.5,
        noise_shape: Any = None,
        seed: int | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if isinstance(rate, int | float) and not 0 <= rate <= 1:
            raise GraphValueError(
                f"Invalid value {rate} received for `rate`, expected a value between 0 and 1."
            )
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(self, inputs: Any, training: Any = False) -> Tensor:
        """Return the inputs, with dropout if `training`, a bool or boolean scalar tensor."""
        dropped: Tensor = smart_cond(
            False if training is None else training,
            lambda: random_ops.dropout(
                inputs, noise_shape=self._noise_shape(inputs), seed=self.seed, rate=self.rate
            ),
            lambda: apply_op("Identity", inputs),
        )
        return dropped

    def _noise_shape(self, inputs: Tensor) -> Any:
        if self.noise_shape is None or isinstance(self.noise_shape, Tensor):
            return self.noise_shape
        if None not in self.noise_shape:
            return self.noise_shape
        shape = apply_op("Shape", inputs)
        return convert_to_tensor(
            [shape[axis] if size is None else size for axis, size in enumerate(self.noise_shape)]
        )

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        return TensorShape(input_shape)


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Tensor:
    """Apply a new `Dropout` layer; `training` is a bool or boolean scalar tensor."""
    layer = Dropout(rate, noise_shape, seed, name)
    dropped: Tensor = layer(inputs, training=training)
    return dropped


class Flatten(Layer):
    """Join all axes but the first: [batch, ...] becomes [batch, product of the others].

    Args:
        data_format: channels_last, the default, or channels_first, whose channels are moved to the end first.
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Tensor:
        rank = len(inputs.dims)
        if self.data_format == "channels_first" and rank > 1:
            inputs = to_channels_last(inputs)
        if rank == 1:
            return apply_op("ExpandDims", inputs, -1)
        outputs = apply_op("Reshape", inputs, self._target(inputs))
        outputs.set_shape(self.compute_output_shape(inputs.dims))
        return outputs

    def _target(self, inputs: Tensor) -> Any:
        batch, *others = inputs.dims or ()
        if None not in others:
            return [-1 if batch is None else batch, math.prod(dim or 0 for dim in others)]
        return [apply_op("Shape", inputs)[0] if batch is None else batch, -1]

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        batch, *others = TensorShape(input_shape).as_list()
        return TensorShape([batch, None if None in others else math.prod(dim or 0 for dim in others)])


def flatten(inputs: Any, name: str | None = None, data_format: str | None = "channels_last") -> Tensor:
    """Apply a new `Flatten` layer to inputs [batch, ...]."""
    flat: Tensor = Flatten(data_format, name=name)(inputs)
    return flat
