"""Convolutions of one to three spatial axes under one name, transposed ones, and dilation by moving blocks to the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.array.slicing import slice_
from aioexec.ops.array.space_and_batch import batch_to_space_nd, space_to_batch_nd
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.convolution.conv import conv2d, conv2d_transpose
from aioexec.ops.convolution.conv3d import conv3d, conv3d_transpose
from aioexec.ops.convolution.windows import padding_attrs, renamed

LINES = {None: "NHWC", "NWC": "NHWC", "NHWC": "NHWC", "NCW": "NCHW", "NCHW": "NCHW"}
"""The format of images, for that of lines."""


def format_of_lines(data_format: str | None) -> tuple[str, int]:
    """Return the format of images of one row that lines become, and the axis of rows that is added.

    Raises:
        GraphValueError: the format is unknown.
    """
    if data_format not in LINES:
        raise GraphValueError(f"`data_format` must be 'NWC' or 'NCW'. Received: data_format={data_format}")
    order = LINES[data_format]
    return order, 1 if order == "NHWC" else 2


def of_lines(value: Any, order: str, name: str, rank: int = 3) -> list[int]:
    """Expand sizes for lines (a number, one number, or one for each dimension) to the dimensions of images.

    Raises:
        GraphValueError: the number of values is wrong.
    """
    sizes = [1] if value is None else [int(each) for each in np.asarray(value).reshape(-1)]
    if len(sizes) == rank:
        return [*sizes[:1], 1, *sizes[1:]] if order == "NHWC" else [*sizes[:2], 1, sizes[2]]
    if len(sizes) != 1:
        raise GraphValueError(f"{name} should be of length 1, 1 or 3. Received: {name}={value!r}")
    return [1, 1, sizes[0], 1] if order == "NHWC" else [1, 1, 1, sizes[0]]


def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: str | None = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Convolve lines [batch, width, in_channels] with filters [width, in_channels, out_channels].

    Args:
        stride, dilations: a number, by default 1.
        padding: "SAME" or "VALID".
        data_format: "NWC", the default, or "NCW": [batch, in_channels, width].

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    given = renamed(value, input, "value", "input")
    with op_scope(name, "conv1d", given, filters) as scope:
        order, rows = format_of_lines(data_format)
        image = apply_op("ExpandDims", given, rows)
        result = apply_op(
            "Conv2D",
            image,
            apply_op("ExpandDims", filters, 0),
            name=scope,
            strides=of_lines(stride, order, "stride"),
            dilations=of_lines(dilations, order, "dilations"),
            data_format=order,
            use_cudnn_on_gpu=use_cudnn_on_gpu,
            **padding_attrs(padding),
        )
        return apply_op("Squeeze", result, squeeze_dims=[rows])


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Apply the transpose of `conv1d`; filters are [width, out_channels, in_channels].

    Args:
        output_shape: the shape of the result, of three elements.

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    with op_scope(name, "conv1d_transpose", input, filters, output_shape) as scope:
        order, rows = format_of_lines(data_format)
        sizes = convert_to_tensor(output_shape, dtypes.int32)
        result = apply_op(
            "Conv2DBackpropInput",
            concat([sizes[:rows], [1], sizes[rows:]], 0),
            apply_op("ExpandDims", filters, 0),
            apply_op("ExpandDims", input, rows),
            name=scope,
            strides=of_lines(strides, order, "stride"),
            dilations=of_lines(dilations, order, "dilations"),
            data_format=order,
            **padding_attrs(padding),
        )
        return apply_op("Squeeze", result, squeeze_dims=[rows])


def convolution(
    input: Any,
    filter: Any,
    padding: Any,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Convolve inputs [batch, *spatial, in_channels] with filters [*spatial, in_channels, out_channels].

    Args:
        padding: "SAME" or "VALID".
        strides, dilation_rate: a number for each of the one to three spatial axes, by default 1; at most one of them differs
            from 1.
        data_format: "NWC", "NHWC" or "NDHWC"; "NCW", "NCHW" or "NCDHW" for channels before the spatial axes.
        filters, dilations: newer names of `filter` and `dilation_rate`.

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    weights = convert_to_tensor(renamed(filter, filters, "filter", "filters"))
    apart = dilation_rate if dilations is None else dilations
    with op_scope(name, "convolution", input, weights) as scope:
        given = convert_to_tensor(input)
        known = weights.dims or given.dims
        if known is None or len(known) not in (3, 4, 5):
            raise GraphValueError(
                "convolution needs an input or a filter of known rank 3, 4 or 5, "
                f"got shapes {given.shape} and {weights.shape}"
            )
        if strides is not None and apart is not None and np.max(strides) > 1 and np.max(apart) > 1:
            raise GraphValueError(
                "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
                f"Received: strides={strides} and dilation_rate={apart}"
            )
        if len(known) == 3:
            return conv1d(given, weights, strides, padding, None, data_format, scope, dilations=apart)
        if len(known) == 4:
            return conv2d(given, weights, strides, padding, True, data_format, apart, scope)
        return conv3d(given, weights, strides, padding, data_format, apart, scope)


def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Apply the transpose of `convolution`; filters are [*spatial, out_channels, in_channels].

    Args:
        output_shape: the shape of the result, whose length tells the number of spatial axes.

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    with op_scope(name, "conv_transpose", input, filters, output_shape) as scope:
        sizes = convert_to_tensor(output_shape)
        count = None if sizes.dims is None else sizes.dims[0]
        if count not in (3, 4, 5):
            raise GraphValueError(f"`output_shape` must be of length 3, 4 or 5. Received: {output_shape!r}")
        rest: dict[str, Any] = {"data_format": data_format, "dilations": dilations, "name": scope}
        if count == 3:
            return conv1d_transpose(input, filters, sizes, strides, padding, **rest)
        apply = conv2d_transpose if count == 4 else conv3d_transpose
        return apply(input, filters, sizes, strides, padding, **rest)


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: str, name: str | None = None
) -> Tensor:
    """Apply the transpose of `atrous_conv2d`; filters are [height, width, out_channels, in_channels].

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    with op_scope(name, "atrous_conv2d_transpose", value, filters, output_shape) as scope:
        if rate < 1:
            raise GraphValueError(f"`rate` cannot be less than one. Received: rate={rate}")
        if padding not in ("SAME", "VALID"):
            raise GraphValueError(f"`padding` must be either 'VALID' or 'SAME'. Received: padding={padding}")
        return conv2d_transpose(value, filters, output_shape, 1, padding, name=scope, dilations=rate)


