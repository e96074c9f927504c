"""Pooling of `tf.contrib.layers`.

`kernel_size` and `stride` are one integer or one for each spatial axis; `padding` is SAME or VALID. GraphValueError if the data
format is unknown or the rank of the inputs wrong.
"""

from __future__ import annotations

from typing import Any

from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.contrib.layers.applying import Arguments
from aioexec.contrib.layers.collecting import collect_named_outputs
from aioexec.contrib.layers.formats import IMAGES, VOLUMES, check_format, n_positive_integers
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.layers.pooling import AveragePooling2D, AveragePooling3D, MaxPooling2D, MaxPooling3D
from aioexec.ops.pooling import functions


def _pooled(kind: Any, default_name: str, given: Arguments, formats: tuple[str, str]) -> Tensor:
    data_format = check_format(given["data_format"], formats)
    with name_scope(given["scope"], default_name, [given["inputs"]]) as scope:
        layer = kind(
            pool_size=given["kernel_size"],
            strides=given["stride"],
            padding=given["padding"],
            data_format=data_format,
            _scope=scope,
        )
        outputs = layer(convert_to_tensor(given["inputs"]))
        pooled: Tensor = collect_named_outputs(given["outputs_collections"], scope, outputs)
        return pooled


@add_arg_scope
def avg_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Return the mean of each window of inputs `[batch, height, width, channels]`, or of `NCHW`."""
    return _pooled(AveragePooling2D, "AvgPool2D", locals(), IMAGES)


@add_arg_scope
def avg_pool3d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Return the mean of each window of inputs `[batch, depth, height, width, channels]`, or of `NCDHW`."""
    return _pooled(AveragePooling3D, "AvgPool3D", locals(), VOLUMES)


@add_arg_scope
def max_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Return the maximum of each window of inputs `[batch, height, width, channels]`, or of `NCHW`."""
    return _pooled(MaxPooling2D, "MaxPool2D", locals(), IMAGES)


@add_arg_scope
def max_pool3d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str = "NDHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Return the maximum of each window of inputs `[batch, depth, height, width, channels]`, or of `NCDHW`."""
    return _pooled(MaxPooling3D, "MaxPool3D", locals(), VOLUMES)


@add_arg_scope
def pool(
    inputs: Any,
    kernel_size: Any,
    pooling_type: str,
    padding: str = "VALID",
    data_format: str | None = None,
    dilation_rate: Any = 1,
    stride: Any = 1,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Return the maximum (`MAX`) or mean (`AVG`) of each window over the spatial axes of the inputs, one to three.

    Raises:
        GraphValueError: the rank is not known, or an argument does not fit.
    """
    with name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as opened:
        inputs = convert_to_tensor(inputs)
        rank = inputs.shape.ndims
        if rank is None or rank < 3:
            raise GraphValueError(f"Rank of inputs must be known, and >= 3, got {rank}")
        outputs = functions.pool(
            inputs,
            n_positive_integers(rank - 2, kernel_size),
            pooling_type,
            padding,
            n_positive_integers(rank - 2, dilation_rate),
            n_positive_integers(rank - 2, stride),
            opened,
            data_format,
        )
        return collect_named_outputs(outputs_collections, opened, outputs)  # type: ignore[no-any-return]
