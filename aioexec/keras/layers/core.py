"""The layers of `tf.layers` as Keras has them."""

from __future__ import annotations

from typing import Any

from aioexec.keras.layers.base import Layer, TrainedLayer
from aioexec.layers import convolutional, core, normalization, separable, transposed


class Dense(Layer, core.Dense):
    """`activation(inputs @ kernel + bias)`; see `aioexec.layers.Dense`."""


class Flatten(Layer, core.Flatten):
    """Join all axes but the first; see `aioexec.layers.Flatten`."""


class Dropout(TrainedLayer, core.Dropout):
    """In training, set elements to 0 with probability `rate`; see `aioexec.layers.Dropout`."""

    def __init__(self, rate: Any, noise_shape: Any = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(rate, noise_shape, seed, **kwargs)


class BatchNormalization(TrainedLayer, normalization.BatchNormalization):
    """Normalize by the moments of the batch in training, else by their averages; see `aioexec.layers.BatchNormalization`.

    The updates of the averages are in `updates`, and in no collection.
    """


class Conv1D(Layer, convolutional.Conv1D):
    """Convolve over one axis; see `aioexec.layers.Conv1D`."""


class Conv2D(Layer, convolutional.Conv2D):
    """Convolve over two axes; see `aioexec.layers.Conv2D`."""


class Conv3D(Layer, convolutional.Conv3D):
    """Convolve over three axes; see `aioexec.layers.Conv3D`."""


class SeparableConv2D(Layer, separable.SeparableConv2D):
    """Convolve each channel, then mix the channels; see `aioexec.layers.SeparableConv2D`."""


class Conv2DTranspose(Layer, transposed.Conv2DTranspose):
    """The transpose of a convolution; see `aioexec.layers.Conv2DTranspose`."""
