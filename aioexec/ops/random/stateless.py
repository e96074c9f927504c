"""Stateless random ops: the numbers depend only on the inputs: a seed, or key and counter.

V1 ops take a seed of two integers; V2 ops take the key and counter derived from it. Both draw what the stateful ops draw at
that position of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference
from aioexec.graph.kernels.random import Distribution, Random, RandomRange
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.random import philox, philox_lanes
from aioexec.ops.random.distributions import gamma_gradient, highest_of
from aioexec.ops.random.random_ops import count_of, draw_of, kernel_of, size_of, sizes_of
from aioexec.shapes import Dims

PHILOX, AUTO = 1, 3
"""Ids of the supported algorithms; AUTO_SELECT means Philox."""

# Positions in streams


def place_of_seed(seed: Array) -> tuple[int, int]:
    """Return key and first counter for a seed.

    Raises:
        InvalidArgumentError: the seed is not two integers.
    """
    if seed.shape != (2,):
        raise InvalidArgumentError(f"seed must have shape [2], not {shown(seed.shape)}")
    return philox.scrambled(int(seed[0]), int(seed[1]))


def place_of_key(key: Array, counter: Array, alg: Array) -> tuple[int, int]:
    """Return key and first counter from the inputs of a V2 op.

    Raises:
        InvalidArgumentError: the algorithm is unknown, or a shape is wrong.
    """
    if key.shape != (1,):
        raise InvalidArgumentError(f"key must have shape [1], not {shown(key.shape)}")
    if alg.ndim or int(alg) not in (PHILOX, AUTO):
        raise InvalidArgumentError(f"Unsupported algorithm id: {alg}")
    if counter.ndim != 1 or len(counter) < 2:
        raise InvalidArgumentError(
            f"counter must be a vector with length at least 2; got shape: {shown(counter.shape)}"
        )
    return int(key[0]), int(counter[0]) | int(counter[1]) << 64


_SEED = "seed:Tseed"
_KEY = "key:uint64, counter:uint64, alg:int32"


def _check_place(context: ShapeContext, first: int, is_seed: bool) -> None:
    if is_seed:
        shapes.merge(context.inputs[first], (2,))
        return
    shapes.merge(context.inputs[first], (1,))
    shapes.with_rank(context.inputs[first + 1], 1)
    shapes.with_rank(context.inputs[first + 2], 0)


def _placed(first: int, is_seed: bool, inputs: Sequence[Array]) -> tuple[tuple[int, int], list[Array]]:
    """Return key and first counter, and the remaining inputs."""
    count = 1 if is_seed else 3
    place = place_of_seed(inputs[first]) if is_seed else place_of_key(*inputs[first : first + 3])
    return place, [*inputs[:first], *inputs[first + count :]]


# Rows: each distribution in both versions

Drawn = Callable[..., Array]
"""(dtype, key, first counter, shape, *parameters) to numbers."""


def _random(distribution: Distribution, is_seed: bool) -> Random:
    def draw(*inputs: Array) -> RandomRange:
        (key, start), (shape, *limits) = _placed(1, is_seed, inputs)
        return draw_of(key, lambda size: start, shape, *limits)

    return Random(distribution, lambda context: draw)


def _gamma(dtype: np.dtype[Any], key: int, start: int, sizes: tuple[int, ...], alpha: Array) -> Array:
    count = _samples(sizes, alpha)
    return philox_lanes.gamma(key, start, alpha.reshape(-1), count).astype(dtype).reshape(sizes)


def _poisson(dtype: np.dtype[Any], key: int, start: int, sizes: tuple[int, ...], rate: Array) -> Array:
    count = _samples(sizes, rate)
    drawn = philox_lanes.poisson(key, start, rate.reshape(-1), count, highest_of(dtype))
    return drawn.astype(dtype).reshape(sizes)


def _samples(sizes: tuple[int, ...], parameter: Array) -> int:
    """Return the number of samples per parameter; the shape of the parameters must be a suffix of the result's."""
    if sizes[len(sizes) - parameter.ndim :] != parameter.shape or len(sizes) < parameter.ndim:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape. {shown(sizes)} does not end with {shown(parameter.shape)}"
        )
    return size_of(sizes[: len(sizes) - parameter.ndim])


def _kernel(draw: Drawn, is_seed: bool) -> Reference:
    def bound(context: KernelContext) -> Compute:
        dtype = context.output_dtypes[0].numpy

        def compute(*inputs: Array) -> Array:
            place, (shape, *parameters) = _placed(1, is_seed, inputs)
            return draw(dtype, *place, sizes_of(shape), *parameters)

        return compute

    return bound


def _shape_rule(is_seed: bool, scalars: int = 0) -> ShapeRule:
    """Shape rule: the shape in input 0; the last `scalars` inputs must be scalars."""

    def rule(context: ShapeContext) -> Sequence[Dims]:
        shapes.with_rank(context.inputs[0], 1)
        _check_place(context, 1, is_seed)
        for dims in context.inputs[len(context.inputs) - scalars :]:
            shapes.with_rank(dims, 0)
        return [context.partial(0)]

    return rule


_REAL = "dtype:type{half|bfloat16|float|double}=float"
_WHOLE = "dtype:type{int32|int64|uint32|uint64}"
_SHAPE = "type{int32|int64}"

