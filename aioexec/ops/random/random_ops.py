"""Random ops with state, their seeds, and dropout.

For given seeds every op generates the numbers of TensorFlow, in each run: see `philox`. A node's stream belongs to its bound
kernel, and thus to the session; each run reserves a range of it. Random ops have no gradient, are never folded or merged, and
have no native form; devices with memory of their own draw from the same place (see `graph.kernels.random`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from aioexec import dtypes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference
from aioexec.graph.kernels.random import Distribution, Random, RandomRange
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import shown
from aioexec.ops.random import philox
from aioexec.ops.random.philox import Array, Stream
from aioexec.shapes import Dims, TensorShape, as_dims, as_size, with_rank

_LARGEST_SIZE: Final = 2**40
_MOST_DIMS: Final = 254  # as in TensorFlow

# Shapes


def given_shape(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.inputs[0], 1)
    return [context.partial(0)]


def given_shape_and_limits(context: ShapeContext) -> Sequence[Dims]:
    with_rank(context.inputs[1], 0)
    with_rank(context.inputs[2], 0)
    return given_shape(context)


def draws_shape(context: ShapeContext) -> Sequence[Dims]:
    logits = with_rank(context.inputs[0], 2)
    with_rank(context.inputs[1], 0)
    count = context.value(1)
    assert logits is not None
    return [(logits[0], None if count is None or int(count) < 0 else int(count))]


# Kernels


def stream_of(context: KernelContext) -> Stream:
    return Stream(context.attrs["seed"], context.attrs["seed2"])


def sizes_of(shape: Array) -> tuple[int, ...]:
    """Return a shape operand as a tuple.

    Raises:
        InvalidArgumentError: the operand is not a vector of non-negative integers.
    """
    if shape.ndim != 1:
        raise InvalidArgumentError(f"shape must be a vector of integers, got shape {shape.shape}")
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise InvalidArgumentError(f"Dimension {min(sizes)} must be >= 0 in shape {sizes}")
    return sizes


def size_of(sizes: tuple[int, ...]) -> int:
    """Return the number of elements of a shape.

    Raises:
        InvalidArgumentError: the number exceeds that of any array.
    """
    size = math.prod(sizes) if len(sizes) <= _MOST_DIMS else _LARGEST_SIZE + 1
    if size > _LARGEST_SIZE:
        raise InvalidArgumentError(f"shape {shown(sizes)} has more elements than can be drawn")
    return size


def limits_of(minval: Array, maxval: Array, size: int) -> tuple[int, int] | None:
    """Return the limits of random integers; None if there are no elements to draw.

    Raises:
        InvalidArgumentError: the limits are not scalars, or the range is empty.
    """
    for name, limit in (("minval", minval), ("maxval", maxval)):
        if limit.ndim:
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shown(limit.shape)}")
    if size == 0:
        return None
    low, high = int(minval), int(maxval)
    if low >= high:
        raise InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")
    return low, high


def kernel_of(random: Random) -> Reference:
    """The reference kernel of a random op."""

    def kernel(context: KernelContext) -> Compute:
        place, dtype = random.place(context), context.output_dtypes[0].numpy
        return lambda *inputs: philox.drawn(random.distribution, dtype, place(*inputs))

    return kernel


def draw_of(
    key: int,
    reserve: Callable[[int], int],
    shape: Array,
    minval: Array | None = None,
    maxval: Array | None = None,
) -> RandomRange:
    """What is drawn for the inputs of an op; `reserve` returns the first counter for so many numbers.

    Raises:
        InvalidArgumentError: the inputs do not fit the op.
    """
    sizes = sizes_of(shape)
    size = size_of(sizes)
    limits = None if minval is None or maxval is None else limits_of(minval, maxval, size)
    low, high = limits or (0, 0)
    return RandomRange(key, reserve(size), sizes, low, high - low)


def _place_in_stream(context: KernelContext) -> Callable[..., RandomRange]:
    stream = stream_of(context)
    return functools.partial(draw_of, stream.key, stream.reserve_for)


def _shuffle_kernel(context: KernelContext) -> Compute:
    stream = stream_of(context)

    def compute(value: Array) -> Array:
        if value.ndim == 0 or value.size <= 1 or len(value) <= 1:
            return value
        start = stream.reserve(-(-(len(value) - 1) // 4))
        return value[philox.permutation(stream.key, start, len(value))]

    return compute


def _multinomial_kernel(context: KernelContext) -> Compute:
    stream, dtype = stream_of(context), context.attrs["output_dtype"].numpy

    def compute(logits: Array, num_samples: Array) -> Array:
        count = count_of(logits, num_samples)
        start = stream.reserve(philox.reserved_for_classes(len(logits), count))
        return philox.classes(stream.key, start, logits, count).astype(dtype)

    return compute


def count_of(logits: Array, num_samples: Array) -> int:
    """Return the number of classes to draw per row.

    Raises:
        InvalidArgumentError: the logits or the number are invalid.
    """
    if logits.ndim != 2 or num_samples.ndim or num_samples < 0 or logits.shape[1] == 0:
        raise InvalidArgumentError(
            "expected logits of shape [batch, classes >= 1] and num_samples >= 0, "
            f"got {logits.shape} and {num_samples}"
        )
    return int(num_samples)


# Rows

_SEEDS = "seed:int=0; seed2:int=0"
_REAL = "dtype:type{half|bfloat16|float|double}; T:type{int32|int64}"

_distributions: dict[str, Distribution] = {
    "RandomUniform": "Uniform",
    "RandomStandardNormal": "Normal",
    "TruncatedNormal": "TruncatedNormal",
}
for _name, _distribution in _distributions.items():
    _random = Random(_distribution, _place_in_stream)
    register(
        f"{_name}(shape:T) -> (output:dtype) [{_SEEDS}; {_REAL}] {{stateful}}",
        shape=given_shape,
        kernel=kernel_of(_random),
        random=_random,
        gradient=NOT_DIFFERENTIABLE,
        shape_operands=(0,),
    )

_random = Random("UniformInt", _place_in_stream)
register(
    "RandomUniformInt(shape:T, minval:Tout, maxval:Tout) -> (output:Tout) "
    f"[{_SEEDS}; Tout:type{{int32|int64}}; T:type{{int32|int64}}] {{stateful}}",
    shape=given_shape_and_limits,
    kernel=kernel_of(_random),
    random=_random,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(0,),
)
register(
    f"RandomShuffle(value:T) -> (output:T) [{_SEEDS}; T:type] {{stateful}}",
    shape=lambda context: [context.inputs[0]],
    kernel=_shuffle_kernel,
    gradient=NOT_DIFFERENTIABLE,
)
register(
    "Multinomial(logits:T, num_samples:int32) -> (output:output_dtype) "
    f"[{_SEEDS}; T:type@12; output_dtype:type{{int32|int64}}=int64] {{stateful}}",
    shape=draws_shape,
    kernel=_multinomial_kernel,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(1,),
)

# Seeds

DEFAULT_GRAPH_SEED: Final = 87654321
_LARGEST_SEED = 2**31 - 1
_SEEDS_GIVEN = "_seeds_given"
"""The collection that counts the ops seeded by `set_random_seed` alone: the count is their second seed."""


def set_random_seed(seed: int | None) -> None:
    """Set the seed of the default graph: later random ops without a seed of their own derive theirs from it."""
    get_default_graph().seed = seed


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """Return the two seeds of a random op: of the graph and of the op; None, None if neither is set."""
    graph = get_default_graph()
    if graph.seed is None:
        if op_seed is None:
            return None, None
        seeds = DEFAULT_GRAPH_SEED, op_seed % _LARGEST_SEED
    else:
        if op_seed is None:
            given = graph.get_collection_ref(_SEEDS_GIVEN)
            given.append(op_seed)
            op_seed = len(given) - 1
        seeds = graph.seed % _LARGEST_SEED, op_seed % _LARGEST_SEED
    return seeds if seeds != (0, 0) else (0, _LARGEST_SEED)


# Public functions


def shape_tensor(shape: Any) -> Tensor:
    if isinstance(shape, TensorShape):
        shape = shape.as_list()
    if isinstance(shape, list | tuple) and not any(isinstance(size, Tensor) for size in shape):
        sizes = [as_size(size) for size in shape]
        if None in sizes:
            raise GraphValueError(f"shape must be fully defined, got {shape!r}")
        return convert_to_tensor(sizes, dtypes.int32, "shape")
    return convert_to_tensor(shape, None, "shape", preferred_dtype=dtypes.int32)


def real(dtype: Any, op: str) -> dtypes.DType:
    wanted: dtypes.DType = dtypes.as_dtype(dtype)
    if not wanted.is_floating:
        raise GraphValueError(f"{op}: expected a floating dtype, got {wanted.name}")
    return wanted


_UNIFORM_DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """RandomRange uniform numbers from [minval, maxval); maxval is required for integers, and 1 by default for floats.

    Raises:
        GraphValueError: an integer dtype without maxval, or one that is not supported.
    """
    dtype = dtypes.as_dtype(dtype)
    if dtype.name not in _UNIFORM_DTYPES:
        raise GraphValueError(f"random_uniform: invalid dtype {dtype.name}")
    if maxval is None:
        if dtype.is_integer:
            raise GraphValueError(f"random_uniform: maxval must be specified for integer dtype {dtype.name}")
        maxval = 1
    starts_at_0 = isinstance(minval, int) and minval == 0
    ends_at_1 = isinstance(maxval, int) and maxval == 1
    with get_default_graph().name_scope(name or "random_uniform") as scope:
        shape = shape_tensor(shape)
        if dtype.is_integer or not (starts_at_0 and ends_at_1):
            minval, maxval = convert_to_tensor(minval, dtype, "min"), convert_to_tensor(maxval, dtype, "max")
        one, other = get_seed(seed)
        if dtype.is_integer:
            return apply_op("RandomUniformInt", shape, minval, maxval, seed=one, seed2=other, name=scope)
        drawn = apply_op("RandomUniform", shape, dtype=dtype, seed=one, seed2=other)
        if starts_at_0 and ends_at_1:
            return drawn
        if starts_at_0:
            return apply_op("Mul", drawn, maxval)
        scaled = apply_op("Mul", drawn, apply_op("Sub", maxval, minval, name="sub"), name="mul")
        return apply_op("AddV2", scaled, minval, name=scope)


def _scaled(
    op: str, default: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: Any, name: str | None
) -> Tensor:
    """RandomRange from a standard distribution, scale and shift."""
    dtype = real(dtype, default)
    with get_default_graph().name_scope(name or default) as scope:
        shape = shape_tensor(shape)
        mean, stddev = convert_to_tensor(mean, dtype, "mean"), convert_to_tensor(stddev, dtype, "stddev")
        one, other = get_seed(seed)
        drawn = apply_op(op, shape, dtype=dtype, seed=one, seed2=other)
        return apply_op("AddV2", apply_op("Mul", drawn, stddev, name="mul"), mean, name=scope)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """RandomRange normally distributed numbers."""
    return _scaled("RandomStandardNormal", "random_normal", shape, mean, stddev, dtype, seed, name)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """RandomRange normally distributed numbers within two standard deviations from the mean."""
    return _scaled("TruncatedNormal", "truncated_normal", shape, mean, stddev, dtype, seed, name)


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Shuffle the slices of `value` along its first dimension."""
    one, other = get_seed(seed)
    return apply_op("RandomShuffle", value, seed=one, seed2=other, name=name)


