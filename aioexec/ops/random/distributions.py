"""Random ops that use rejection sampling: gamma, Poisson, and truncated normal with parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.random import philox_lanes
from aioexec.ops.random.philox_truncated import Batches, batches_of, reserved_for_truncated
from aioexec.ops.random.random_ops import get_seed, shape_tensor, size_of, sizes_of, stream_of
from aioexec.shapes import Dims

_SEEDS = "seed:int=0; seed2:int=0"


def _shape_and_parameters(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: a sample of the given shape for each parameter."""
    shapes.with_rank(context.inputs[0], 1)
    return [shapes.concatenate(context.partial(0), context.inputs[1])]


def highest_of(dtype: np.dtype[Any]) -> float:
    """Return the largest count that a dtype can hold."""
    if dtype.kind in "iu":
        return float(np.iinfo(dtype).max)
    return float(np.finfo(dtype).max)


def gamma_gradient(alpha: Tensor, sample: Tensor, dy: Tensor) -> Tensor:
    """Return the gradient with respect to alpha by implicit reparameterisation."""
    slope = apply_op("RandomGammaGrad", alpha, sample)
    extra = apply_op("Sub", apply_op("Rank", sample), apply_op("Rank", alpha))
    zero, one = (convert_to_tensor(number, dtypes.int32) for number in (0, 1))
    axes = apply_op("Range", zero, extra, one)
    return apply_op("Sum", apply_op("Mul", dy, slope), axes)


def _gamma_kernel(context: KernelContext) -> Compute:
    stream = stream_of(context)

    def compute(shape: Array, alpha: Array) -> Array:
        sizes = sizes_of(shape)
        count = size_of(sizes)
        start = stream.reserve_for(size_of((*sizes, *alpha.shape)))
        drawn = philox_lanes.gamma(stream.key, start, alpha.reshape(-1), count)
        return drawn.astype(alpha.dtype).reshape((*sizes, *alpha.shape))

    return compute


def _poisson_kernel(context: KernelContext) -> Compute:
    stream, dtype = stream_of(context), context.output_dtypes[0].numpy

    def compute(shape: Array, rate: Array) -> Array:
        sizes = sizes_of(shape)
        count = size_of(sizes)
        start = stream.reserve_for(size_of((*sizes, *rate.shape)))
        drawn = philox_lanes.poisson(stream.key, start, rate.reshape(-1), count, highest_of(dtype))
        return drawn.astype(dtype).reshape((*sizes, *rate.shape))

    return compute


register(
    f"RandomGamma(shape:S, alpha:T) -> (output:T) [{_SEEDS}; S:type{{int32|int64}}; T:type{{half|float|double}}]"
    " {stateful}",
    shape=_shape_and_parameters,
    kernel=_gamma_kernel,
    gradient=lambda op, dy: [None, gamma_gradient(op.inputs[1], op.outputs[0], dy)],
    shape_operands=(0,),
)
register(
    f"RandomPoisson(shape:S, rate:dtype) -> (output:dtype) [{_SEEDS}; S:type{{int32|int64}};"
    " dtype:type{half|float|double}] {stateful}",
    shape=_shape_and_parameters,
    kernel=_poisson_kernel,
    gradient=undefined_gradient,
    shape_operands=(0,),
)
register(
    f"RandomPoissonV2(shape:S, rate:R) -> (output:dtype) [{_SEEDS}; S:type{{int32|int64}};"
    " R:type@38=double; dtype:type@38=int64] {stateful}",
    shape=_shape_and_parameters,
    kernel=_poisson_kernel,
    gradient=undefined_gradient,
    shape_operands=(0,),
)

# Truncated normal


