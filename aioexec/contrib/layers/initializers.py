"""Initializers of `tf.contrib.layers`: random values scaled by the numbers of inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError
from aioexec.graph.node import Tensor
from aioexec.ops.random.random_ops import random_uniform, truncated_normal
from aioexec.ops.state.initializers import fans
from aioexec.shapes import TensorShape

_TRUNCATION = 1.3
"""The variance is divided by what remains of it when values beyond two standard deviations are drawn again, about."""


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = dtypes.float32,
) -> Callable[..., Tensor]:
    """Return an initializer of random values with variance factor / n, where n counts inputs, outputs, or is their mean.

    Args:
        mode: FAN_IN, FAN_OUT or FAN_AVG.
        uniform: whether the distribution is uniform, else it is a truncated normal one.

    Raises:
        GraphTypeError: the dtype is not floating, or the mode unknown; also when it is called with another dtype.
    """
    if not dtypes.as_dtype(dtype).is_floating:
        raise GraphTypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise GraphTypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")

    def initialize(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> Tensor:
        if not dtypes.as_dtype(dtype).is_floating:
            raise GraphTypeError("Cannot create initializer for non-floating point type.")
        dims = [size or 0 for size in TensorShape(shape).as_list()]
        inputs, outputs = fans(dims)
        count = {"FAN_IN": inputs, "FAN_OUT": outputs, "FAN_AVG": (inputs + outputs) / 2.0}[mode]
        if uniform:
            limit = math.sqrt(3.0 * factor / count)
            return random_uniform(dims, -limit, limit, dtype, seed=seed)
        return truncated_normal(dims, 0.0, math.sqrt(_TRUNCATION * factor / count), dtype, seed=seed)

    return initialize


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = dtypes.float32
) -> Callable[..., Tensor]:
    """Return an initializer with variance 2 / (inputs + outputs) (Glorot and Bengio, 2010)."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer

XAVIER = xavier_initializer()
"""The initializer of weights by default."""