def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = None
) -> Tensor:
    """RandomRange classes [batch, num_samples] for unnormalised log-probabilities [batch, classes]."""
    with get_default_graph().name_scope(name or "multinomial"):
        logits = convert_to_tensor(logits, name="logits")
        one, other = get_seed(seed)
        wanted = None if output_dtype is None else dtypes.as_dtype(output_dtype)
        return apply_op("Multinomial", logits, num_samples, seed=one, seed2=other, output_dtype=wanted)


def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """As `multinomial`, under its newer name."""
    with get_default_graph().name_scope(name or "categorical"):
        return multinomial(logits, num_samples, seed, output_dtype=dtype)


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Set each element to 0 with probability `rate` (1 - `keep_prob`), and scale the others by 1 / (1 - rate).

    Args:
        noise_shape: shape of the random decisions, broadcast to `x`: along dimensions of 1, elements are kept or dropped
            together.

    Raises:
        GraphValueError: neither or both of keep_prob and rate are given, or a rate outside of [0, 1).
    """
    if (keep_prob is None) == (rate is None):
        raise GraphValueError("dropout: give either rate or keep_prob")
    rate = 1 - keep_prob if rate is None else rate
    if isinstance(rate, int | float) and not 0 <= rate < 1:
        raise GraphValueError(f"dropout: rate must be in [0, 1), got {rate!r}")
    with get_default_graph().name_scope(name or "dropout"):
        value = convert_to_tensor(x, name="x")
        dtype = real(value.dtype.base_dtype, "dropout")
        if isinstance(rate, int | float) and rate == 0:
            return value
        rate = convert_to_tensor(rate, dtype, "rate")
        drawn = random_uniform(_noise_shape(value, noise_shape), dtype=dtype, seed=seed)
        scaled = apply_op("Mul", value, apply_op("RealDiv", 1, apply_op("Sub", 1, rate)))
        kept = apply_op("SelectV2", apply_op("GreaterEqual", drawn, rate), scaled, constant(0, dtype))
        kept.set_shape(value.dims)
        return kept


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    """Return the shape of the random decisions: unknown dimensions of `noise_shape` are those of `x`."""
    if noise_shape is None:
        known = x.dims is not None and None not in x.dims
        return (
            constant([int(dim or 0) for dim in x.dims or ()], dtypes.int32, name="Shape")
            if known
            else apply_op("Shape", x)
        )
    if isinstance(noise_shape, Tensor):
        return noise_shape
    dims = as_dims(noise_shape)
    if dims is not None and None in dims and x.dims is not None and len(dims) == len(x.dims):
        dims = tuple(own if dim is None else dim for dim, own in zip(dims, x.dims, strict=True))
    return TensorShape(dims)
