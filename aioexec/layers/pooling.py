"""Pooling over 1, 2 or 3 spatial axes: the maximum or the mean of each window."""

from __future__ import annotations

from typing import Any

from aioexec.graph.apply import apply_op
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import (
    by_axis,
    data_format_of,
    layout,
    padding_of,
    sizes,
    to_channels_first,
    to_channels_last,
)
from aioexec.layers.base import Layer
from aioexec.layers.input_spec import InputSpec
from aioexec.shapes import TensorShape


class Pooling(Layer):
    """The base of pooling; inputs [batch, ..., channels], or [batch, channels, ...] for channels_first.

    Args:
        pool_size, strides: one integer, or one for each spatial axis.
        padding: valid or same; padding does not count in a mean.

    Raises:
        GraphValueError: an argument does not fit; at a call: the rank of the inputs is wrong.
    """

    op_type: str
    rank: int
    """Number of spatial axes."""

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str | None = "channels_last",
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.pool_size = sizes(pool_size, self.rank, "pool_size")
        self.strides = sizes(strides, self.rank, "strides")
        self.padding = padding_of(padding)
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Tensor:
        if self.rank == 3 and self.data_format == "channels_first":
            return to_channels_first(self._pooled(to_channels_last(inputs), self.pool_size, self.strides))
        if self.rank > 1:
            return self._pooled(inputs, self.pool_size, self.strides)
        axis = 2 if self.data_format == "channels_last" else 3
        image = apply_op("ExpandDims", inputs, axis)
        pooled = self._pooled(image, (*self.pool_size, 1), (*self.strides, 1))
        return apply_op("Squeeze", pooled, squeeze_dims=[axis])

    def _pooled(self, inputs: Tensor, windows: tuple[int, ...], strides: tuple[int, ...]) -> Tensor:
        """The pooled inputs; volumes have their channels last."""
        data_format = "channels_last" if len(windows) == 3 else self.data_format
        return apply_op(
            self.op_type,
            inputs,
            ksize=by_axis(windows, data_format),
            strides=by_axis(strides, data_format),
            padding=self.padding.upper(),
            data_format=layout(data_format, len(windows)),
        )

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        dims = TensorShape(input_shape).as_list()
        first = 1 if self.data_format == "channels_last" else 2
        for axis, (window, stride) in enumerate(zip(self.pool_size, self.strides, strict=True), first):
            size = dims[axis]
            if size is not None:
                size -= window - 1 if self.padding == "valid" else 0
                dims[axis] = -(-size // stride)
        return TensorShape(dims)


class AveragePooling1D(Pooling):
    """The mean of each window of inputs [batch, length, channels]; for channels_first [batch, channels, …]."""

    op_type = "AvgPool"
    rank = 1


def average_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str | None = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Apply a new `AveragePooling1D` layer."""
    pooled: Tensor = AveragePooling1D(pool_size, strides, padding, data_format, name)(inputs)
    return pooled


class AveragePooling2D(Pooling):
    """The mean of each window of inputs [batch, height, width, channels]; for channels_first [batch, channels, …]."""

    op_type = "AvgPool"
    rank = 2


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str | None = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Apply a new `AveragePooling2D` layer."""
    pooled: Tensor = AveragePooling2D(pool_size, strides, padding, data_format, name)(inputs)
    return pooled


class AveragePooling3D(Pooling):
    """The mean of each window of inputs [batch, depth, height, width, channels]; for channels_first [batch, channels, …]."""

    op_type = "AvgPool3D"
    rank = 3


def average_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str | None = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Apply a new `AveragePooling3D` layer."""
    pooled: Tensor = AveragePooling3D(pool_size, strides, padding, data_format, name)(inputs)
    return pooled


class MaxPooling1D(Pooling):
    """The maximum of each window of inputs [batch, length, channels]; for channels_first [batch, channels, …]."""

    op_type = "MaxPool"
    rank = 1


def max_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str | None = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Apply a new `MaxPooling1D` layer."""
    pooled: Tensor = MaxPooling1D(pool_size, strides, padding, data_format, name)(inputs)
    return pooled


class MaxPooling2D(Pooling):
    """The maximum of each window of inputs [batch, height, width, channels]; for channels_first [batch, channels, …]."""

    op_type = "MaxPool"
    rank = 2


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str | None = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Apply a new `MaxPooling2D` layer."""
    pooled: Tensor = MaxPooling2D(pool_size, strides, padding, data_format, name)(inputs)
    return pooled


class MaxPooling3D(Pooling):
    """The maximum of each window of inputs [batch, depth, height, width, channels]; for channels_first [batch, channels, …]."""

    op_type = "MaxPool3D"
    rank = 3


def max_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str | None = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Apply a new `MaxPooling3D` layer."""
    pooled: Tensor = MaxPooling3D(pool_size, strides, padding, data_format, name)(inputs)
    return pooled