_distributions: dict[str, tuple[Distribution, str, str]] = {
    "StatelessRandomUniform": ("Uniform", _REAL, "int32|int64"),
    "StatelessRandomNormal": ("Normal", _REAL, "int32|int64"),
    "StatelessTruncatedNormal": ("TruncatedNormal", _REAL, "int32|int64"),
    "StatelessRandomUniformFullInt": ("FullInt", f"{_WHOLE}=uint64", "int32|int64|uint32|uint64"),
}
for _name, (_distribution, _type, _seeds) in _distributions.items():
    _of_seed, _of_key = _random(_distribution, True), _random(_distribution, False)
    register(
        f"{_name}(shape:T, {_SEED}) -> (output:dtype) [{_type}; T:{_SHAPE}=int32; Tseed:type{{{_seeds}}}=int64]",
        shape=_shape_rule(True),
        kernel=kernel_of(_of_seed),
        random=_of_seed,
        gradient=NOT_DIFFERENTIABLE,
        shape_operands=(0,),
    )
    register(
        f"{_name}V2(shape:Tshape, {_KEY}) -> (output:dtype) [{_type}; Tshape:{_SHAPE}=int32]",
        shape=_shape_rule(False),
        kernel=kernel_of(_of_key),
        random=_of_key,
        gradient=NOT_DIFFERENTIABLE,
        shape_operands=(0,),
    )

_of_seed, _of_key = _random("UniformInt", True), _random("UniformInt", False)
register(
    f"StatelessRandomUniformInt(shape:T, {_SEED}, minval:dtype, maxval:dtype) -> (output:dtype)"
    f" [dtype:type{{int32|int64}}; T:{_SHAPE}; Tseed:type{{int32|int64}}=int64]",
    shape=_shape_rule(True, 2),
    kernel=kernel_of(_of_seed),
    random=_of_seed,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(0,),
)
register(
    f"StatelessRandomUniformIntV2(shape:Tshape, {_KEY}, minval:dtype, maxval:dtype) -> (output:dtype)"
    f" [{_WHOLE}; Tshape:{_SHAPE}=int32]",
    shape=_shape_rule(False, 2),
    kernel=kernel_of(_of_key),
    random=_of_key,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(0,),
)


def _gamma_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    *others, alpha = op.inputs
    return [*(None for _ in others), gamma_gradient(alpha, op.outputs[0], dy)]


register(
    f"StatelessRandomGammaV2(shape:T, {_SEED}, alpha:dtype) -> (output:dtype)"
    f" [dtype:type{{half|float|double}}; T:{_SHAPE}; Tseed:type{{int32|int64}}=int64]",
    shape=_shape_rule(True),
    kernel=_kernel(_gamma, True),
    gradient=_gamma_gradient,
    shape_operands=(0,),
)
register(
    f"StatelessRandomGammaV3(shape:shape_dtype, {_KEY}, alpha:dtype) -> (output:dtype)"
    f" [dtype:type{{half|float|double}}; shape_dtype:{_SHAPE}=int32]",
    shape=_shape_rule(False),
    kernel=_kernel(_gamma, False),
    gradient=_gamma_gradient,
    shape_operands=(0,),
)
register(
    f"StatelessRandomPoisson(shape:T, {_SEED}, lam:Rtype) -> (output:dtype)"
    f" [Rtype:type@38; dtype:type@38; T:{_SHAPE}; Tseed:type{{int32|int64}}=int64]",
    shape=_shape_rule(True),
    kernel=_kernel(_poisson, True),
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(0,),
)

# Classes


def _classes_kernel(context: KernelContext) -> Compute:
    dtype = context.output_dtypes[0].numpy

    def compute(logits: Array, num_samples: Array, seed: Array) -> Array:
        count = count_of(logits, num_samples)
        return philox.classes(*place_of_seed(seed), logits, count).astype(dtype)

    return compute


def _classes_shape(context: ShapeContext) -> Sequence[Dims]:
    logits = shapes.with_rank(context.inputs[0], 2)
    shapes.with_rank(context.inputs[1], 0)
    _check_place(context, 2, True)
    count = context.value(1)
    return [(logits[0] if logits else None, None if count is None or int(count) < 0 else int(count))]


register(
    "StatelessMultinomial(logits:T, num_samples:int32, seed:Tseed) -> (output:output_dtype)"
    " [T:type@12; Tseed:type{int32|int64}=int64; output_dtype:type{int32|int64}=int64]",
    shape=_classes_shape,
    kernel=_classes_kernel,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(1,),
)

# Keys and counters


def _key_counter(seed: Array) -> tuple[Array, Array]:
    key, start = place_of_seed(seed)
    mask = 2**64 - 1
    return np.array([key], np.uint64), np.array([start & mask, start >> 64], np.uint64)


def _seed_only(*outputs: Dims) -> ShapeRule:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        _check_place(context, 0, True)
        return outputs

    return rule


register(
    "StatelessRandomGetKeyCounter(seed:Tseed) -> (key:uint64, counter:uint64) [Tseed:type{int32|int64}=int64]",
    shape=_seed_only((1,), (2,)),
    kernel=lambda context: _key_counter,
    gradient=NOT_DIFFERENTIABLE,
)
register(
    "StatelessRandomGetKeyCounterAlg(seed:Tseed) -> (key:uint64, counter:uint64, alg:int32)"
    " [Tseed:type{int32|int64}=int64]",
    shape=_seed_only((1,), (2,), ()),
    kernel=lambda context: lambda seed: (*_key_counter(seed), np.array(PHILOX, np.int32)),
    gradient=NOT_DIFFERENTIABLE,
)
register(
    "StatelessRandomGetAlg() -> (alg:int32) {stateful}",
    shape=lambda context: [()],
    kernel=lambda context: lambda: np.array(PHILOX, np.int32),
    gradient=NOT_DIFFERENTIABLE,
)
