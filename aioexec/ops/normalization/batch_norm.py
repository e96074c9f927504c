"""Fused batch normalisation, its gradients, and their gradients.

Each channel is normalised to mean 0 and variance 1, then scaled and shifted. In training, mean and variance are those of the
batch, and gradients flow through them; else they are constant inputs. 16-bit images are computed in float32.

With r = 1 / sqrt(variance + epsilon), n = (x - mean) r and m the mean over a channel, the gradients in training are

    dx = scale r (dy - m(dy) - n m(dy n)),    dscale = sum(dy n),    doffset = sum(dy)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import constant
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Native
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.normalization import batch_norm_launches
from aioexec.ops.normalization.batch_norm_launches import channel_axis
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]

# Shapes


def _uses_given(attrs: Attrs) -> bool:
    """Return whether the mean and variance inputs affect the result."""
    return not attrs["is_training"] or attrs["exponential_avg_factor"] != 1.0


def _merge_channels(attrs: Attrs, images: Sequence[Dims], vectors: Sequence[Dims]) -> tuple[Dims, Dims]:
    """Merge the shapes of images (the first is named in errors) and of vectors with one value per channel."""
    rank = len(attrs["data_format"])
    axis = channel_axis(attrs, rank)
    channels: Dims = (None,)
    for image in images:
        known = shapes.with_rank(image, rank)
        assert known is not None
        channels = shapes.merge(channels, (known[axis],))
    for vector in vectors:
        channels = shapes.merge(channels, shapes.with_rank(vector, 1))
    image = shapes.with_rank(images[0], rank)
    assert image is not None
    assert channels is not None
    return image[:axis] + channels + image[axis + 1 :], channels


def _forward_shape(context: ShapeContext) -> Sequence[Dims]:
    vectors = context.inputs[1:] if _uses_given(context.attrs) else context.inputs[1:3]
    for given in context.inputs[3:]:
        shapes.with_rank(given, 1)
    image, channels = _merge_channels(context.attrs, context.inputs[:1], vectors)
    return [image, *[channels] * 4]


def _forward_shape_with_reserve(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule; reserve 3 is device-specific in TensorFlow, here an unused scalar."""
    return [*_forward_shape(context), ()]


def _backward_shape(context: ShapeContext) -> Sequence[Dims]:
    dy, x, *vectors = context.inputs
    image, channels = _merge_channels(context.attrs, (x, dy), vectors[:3])
    return [image, channels, channels, (0,), (0,)]


# Reference kernels, on channels-last images


def _flat(attrs: Attrs, image: Array) -> Array:
    """Return the elements of each channel as a column, in float32."""
    last = np.moveaxis(image, channel_axis(attrs, image.ndim), -1)
    return last.reshape(math.prod(last.shape[:-1]), last.shape[-1]).astype(np.float32)


def _as_image(attrs: Attrs, columns: Array, like: Array) -> Array:
    axis = channel_axis(attrs, like.ndim)
    shape = [*(dim for k, dim in enumerate(like.shape) if k != axis), columns.shape[1]]
    return np.ascontiguousarray(np.moveaxis(columns.reshape(shape), -1, axis)).astype(like.dtype)


def _check_vectors(attrs: Attrs, x: Array, vectors: dict[str, Array]) -> None:
    if x.ndim not in {4, len(attrs["data_format"])}:  # images among volumes are those of depth 1
        raise InvalidArgumentError(f"input must be 4 or 5-dimensional, got shape {list(x.shape)}")
    channels = x.shape[channel_axis(attrs, x.ndim)]
    for name, vector in vectors.items():
        if vector.shape != (channels,):
            raise InvalidArgumentError(
                f"{name} must have the same number of elements as the channels of x, got {list(vector.shape)} and {channels}"
            )


def _rows_of(values: Array) -> int:
    return max(len(values), 1)


def _moments(x: Array) -> tuple[Array, Array]:
    """Return mean and variance of each column."""
    if len(x) == 0:
        return np.zeros(x.shape[1], np.float32), np.zeros(x.shape[1], np.float32)
    mean, variance = (each(x, axis=0, dtype=np.float64) for each in (np.mean, np.var))
    return np.asarray(mean, np.float32), np.asarray(variance, np.float32)


