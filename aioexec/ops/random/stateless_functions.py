"""Functions for stateless random ops: as those of `random_ops`, with a seed tensor of two integers."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.random import stateless as stateless  # registers ops
from aioexec.ops.random.random_ops import real, shape_tensor


def stateless_random_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Draw uniform numbers from [minval, maxval); integers of the full range of their dtype if both limits are None.

    Raises:
        GraphValueError: only one limit is given for an integer dtype.
    """
    wanted = dtypes.as_dtype(dtype)
    if wanted.is_integer and (minval is None) != (maxval is None):
        raise GraphValueError(
            f"For integer dtype {wanted.name}, minval and maxval must be both None or both non-None"
        )
    with get_default_graph().name_scope(name or "stateless_random_uniform") as scope:
        sizes = shape_tensor(shape)
        if wanted.is_integer and minval is None:
            return apply_op("StatelessRandomUniformFullInt", sizes, seed, dtype=wanted, name=scope)
        low = convert_to_tensor(minval, wanted, "min")
        high = convert_to_tensor(1 if maxval is None else maxval, wanted, "max")
        if wanted.is_integer:
            return apply_op("StatelessRandomUniformInt", sizes, seed, low, high, name=scope)
        drawn = apply_op("StatelessRandomUniform", sizes, seed, dtype=wanted)
        scaled = apply_op("Mul", drawn, apply_op("Sub", high, low))
        return apply_op("AddV2", scaled, low, name=scope)


def _scaled(
    op: str, default: str, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any, name: str | None
) -> Tensor:
    wanted = real(dtype, default)
    with get_default_graph().name_scope(name or default) as scope:
        drawn = apply_op(op, shape_tensor(shape), seed, dtype=wanted)
        stretched = apply_op("Mul", drawn, convert_to_tensor(stddev, wanted, "stddev"))
        return apply_op("AddV2", stretched, convert_to_tensor(mean, wanted, "mean"), name=scope)


def stateless_random_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Draw normally distributed numbers."""
    return _scaled("StatelessRandomNormal", "stateless_random_normal", shape, seed, mean, stddev, dtype, name)


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Draw normally distributed numbers within two standard deviations from the mean."""
    return _scaled(
        "StatelessTruncatedNormal", "stateless_truncated_normal", shape, seed, mean, stddev, dtype, name
    )


def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Draw classes [batch, num_samples] for unnormalised log-probabilities [batch, classes]."""
    with get_default_graph().name_scope(name or "stateless_multinomial"):
        wanted = dtypes.as_dtype(output_dtype)
        return apply_op("StatelessMultinomial", logits, num_samples, seed, output_dtype=wanted)


def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """As `stateless_multinomial`, under its newer name."""
    return stateless_multinomial(logits, num_samples, seed, dtype, name or "stateless_categorical")
