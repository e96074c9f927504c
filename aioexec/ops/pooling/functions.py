"""Pooling of one to three spatial axes under one name, and erosion."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.reverse import reverse
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.convolution.functions import format_of_lines, of_lines, with_space_to_batch
from aioexec.ops.convolution.windows import padding_attrs
from aioexec.ops.pooling.pool2d import avg_pool, max_pool
from aioexec.ops.pooling.pool3d import avg_pool3d, max_pool3d
from aioexec.shapes import with_rank


def _pool_lines(
    op_type: str, given: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, name: str
) -> Tensor:
    order, rows = format_of_lines(data_format)
    attrs = padding_attrs([[0, 0], *padding] if isinstance(padding, list | tuple) else padding)
    image = apply_op("ExpandDims", given, rows)
    sizes = {"ksize": of_lines(ksize, order, "ksize"), "strides": of_lines(strides, order, "strides")}
    result = apply_op(op_type, image, name=name, data_format=order, **sizes, **attrs)
    return apply_op("Squeeze", result, squeeze_dims=[rows])


def max_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NWC",
    name: str | None = None,
) -> Tensor:
    """Take the maximum of each window of lines [batch, width, channels].

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    with op_scope(name, "MaxPool1d", input) as scope:
        return _pool_lines("MaxPool", input, ksize, strides, padding, data_format, scope)


def avg_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NWC",
    name: str | None = None,
) -> Tensor:
    """Take the mean of each window of lines [batch, width, channels], excluding padding.

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    with op_scope(name, "AvgPool1D", input) as scope:
        return _pool_lines("AvgPool", input, ksize, strides, padding, data_format, scope)


def max_pool2d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    name: str | None = None,
) -> Tensor:
    """Take the maximum of each window of images, as `max_pool`."""
    with op_scope(name, "MaxPool2d", input) as scope:
        return max_pool(input, ksize, strides, padding, data_format, scope)


def _by_rank(
    kind: str, input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, name: str | None
) -> Tensor:
    given = convert_to_tensor(input)
    rank = len(given.dims) if given.dims is not None else None if data_format is None else len(data_format)
    if rank not in (3, 4, 5):
        raise GraphValueError(f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={given.shape}")
    functions = {
        "max": (max_pool1d, max_pool, max_pool3d),
        "avg": (avg_pool1d, avg_pool, avg_pool3d),
    }
    if rank == 5 and isinstance(padding, list | tuple):
        raise GraphValueError(f"Explicit padding is not supported with rank 5. Received: padding={padding}")
    pooled: Tensor = functions[kind][rank - 3](given, ksize, strides, padding, data_format, name)
    return pooled


def max_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Take the maximum of each window of inputs [batch, *spatial, channels] with one to three spatial axes.

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    return _by_rank("max", input, ksize, strides, padding, data_format, name)


def avg_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Take the mean of each window of inputs [batch, *spatial, channels] with one to three spatial axes.

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    return _by_rank("avg", input, ksize, strides, padding, data_format, name)


def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    padding: str,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Pool inputs [batch, *spatial, channels] of one to three spatial axes.

    Args:
        window_shape: sizes of the window along the spatial axes.
        pooling_type: "MAX" or "AVG".
        padding: "SAME" or "VALID".
        dilation_rate, strides: one number for each spatial axis, by default 1; at most one of them differs from 1.
        data_format: "NWC", "NHWC" or "NDHWC"; "NCW", "NCHW" or "NCDHW" for channels before the spatial axes.
        dilations: newer name of `dilation_rate`.

    Raises:
        GraphValueError: an argument does not fit.
    """
    apart = dilation_rate if dilations is None else dilations
    with op_scope(name, f"{pooling_type.lower()}_pool", input) as scope:
        given, count = convert_to_tensor(input, name="input"), len(window_shape)
        if not 1 <= count <= 3:
            raise GraphValueError(f"`len(window_shape)` must be 1, 2, or 3. Received: {window_shape}")
        with_rank(given.dims, count + 2)
        steps, rates = _steps_and_rates(count, strides, apart)
        if padding == "SAME" and max(rates) > 1:
            raise GraphValueError("pooling with 'SAME' padding is not implemented for `dilation_rate` > 1.")
        if any(step > size for step, size in zip(steps, window_shape, strict=True)):
            raise GraphValueError(f"`strides` > `window_shape` not supported: {steps} and {window_shape}")
        if pooling_type not in ("MAX", "AVG"):
            raise GraphValueError(f"{count}-D {pooling_type} pooling is not supported.")

        def pooled(converted: Tensor, _: int, padding: str) -> Tensor:
            return _by_rank(pooling_type.lower(), converted, window_shape, steps, padding, data_format, scope)

        first = 2 if data_format is not None and data_format.startswith("NC") else 1
        axes = range(first, first + count)
        return with_space_to_batch(given, rates, padding, pooled, window_shape, axes)


def _steps_and_rates(count: int, strides: Any, apart: Any) -> tuple[list[int], list[int]]:
    """Return strides and dilations as lists, and check them."""
    found = []
    for name, value in (("dilation_rate", apart), ("strides", strides)):
        sizes = [1] * count if value is None else [int(each) for each in value]
        if len(sizes) != count:
            raise GraphValueError(f"`len({name})` should be {count}. Received: {name}={value!r}")
        if min(sizes) < 1:
            raise GraphValueError(f"all values of `{name}` must be positive. Received: {name}={value!r}")
        found.append(sizes)
    rates, steps = found
    if max(steps) > 1 and max(rates) > 1:
        raise GraphValueError(
            "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
            f"Received: strides={steps} and dilation_rate={rates}"
        )
    return steps, rates


def erosion2d(
    value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Tensor:
    """Take the minimum of image minus kernel over each window of images (grey-scale erosion).

    Args:
        value: [batch, height, width, channels].
        kernel: [height, width, channels].
        strides, rates: [1, rows, columns, 1].
    """
    with op_scope(name, "erosion2d", value, kernel) as scope:
        windows = {"strides": list(np.asarray(strides)), "rates": list(np.asarray(rates)), "padding": padding}
        turned = reverse(convert_to_tensor(kernel), [0, 1])
        return apply_op("Neg", apply_op("Dilation2D", apply_op("Neg", value), turned, name=scope, **windows))