def _forward_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    epsilon, factor = np.float32(attrs["epsilon"]), np.float32(attrs["exponential_avg_factor"])
    dummies = len(context.output_dtypes) - 5
    vector_dtype = context.output_dtypes[1].numpy

    def reported(x: Array, mean: Array, variance: Array, old: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return the running averages; the batch variance enters with Bessel's correction."""
        if len(x) == 0:
            return np.full_like(mean, np.nan), np.full_like(mean, np.nan)
        unbiased = variance * np.float32(len(x) / max(len(x) - 1, 1))
        if factor == 1.0:
            return mean, unbiased
        keep = np.float32(1) - factor
        return keep * old[0] + factor * mean, keep * old[1] + factor * unbiased

    def compute(x: Array, scale: Array, offset: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        vectors = {"scale": scale, "offset": offset}
        if _uses_given(attrs):
            vectors |= {"mean": mean, "variance": variance}
        _check_vectors(attrs, x, vectors)
        if mean.ndim != 1 or variance.ndim != 1:
            raise InvalidArgumentError(
                f"mean and variance must be 1-dimensional, got {list(mean.shape)} and {list(variance.shape)}"
            )
        seen = _flat(attrs, x)
        given = mean.astype(np.float32), variance.astype(np.float32)
        if attrs["is_training"]:
            used = _moments(seen)
            shown = reported(seen, *used, given)
        else:
            used = shown = given
        factors = scale.astype(np.float32) / np.sqrt(used[1] + epsilon)
        y = _as_image(attrs, (seen - used[0]) * factors + offset.astype(np.float32), x)
        small = [np.array(each, vector_dtype) for each in (*shown, *used)]
        return (y, *small, *[np.zeros((), vector_dtype)] * dummies)

    return compute


def _backward_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    epsilon = np.float32(attrs["epsilon"])
    small_dtype = context.output_dtypes[1].numpy

    def compute(
        dy: Array, x: Array, scale: Array, mean: Array, variance: Array, *_: Array
    ) -> tuple[Array, ...]:
        if dy.shape != x.shape:
            raise InvalidArgumentError(
                f"x and y_backprop must have same shape, got {list(x.shape)} and {list(dy.shape)}"
            )
        _check_vectors(attrs, x, {"scale": scale, "reserve_space_1": mean, "reserve_space_2": variance})
        above, seen = _flat(attrs, dy), _flat(attrs, x) - mean.astype(np.float32)
        root = np.float32(1) / np.sqrt(variance.astype(np.float32) + epsilon)
        factor = scale.astype(np.float32) * root
        d_offset = np.sum(above, 0, np.float64).astype(np.float32)
        products = np.sum(above * seen, 0, np.float64).astype(np.float32)
        if attrs["is_training"]:
            rows = np.float32(_rows_of(seen))
            centred = above - d_offset / rows - seen * (root * root * products / rows)
            dx = centred * factor
        else:
            dx = above * factor
        empty = np.zeros(0, small_dtype)
        d_scale = (products * root).astype(small_dtype)
        return _as_image(attrs, dx, x), d_scale, d_offset.astype(small_dtype), empty, empty

    return compute


# Gradients


def _backward_op(op_type: str) -> str:
    return op_type.replace("FusedBatchNorm", "FusedBatchNormGrad")


def _forward_gradient(op: Operation, dy: Tensor, *_: Any) -> Sequence[Tensor | None]:
    """Return the gradients of x, scale and offset. The other outputs have none, as in TensorFlow."""
    x, scale = op.inputs[:2]
    is_training = op.attrs["is_training"]
    mean, variance = op.outputs[3:5] if is_training else op.inputs[3:5]
    attrs = {name: op.attrs[name] for name in ("epsilon", "data_format", "is_training")}
    backward = _backward_op(op.type)
    if op.type != "FusedBatchNorm":
        scale = _cast(scale, "float32")
    dx, d_scale, d_offset = apply_tuple_op(backward, dy, x, scale, mean, variance, *op.outputs[5:], **attrs)[
        :3
    ]
    kept = op.inputs[1].dtype.base_dtype
    return dx, _cast(d_scale, kept.name), _cast(d_offset, kept.name), None, None


def _cast(value: Tensor, dtype: str) -> Tensor:
    if value.dtype.base_dtype.name == dtype:
        return value
    return apply_op("Cast", value, DstT=dtype)


class _Channels:
    """Symbolic arithmetic on images and on vectors with one value per channel, shaped so that they broadcast."""

    def __init__(self, attrs: Attrs) -> None:
        rank = len(attrs["data_format"])
        axis = channel_axis(attrs, rank)
        self.shape = constant(np.array([-1 if k == axis else 1 for k in range(rank)], np.int32))
        self.others = constant(np.array([k for k in range(rank) if k != axis], np.int32))

    def spread(self, vector: Tensor) -> Tensor:
        return apply_op("Reshape", vector, self.shape)

    def total(self, image: Tensor) -> Tensor:
        return apply_op("Sum", image, self.others, keep_dims=True)

    def mean(self, image: Tensor) -> Tensor:
        return apply_op("Mean", image, self.others, keep_dims=True)

    def centred(self, image: Tensor, normal: Tensor) -> Tensor:
        """Subtract the contributions of mean and variance from a gradient."""
        return image - self.mean(image) - normal * self.mean(image * normal)


def _backward_gradient(
    op: Operation, ddx: Tensor, dd_scale: Tensor, dd_offset: Tensor, *_: Any
) -> Sequence[Tensor | None]:
    """With a, b, c the gradients of dx, dscale, doffset, and h = b dy - scale r (a m(dy n) + dy m(a n)) the gradient of n."""
    dy, x, scale, mean, variance = (_cast(each, "float32") for each in op.inputs[:5])
    each = _Channels(op.attrs)
    a, b, c = _cast(ddx, "float32"), each.spread(dd_scale), each.spread(dd_offset)
    gamma = each.spread(scale)
    if op.attrs["is_training"]:
        mean_of_x = each.mean(x)
        spread = each.mean(apply_op("SquaredDifference", x, mean_of_x))
        parts = _in_training(each, op.attrs["epsilon"], dy, x, gamma, mean_of_x, spread, (a, b, c))
    else:
        centre, spread = each.spread(mean), each.spread(variance)
        root = apply_op("Rsqrt", spread + op.attrs["epsilon"])
        parts = gamma * root * a + b * (x - centre) * root + c, b * dy * root, each.total(a * dy * root)
    d_dy, dx, d_scale = parts
    flat = apply_op("Reshape", d_scale, constant(np.array([-1], np.int32)))
    given = (op.inputs[0].dtype.name, op.inputs[1].dtype.name)
    rest = [None] * (len(op.inputs) - 3)
    return (_cast(d_dy, given[0]), _cast(dx, given[1]), flat, *rest)


def _in_training(
    each: _Channels,
    epsilon: float,
    dy: Any,
    x: Any,
    gamma: Any,
    mean: Any,
    variance: Any,
    above: tuple[Any, Any, Any],
) -> tuple[Any, Any, Any]:
    a, b, c = above
    root = apply_op("Rsqrt", variance + epsilon)
    normal = (x - mean) * root
    factor = gamma * root
    along_a, along_dy = each.mean(a * normal), each.mean(dy * normal)
    h = b * dy - factor * (a * along_dy + dy * along_a)
    product = each.mean(a * dy) - each.mean(a) * each.mean(dy) - along_a * along_dy
    dx = root * each.centred(h, normal) - factor * root * product * normal
    d_scale = root * each.total(a * each.centred(dy, normal))
    return factor * each.centred(a, normal) + b * normal + c, dx, d_scale


# Rows

_SINGLE = frozenset({"float32"})
_WIDE = "T:type{half|bfloat16|float}; "
_TWO_FORMATS = "data_format:string{NHWC|NCHW}='NHWC'"
_FOUR_FORMATS = "data_format:string{NHWC|NCHW|NDHWC|NCDHW}='NHWC'"
_EPSILON, _MODE = "epsilon:float=9.999999747378752e-05", "is_training:bool=true"

for _version, _vector, _types, _types_of_gradient, _format, _reserve in (
    ("", "T", "T:type{float}; ", "T:type{float}; ", _TWO_FORMATS, ""),
    ("V2", "U", f"{_WIDE}U:type{{float}}; ", f"{_WIDE}U:type{{float}}; ", _TWO_FORMATS, ""),
    (
        *("V3", "U", f"{_WIDE}U:type{{bfloat16|float}}; ", f"{_WIDE}U:type{{float}}; ", _FOUR_FORMATS),
        ", reserve_space_3:U",
    ),
):
    register(
        f"FusedBatchNorm{_version}(x:T, scale:{_vector}, offset:{_vector}, mean:{_vector}, variance:{_vector}) -> (y:T, "
        f"batch_mean:{_vector}, batch_variance:{_vector}, reserve_space_1:{_vector}, reserve_space_2:{_vector}{_reserve}) "
        f"[{_types}{_EPSILON}; exponential_avg_factor:float=1.0; {_format}; {_MODE}]",
        shape=_forward_shape_with_reserve if _reserve else _forward_shape,
        kernel=_forward_kernel,
        gradient=_forward_gradient,
        native=Native(batch_norm_launches.bind_forward, _SINGLE),
    )
    _first, _second = (4, 5) if _reserve else (3, 4)
    register(
        f"FusedBatchNormGrad{_version}(y_backprop:T, x:T, scale:{'float' if _version else 'T'}, reserve_space_1:{_vector}, "
        f"reserve_space_2:{_vector}{_reserve}) -> (x_backprop:T, scale_backprop:{_vector}, offset_backprop:{_vector}, "
        f"reserve_space_{_first}:{_vector}, reserve_space_{_second}:{_vector}) "
        f"[{_types_of_gradient}{_EPSILON}; {_format}; {_MODE}]",
        shape=_backward_shape,
        kernel=_backward_kernel,
        gradient=_backward_gradient,
        native=Native(batch_norm_launches.bind_backward, _SINGLE),
    )