def _truncated_kernel(context: KernelContext) -> Compute:
    stream, dtype = stream_of(context), context.attrs["dtype"].numpy

    def compute(shape: Array, *parameters: Array) -> Array:
        sizes = sizes_of(shape)
        if not sizes:
            raise InvalidArgumentError(f"Shape vector must not be empty, got shape {shown(sizes)}")
        _check_lengths(parameters, sizes[0])
        total, same = size_of(sizes), all(parameter.size == 1 for parameter in parameters)
        result = np.empty(total, dtype)  # allocated first: too large a request fails before drawing
        if total or not same:
            _check_values(*(parameter.reshape(-1) for parameter in parameters))
        if total == 0:
            return np.zeros(sizes, dtype)
        count, size = batches_of(sizes, same)
        rows = zip(*(np.broadcast_to(parameter.reshape(-1), count) for parameter in parameters), strict=True)
        start = stream.reserve(reserved_for_truncated(count, size))
        batches = Batches(stream.key, start, dtype)
        for k, row in enumerate(rows):
            result[k * size : (k + 1) * size] = batches.draw(min(size, total - k * size), *row)
        return result.reshape(sizes)

    return compute


def _check_lengths(parameters: Sequence[Array], given: int) -> None:
    """Raise InvalidArgumentError if the number of values of a parameter is neither 1 nor that of the batches."""
    for name, parameter in zip(("means", "stdevs", "minvals", "maxvals"), parameters, strict=True):
        if parameter.ndim > 1 or parameter.size not in (1, given):
            raise InvalidArgumentError(
                f"Input {name} should have length 1 or shape[0], {given}, got shape: {shown(parameter.shape)}"
            )


def _check_values(_mean: Array, deviation: Array, least: Array, greatest: Array) -> None:
    wide_enough = np.finfo(np.float64 if deviation.dtype == np.float64 else np.float32).tiny
    if not (
        (deviation >= wide_enough) & (least < greatest) & (np.isfinite(least) | np.isfinite(greatest))
    ).all():
        raise InvalidArgumentError(
            "Invalid parameters: need stdevs > 0, minvals < maxvals, one of them finite"
        )


def _truncated_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[0], 1)
    for dims in context.inputs[1:]:
        shapes.with_rank_at_most(dims, 1)
    return [context.partial(0)]


register(
    "ParameterizedTruncatedNormal(shape:T, means:dtype, stdevs:dtype, minvals:dtype, maxvals:dtype) -> (output:dtype)"
    f" [{_SEEDS}; dtype:type{{half|bfloat16|float|double}}; T:type{{int32|int64}}] {{stateful}}",
    shape=_truncated_shape,
    kernel=_truncated_kernel,
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(0,),
)

# Functions


def random_gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw samples of the given shape for each pair of alpha (shape parameter) and beta (inverse scale)."""
    with get_default_graph().name_scope(name or "random_gamma"):
        sizes = shape_tensor(shape)
        alphas = convert_to_tensor(alpha, dtype, "alpha")
        rates = convert_to_tensor(1 if beta is None else beta, dtype, "beta")
        wide = apply_op("AddV2", alphas, apply_op("ZerosLike", rates))
        one, other = get_seed(seed)
        drawn = apply_op("RandomGamma", sizes, wide, seed=one, seed2=other)
        smallest = convert_to_tensor(np.finfo(drawn.dtype.numpy).tiny, drawn.dtype)
        return apply_op("Maximum", smallest, apply_op("RealDiv", drawn, rates))


def random_poisson(
    lam: Any, shape: Any, dtype: Any = dtypes.float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Draw samples of the given shape for each rate `lam`."""
    with get_default_graph().name_scope(name or "random_poisson"):
        wanted = dtypes.as_dtype(dtype)
        one, other = get_seed(seed)
        rate = convert_to_tensor(lam, name="lam")
        return apply_op("RandomPoissonV2", shape_tensor(shape), rate, seed=one, seed2=other, dtype=wanted)


def parameterized_truncated_normal(
    shape: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw normally distributed numbers between limits; the parameters may differ along the first dimension."""
    wanted = dtypes.as_dtype(dtype)
    if not wanted.is_floating:
        raise GraphValueError(f"parameterized_truncated_normal: expected a floating dtype, got {wanted.name}")
    with get_default_graph().name_scope(name or "parameterized_truncated_normal"):
        parameters = [convert_to_tensor(each, wanted) for each in (means, stddevs, minvals, maxvals)]
        one, other = get_seed(seed)
        return apply_op(
            "ParameterizedTruncatedNormal", shape_tensor(shape), *parameters, seed=one, seed2=other
        )