# Dilation


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Return the least padding after which blocks divide the sizes of an input, and the crops that undo its surplus.

    Args:
        input_shape: sizes of the spatial axes, int32 [n].
        block_shape: sizes of a block, int32 [n], n static.
        base_paddings: [n, 2] of padding that is wanted in any case, by default none.

    Returns:
        `(paddings, crops)` of shape [n, 2]: int32 tensors.

    Raises:
        GraphValueError: n is not known.
    """
    with op_scope(name, "required_space_to_batch_paddings", input_shape, block_shape):
        sizes, block = (convert_to_tensor(each, dtypes.int32) for each in (input_shape, block_shape))
        if block.dims is None or len(block.dims) != 1 or block.dims[0] is None:
            raise GraphValueError(f"block_shape must be a vector of known length, got shape {block.shape}")
        count = block.dims[0]
        base = np.zeros((count, 2), np.int32) if base_paddings is None else base_paddings
        wanted = convert_to_tensor(base, dtypes.int32, name="base_paddings")
        static = [constant_value(each) for each in (sizes, block, wanted)]
        is_static = all(each is not None for each in static)
        whole, per_block, around = static if is_static else (sizes, block, wanted)
        before, after = around[:, 0], around[:, 1]  # type: ignore[index]
        extra = (per_block - (whole + before + after) % per_block) % per_block
        return (
            _pairs(before, after + extra, "paddings"),
            _pairs(np.zeros(count, np.int32), extra, "crops"),
        )


def _pairs(low: Any, high: Any, name: str) -> Tensor:
    """Return a matrix of two columns: a constant, if both are arrays."""
    if isinstance(high, np.ndarray):
        return convert_to_tensor(np.stack([low, high], axis=1), dtypes.int32, name)
    return stack([low, high], axis=1, name=name)


Operator = Callable[[Tensor, int, str], Tensor]
"""(input, number of spatial axes, padding) to result."""


def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Operator,
    filter_shape: Any = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Tensor:
    """Apply `op` with filter taps `dilation_rate` apart: to an input whose blocks are moved to the batch, and back.

    Args:
        dilation_rate: int32 of static length, one for each spatial axis; `op` is called directly if all are 1.
        padding: "SAME" or "VALID"; `op` gets "VALID" unless all rates are 1.
        op: called as `op(input, number_of_spatial_axes, padding)`.
        filter_shape: the sizes of the filter along the spatial axes, needed for "SAME".
        spatial_dims: the spatial axes, ascending, by default those after the first; or after the second, if `data_format`
            begins with "NC".

    Raises:
        GraphValueError: an argument does not fit.
    """
    given = convert_to_tensor(input, name="input")
    rates = convert_to_tensor(dilation_rate, dtypes.int32, name="dilation_rate")
    if rates.dims is None or len(rates.dims) != 1 or rates.dims[0] is None:
        raise GraphValueError(f"dilation_rate must be a vector of known length, got shape {rates.shape}")
    count = rates.dims[0]
    first = 2 if data_format is not None and data_format.startswith("NC") else 1
    axes = sorted({*(range(first, first + count) if spatial_dims is None else spatial_dims)})
    if len(axes) != count or axes[0] < 1 or (spatial_dims is not None and list(spatial_dims) != axes):
        raise GraphValueError(
            f"spatial_dims must be ascending, positive, one for each rate, got {spatial_dims!r}"
        )
    static = constant_value(rates)
    if static is not None and (static < 1).any():
        raise GraphValueError(f"dilation_rate must be positive, got {static.tolist()}")
    if static is not None and (static == 1).all():
        return op(given, count, padding)
    base = _base_paddings(padding, filter_shape, count, rates if static is None else static)
    sizes = _sizes_along(given, axes)
    paddings, crops = required_space_to_batch_paddings(sizes, rates, base)
    block, paddings, crops = (
        _for_all_axes(each, fill, axes) for each, fill in ((rates, 1), (paddings, 0), (crops, 0))
    )
    result = op(space_to_batch_nd(given, block, paddings), count, "VALID")
    return batch_to_space_nd(result, block, crops)


def _base_paddings(padding: str, filter_shape: Any, count: int, rates: Any) -> Any:
    """Return the padding of the dilated filter: [count, 2]."""
    if padding == "VALID":
        return np.zeros((count, 2), np.int32)
    if padding != "SAME":
        raise GraphValueError(f"`padding` must be either 'VALID' or 'SAME', got {padding!r}")
    if filter_shape is None:
        raise GraphValueError("`filter_shape` must be specified for 'SAME' padding.")
    window = convert_to_tensor(filter_shape, dtypes.int32)
    known = constant_value(window)
    if known is not None and isinstance(rates, np.ndarray):
        around = (known[:count] - 1) * rates
        return np.stack([around // 2, around - around // 2], axis=1)
    spread = (window[:count] - 1) * rates
    before = spread // 2
    return stack([before, spread - before], axis=1)


def _sizes_along(given: Tensor, axes: Sequence[int]) -> Any:
    """Return the sizes along some axes, static ones if all are known."""
    known = None if given.dims is None else [given.dims[axis] for axis in axes]
    if known is not None and None not in known:
        return known
    return apply_op("GatherV2", shape(given), list(axes), 0)


def _for_all_axes(rows: Tensor, fill: int, axes: Sequence[int]) -> Tensor:
    """Return the rows of the axes from the first to the last of `axes`, with `fill` for those that are left out."""
    if axes[-1] == len(axes):
        return rows
    pieces: list[Any] = []
    for axis in range(1, axes[-1] + 1):
        if axis in axes:
            number = axes.index(axis)
            rest = [0] * (len(rows.dims or ()) - 1)
            pieces.append(slice_(rows, [number, *rest], [1, *([-1] * len(rest))]))
        else:
            pieces.append(np.full([1, *([2] if len(rows.dims or ()) == 2 else [])], fill, np.int32))
    return concat(pieces, 0)
