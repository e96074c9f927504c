"""Layers under the names of `tf.keras.layers`, for programs of graphs that call them on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.keras.layers.base import Layer as Layer, Wrapper as Wrapper
    from aioexec.keras.layers.core import (
        BatchNormalization as BatchNormalization,
        Conv1D as Conv1D,
        Conv2D as Conv2D,
        Conv2DTranspose as Conv2DTranspose,
        Conv3D as Conv3D,
        Dense as Dense,
        Dropout as Dropout,
        Flatten as Flatten,
        SeparableConv2D as SeparableConv2D,
    )
    from aioexec.keras.layers.functions import (
        Activation as Activation,
        Add as Add,
        Concatenate as Concatenate,
        Embedding as Embedding,
        Lambda as Lambda,
        LeakyReLU as LeakyReLU,
        Multiply as Multiply,
        Permute as Permute,
        ReLU as ReLU,
        Reshape as Reshape,
        ZeroPadding2D as ZeroPadding2D,
    )
    from aioexec.keras.layers.pooling import (
        AveragePooling1D as AveragePooling1D,
        AveragePooling2D as AveragePooling2D,
        AvgPool1D as AvgPool1D,
        AvgPool2D as AvgPool2D,
        GlobalAveragePooling1D as GlobalAveragePooling1D,
        GlobalAveragePooling2D as GlobalAveragePooling2D,
        GlobalMaxPooling1D as GlobalMaxPooling1D,
        GlobalMaxPooling2D as GlobalMaxPooling2D,
        MaxPool1D as MaxPool1D,
        MaxPool2D as MaxPool2D,
        MaxPooling1D as MaxPooling1D,
        MaxPooling2D as MaxPooling2D,
    )
    from aioexec.layers.input_spec import InputSpec as InputSpec
else:
    __getattr__, __dir__ = public_names(__name__)
