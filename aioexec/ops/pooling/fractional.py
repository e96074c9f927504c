"""Fractional pooling (Graham, arXiv:1412.6071): windows of two neighbouring sizes in a random order.

The windows of an axis are a sequence of ascending bounds, drawn from TensorFlow's random streams. Without `deterministic`
each run draws others; then the ops take no seeds, as in TensorFlow. They are declared as stateful, so that runs are not
folded to constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, room_for, shown
from aioexec.ops.random import philox
from aioexec.ops.random.philox import Stream
from aioexec.shapes import Dims, with_rank

# Windows


def _ratios(attrs: Attrs) -> Array:
    """Return the four ratios in single precision, in which TensorFlow divides by them.

    Raises:
        InvalidArgumentError, UnimplementedError: there are not four, or batch or channels are pooled, or some are below 1.
    """
    ratios = np.array(attrs["pooling_ratio"], np.float32)
    if len(ratios) != 4:
        raise InvalidArgumentError("pooling_ratio field must specify 4 dimensions")
    if not (ratios >= 1).all():
        raise InvalidArgumentError(f"pooling_ratio cannot be smaller than 1, got: {ratios.tolist()}")
    if ratios[0] != 1 or ratios[3] != 1:
        raise UnimplementedError(
            "Fractional pooling is not yet supported on the batch nor channel dimension."
        )
    return ratios


def _pooled_size(size: int, ratio: Any) -> int:
    return int(np.floor(np.float32(size) / ratio))


def _bounds(size: int, count: int, stream: Stream, pseudo_random: bool) -> Array:
    """Draw the bounds of `count` windows on an axis: [count + 1], from 0 to `size`."""
    if pseudo_random:
        return _pseudo_random_bounds(size, count, stream)
    start = stream.reserve((count + 3) // 4)
    widths = np.full(count, size // count, np.int64)
    widths[: size % count] += 1
    return np.concatenate([[0], np.cumsum(widths[philox.permutation(stream.key, start, count)])])


def _pseudo_random_bounds(size: int, count: int, stream: Stream) -> Array:
    """Bounds at ceil(alpha * (i + u)) for one random u, small enough that all windows have one of the two sizes."""
    alpha, least = size / count, size // count
    largest = min((least + 2) / alpha - 1, (size + 1 - least) / alpha - (count - 1))
    high, low = philox.words(stream.key, stream.reserve(1), np.zeros(1, np.uint64))[0, :2].tolist()
    bits = np.array([(1023 << 52) | ((high & 0xFFFFF) << 32) | low], np.uint64)
    u = (bits.view(np.float64)[0] - 1.0) * largest
    inner = np.ceil(alpha * (np.arange(1, count) + u)).astype(np.int64)
    return np.concatenate([[0], inner - 1, [size]])


def _windows(bounds: Array, size: int, overlapping: bool) -> Iterator[tuple[int, int]]:
    """The beginning and the end of each window; an overlapping one includes the first element of the next."""
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        yield begin, min(end + overlapping, size)


# Kernels


def _pool(image: Array, bounds: Sequence[Array], overlapping: bool, reduce: Callable[..., Array]) -> Array:
    for axis, along in enumerate(bounds, 1):
        parts = [
            reduce(image[(slice(None),) * axis + (slice(begin, end),)], axis=axis, keepdims=True)
            for begin, end in _windows(along, image.shape[axis], overlapping)
        ]
        image = np.concatenate(parts, axis=axis)
    return image


def _sizes(bounds: Array, size: int, overlapping: bool) -> Array:
    return np.array([end - begin for begin, end in _windows(bounds, size, overlapping)], np.int64)


def _counts(image_shape: Sequence[int], bounds: Sequence[Array], overlapping: bool) -> Array:
    """Return the number of elements of each window: [1, rows, columns, 1]."""
    rows, columns = (
        _sizes(along, size, overlapping) for along, size in zip(bounds, image_shape[1:3], strict=True)
    )
    return (rows[:, None] * columns)[None, :, :, None]


def _quotients(sums: Array, counts: Array) -> Array:
    """Divide in the dtype of the sums; integers are rounded towards zero, as in C++."""
    exact = sums / counts if sums.dtype.kind == "f" else np.sign(sums) * (np.abs(sums) // counts)
    return np.asarray(exact.astype(sums.dtype))


def _max(image: Array, bounds: Sequence[Array], overlapping: bool) -> Array:
    return _pool(image, bounds, overlapping, np.max)


def _mean(image: Array, bounds: Sequence[Array], overlapping: bool) -> Array:
    def total(part: Array, **along: Any) -> Array:
        return np.asarray(part.sum(dtype=image.dtype, **along))

    return _quotients(_pool(image, bounds, overlapping, total), _counts(image.shape, bounds, overlapping))


def _seeds(attrs: Attrs) -> Callable[[], Stream]:
    """Return what makes the stream of a run: the same in each with `deterministic`."""
    seed, seed2 = attrs["seed"], attrs["seed2"]
    if not attrs["deterministic"]:
        if seed or seed2:
            raise InvalidArgumentError("Both seed and seed2 should be 0 if deterministic is false.")
        return lambda: Stream(0, 0)
    if not seed and not seed2:
        drawn = Stream(0, 0)
        seed, seed2 = drawn.key, drawn.reserve(0) >> 64
    return lambda: Stream(seed, seed2)


def _kernel_of(pool: Callable[[Array, Sequence[Array], bool], Array]) -> Callable[[KernelContext], Compute]:
    def bind(context: KernelContext) -> Compute:
        attrs = context.attrs
        ratios, streams = _ratios(attrs), _seeds(attrs)
        overlapping, pseudo_random = bool(attrs["overlapping"]), bool(attrs["pseudo_random"])

        def compute(image: Array) -> tuple[Array, Array, Array]:
            if image.ndim != 4:
                raise InvalidArgumentError(f"tensor_in must be 4-dimensional, got shape {shown(image.shape)}")
            counts = [_pooled_size(image.shape[axis], ratios[axis]) for axis in (1, 2)]
            if not all(counts) or not image.shape[0] or not image.shape[3]:
                raise InvalidArgumentError(
                    f"Pooling ratios {ratios.tolist()} are too large for the shape {shown(image.shape)}"
                )
            stream = streams()
            rows, columns = (
                _bounds(image.shape[axis + 1], count, stream, pseudo_random)
                for axis, count in enumerate(counts)
            )
            return pool(image, (rows, columns), overlapping), rows, columns

        return compute

    return bind


def _check_bounds(name: str, bounds: Array, size: int, count: int) -> None:
    """Check the bounds of windows that an op is given."""
    fits = bounds.shape == (count + 1,) and count > 0
    if not fits or bounds[0] < 0 or (np.diff(bounds) <= 0).any() or bounds[-2] >= size:
        raise InvalidArgumentError(
            f"{name} must ascend within the {size} elements of the axis, for {count} windows; got {shown(bounds)}"
        )


def _check_grad(shape: Sequence[int], dy: Array, rows: Array, columns: Array) -> None:
    if dy.ndim != 4 or len(shape) != 4 or (dy.shape[0], dy.shape[3]) != (shape[0], shape[3]):
        raise InvalidArgumentError(
            f"out_backprop must have the batch and channels of the image, got {shown(dy.shape)} for {shown(shape)}"
        )
    _check_bounds("row_pooling_sequence", rows, shape[1], dy.shape[1])
    _check_bounds("col_pooling_sequence", columns, shape[2], dy.shape[2])


def _max_grad_kernel(context: KernelContext) -> Compute:
    overlapping = bool(context.attrs["overlapping"])

    def compute(image: Array, pooled: Array, dy: Array, rows: Array, columns: Array) -> Array:
        if pooled.shape != dy.shape:
            raise InvalidArgumentError(
                f"out_backprop must have the shape of the output, got {shown(dy.shape)} for {shown(pooled.shape)}"
            )
        _check_grad(image.shape, dy, rows, columns)
        dx = np.zeros(image.shape, dy.dtype)
        batch, channel = np.arange(image.shape[0])[:, None], np.arange(image.shape[3])
        for i, (top, bottom) in enumerate(_windows(rows, image.shape[1], overlapping)):
            for j, (left, right) in enumerate(_windows(columns, image.shape[2], overlapping)):
                window = image[:, top:bottom, left:right]
                first = window.reshape(len(image), -1, image.shape[3]).argmax(axis=1)
                row, column = np.divmod(first, right - left)
                dx[batch, top + row, left + column, channel] += dy[:, i, j]
        return dx

    return compute


def _members(bounds: Array, size: int, overlapping: bool) -> Array:
    """Return which elements of an axis are in which window: [windows, size] of 0 and 1."""
    members = np.zeros((len(bounds) - 1, size))
    for row, (begin, end) in zip(members, _windows(bounds, size, overlapping), strict=True):
        row[begin:end] = 1
    return members


def _mean_grad_kernel(context: KernelContext) -> Compute:
    overlapping = bool(context.attrs["overlapping"])

    def compute(shape: Array, dy: Array, rows: Array, columns: Array) -> Array:
        if shape.shape != (4,):
            raise InvalidArgumentError(
                f"original input tensor shape must be 1-dimensional and 4 elements, got shape {shown(shape.shape)}"
            )
        dims = shape.tolist()
        _check_grad(dims, dy, rows, columns)
        room_for(dims, 8)
        shares = dy.astype(np.float64) / _counts(dims, (rows, columns), overlapping)
        by_row = np.einsum("brcd,rh->bhcd", shares, _members(rows, dims[1], overlapping))
        dx = np.einsum("bhcd,cw->bhwd", by_row, _members(columns, dims[2], overlapping))
        return np.asarray(dx.astype(dy.dtype))

    return compute


# Rows


def _shape(context: ShapeContext) -> Sequence[Dims]:
    ratios = context.attrs["pooling_ratio"]
    if len(ratios) != 4 or min(ratios) < 1:
        raise GraphValueError(f"pooling_ratio must be 4 numbers of at least 1, got {list(ratios)}")
    image = with_rank(context.inputs[0], 4)
    if image is None:
        return [(None,) * 4, (None,), (None,)]
    pooled = tuple(
        None if size is None else _pooled_size(size, np.float32(ratio))
        for size, ratio in zip(image, ratios, strict=True)
    )
    return [pooled, *((None if size is None else size + 1,) for size in pooled[1:3])]


def _max_gradient(op: Operation, dy: Tensor, *_: Any) -> Sequence[Tensor]:
    same = {"overlapping": op.attrs["overlapping"]}
    return (apply_op("FractionalMaxPoolGrad", op.inputs[0], op.outputs[0], dy, *op.outputs[1:], **same),)


def _mean_gradient(op: Operation, dy: Tensor, *_: Any) -> Sequence[Tensor]:
    shape = apply_op("Shape", op.inputs[0], out_type="int64")
    same = {"overlapping": op.attrs["overlapping"]}
    return (apply_op("FractionalAvgPoolGrad", shape, dy, *op.outputs[1:], **same),)


_ATTRS: Final = (
    "pooling_ratio:list(float)>=4; pseudo_random:bool=false; overlapping:bool=false; deterministic:bool=false; "
    "seed:int=0; seed2:int=0; T:type{float|double|int32|int64}"
)
_GRAD_ATTRS: Final = "overlapping:bool=false; T:type{float|double|int32|int64}"
_BOUNDS: Final = "row_pooling_sequence:int64, col_pooling_sequence:int64"

for _kind, _pooling, _gradient in (("Max", _max, _max_gradient), ("Avg", _mean, _mean_gradient)):
    register(
        f"Fractional{_kind}Pool(value:T) -> (output:T, {_BOUNDS}) [{_ATTRS}] {{stateful}}",
        shape=_shape,
        kernel=_kernel_of(_pooling),
        gradient=_gradient,
    )
register(
    f"FractionalMaxPoolGrad(orig_input:T, orig_output:T, out_backprop:T, {_BOUNDS}) -> (output:T) [{_GRAD_ATTRS}]",
    shape=lambda context: [with_rank(context.inputs[0], 4)],
    kernel=_max_grad_kernel,
    gradient=undefined_gradient,
)
register(
    f"FractionalAvgPoolGrad(orig_input_tensor_shape:int64, out_backprop:T, {_BOUNDS}) -> (output:T) [{_GRAD_ATTRS}]",
    shape=lambda context: [context.partial(0) or (None,) * 4],
    kernel=_mean_grad_kernel,
    gradient=undefined_gradient,
    shape_operands=(0,),
)

# Public functions


class FractionalMaxPool(NamedTuple):
    """The result of `fractional_max_pool`: the images, and the bounds of the windows along rows and columns, int64."""

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


class FractionalAvgPool(NamedTuple):
    """The result of `fractional_avg_pool`: the images, and the bounds of the windows along rows and columns, int64."""

    output: Tensor
    row_pooling_sequence: Tensor
    col_pooling_sequence: Tensor


def fractional_max_pool(
    value: Any,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> FractionalMaxPool:
    """Take the maximum of windows of images [batch, height, width, channels]; their sizes vary at random.

    Args:
        value: float32, float64, int32 or int64.
        pooling_ratio: [1, rows, columns, 1], each at least 1: the quotients of the sizes, rounded down.
        pseudo_random: draw one number per axis, so that the sizes are spread evenly, instead of a random order.
        overlapping: a window includes the first row and column of the next one.
        deterministic: use the same windows in every run.
        seed, seed2: of the random stream, for `deterministic`.

    Raises:
        InvalidArgumentError: (in a run) seeds are given without `deterministic`, or an axis is shorter than its ratio.
        UnimplementedError: (in a run) batch or channels are pooled.
    """
    return FractionalMaxPool(
        *apply_tuple_op(
            "FractionalMaxPool",
            value,
            name=name,
            pooling_ratio=pooling_ratio,
            pseudo_random=pseudo_random,
            overlapping=overlapping,
            deterministic=deterministic,
            seed=seed,
            seed2=seed2,
        )
    )


def fractional_avg_pool(
    value: Any,
    pooling_ratio: Sequence[float],
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> FractionalAvgPool:
    """Take the mean of windows of images; args and errors are those of `fractional_max_pool`."""
    return FractionalAvgPool(
        *apply_tuple_op(
            "FractionalAvgPool",
            value,
            name=name,
            pooling_ratio=pooling_ratio,
            pseudo_random=pseudo_random,
            overlapping=overlapping,
            deterministic=deterministic,
            seed=seed,
            seed2=seed2,
        )
    )
