"""Initializers under the names of `tf.keras.initializers`; three have other defaults than those of `tf.initializers`."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.ops.state import initializers
from aioexec.ops.state.initializers import (
    Constant as Constant,
    GlorotNormal,
    GlorotUniform,
    Identity as Identity,
    Initializer as Initializer,
    Ones as Ones,
    Orthogonal as Orthogonal,
    VarianceScaling as VarianceScaling,
    Zeros as Zeros,
    he_normal as he_normal,
    he_uniform as he_uniform,
    lecun_normal as lecun_normal,
    lecun_uniform as lecun_uniform,
)


class RandomNormal(initializers.RandomNormal):
    """Normal, with a standard deviation of 0.05 by default."""

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 0.05, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


class RandomUniform(initializers.RandomUniform):
    """Uniform in [minval, maxval), by default in [-0.05, 0.05)."""

    def __init__(
        self, minval: Any = -0.05, maxval: Any = 0.05, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        super().__init__(minval, maxval, seed, dtype)


class TruncatedNormal(initializers.TruncatedNormal):
    """Normal within two standard deviations of the mean; the standard deviation is 0.05 by default."""

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 0.05, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


constant = Constant
glorot_normal = GlorotNormal
glorot_uniform = GlorotUniform
identity = Identity
normal = random_normal = RandomNormal
ones = Ones
orthogonal = Orthogonal
truncated_normal = TruncatedNormal
uniform = random_uniform = RandomUniform
zeros = Zeros
