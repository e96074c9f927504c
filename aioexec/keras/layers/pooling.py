"""Pooling over windows, with the defaults of Keras, and over whole images."""

from __future__ import annotations

from typing import Any

from aioexec.graph.node import Tensor
from aioexec.keras.layers.base import Layer
from aioexec.layers import pooling
from aioexec.layers.arguments import data_format_of
from aioexec.layers.input_spec import InputSpec
from aioexec.ops.reduction.reductions import reduce_max, reduce_mean


class _Pooling1D(Layer):
    """The arguments of pooling over steps."""

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = "channels_last",
        **kwargs: Any,
    ) -> None:
        windows = {"pool_size": pool_size, "strides": pool_size if strides is None else strides}
        super().__init__(**windows, padding=padding, data_format=data_format, **kwargs)


class _Pooling2D(Layer):
    """The arguments of pooling over rows and columns."""

    def __init__(
        self,
        pool_size: Any = (2, 2),
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        windows = {"pool_size": pool_size, "strides": pool_size if strides is None else strides}
        super().__init__(**windows, padding=padding, data_format=data_format, **kwargs)


class MaxPooling1D(_Pooling1D, pooling.MaxPooling1D):
    """The maximum of windows of `pool_size`; `strides` is by default the same."""


class MaxPooling2D(_Pooling2D, pooling.MaxPooling2D):
    """The maximum of windows of `pool_size`; `strides` is by default the same."""


class AveragePooling1D(_Pooling1D, pooling.AveragePooling1D):
    """The mean of windows of `pool_size`; `strides` is by default the same."""


class AveragePooling2D(_Pooling2D, pooling.AveragePooling2D):
    """The mean of windows of `pool_size`; `strides` is by default the same."""


class _GlobalPooling(Layer):
    """Reduces all axes of [batch, ..., channels] between the first and the last one, or after the second one."""

    rank = 2

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _axes(self) -> list[int]:
        first = 1 if self.data_format == "channels_last" else 2
        return list(range(first, first + self.rank))


class GlobalAveragePooling2D(_GlobalPooling):
    """The mean over rows and columns, [batch, channels]."""

    def call(self, inputs: Any) -> Tensor:
        return reduce_mean(inputs, self._axes())


class GlobalMaxPooling2D(_GlobalPooling):
    """The maximum over rows and columns, [batch, channels]."""

    def call(self, inputs: Any) -> Tensor:
        return reduce_max(inputs, self._axes())


class GlobalAveragePooling1D(_GlobalPooling):
    """The mean over the steps, [batch, channels]."""

    rank = 1

    def call(self, inputs: Any) -> Tensor:
        return reduce_mean(inputs, self._axes())


class GlobalMaxPooling1D(_GlobalPooling):
    """The maximum over the steps, [batch, channels]."""

    rank = 1

    def call(self, inputs: Any) -> Tensor:
        return reduce_max(inputs, self._axes())


MaxPool1D, MaxPool2D = MaxPooling1D, MaxPooling2D
AvgPool1D, AvgPool2D = AveragePooling1D, AveragePooling2D
