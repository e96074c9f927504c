"""Distributions of numbers around a location: normal, Laplace and Student's t; and the uniform distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aioexec.distributions.distribution import FULLY_REPARAMETERIZED, ScalarDistribution, of_sample_shape
from aioexec.distributions.divergences import RegisterKL
from aioexec.distributions.special import (
    log_laplace_cdf,
    log_normal_cdf,
    new_seed,
    normal_cdf,
    not_a_number,
)
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies, name_scope
from aioexec.ops.array.filling import fill, ones, ones_like, zeros_like
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import broadcast_dynamic_shape, shape
from aioexec.ops.control_flow.checks import assert_less, assert_positive, assert_same_float_dtype
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.math.comparison import logical_or, where_v2
from aioexec.ops.math.special_functions import lbeta
from aioexec.ops.random.distributions import random_gamma
from aioexec.ops.random.random_ops import random_normal, random_uniform


class _Located(ScalarDistribution):
    """A distribution of loc + scale · z, for z of a standard distribution.

    Raises:
        GraphValueError: the dtypes of location and scale differ.
    """

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool, allow_nan_stats: bool, name: str, parameters: Any
    ) -> None:
        with name_scope(name, values=[loc, scale]) as scope:
            with control_dependencies([assert_positive(scale)] if validate_args else []):
                self._loc: Tensor = identity(loc, name="loc")
                self._scale: Tensor = identity(scale, name="scale")
            assert_same_float_dtype([self._loc, self._scale])
        parents = [self._loc, self._scale]
        dtype = self._scale.dtype
        super().__init__(
            dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, scope
        )

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Tensor]:
        return of_sample_shape(sample_shape, "loc", "scale")

    @property
    def loc(self) -> Tensor:
        """The location."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """The scale."""
        return self._scale

    def _batch_parameters(self) -> list[Tensor]:
        return [self._loc, self._scale]

    def _z(self, x: Tensor) -> Tensor:
        with name_scope("standardize", values=[x]):
            return (x - self._loc) / self._scale

    def _mean(self) -> Tensor:
        return self._loc + zeros_like(self._scale)

    def _mode(self) -> Tensor:
        return self._mean()


class Normal(_Located):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    Args:
        loc, scale: floats of one dtype, whose shapes broadcast to that of the batch.
    """

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Normal",
    ) -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, dict(locals()))

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        drawn = random_normal(self._drawn_shape(n), 0.0, 1.0, self._loc.dtype, seed)
        return drawn * self._scale + self._loc

    def _log_prob(self, value: Tensor) -> Tensor:
        density = -0.5 * apply_op("Square", self._z(value))
        return density - (0.5 * math.log(2.0 * math.pi) + apply_op("Log", self._scale))

    def _log_cdf(self, value: Tensor) -> Tensor:
        return log_normal_cdf(self._z(value))

    def _cdf(self, value: Tensor) -> Tensor:
        return normal_cdf(self._z(value))

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return log_normal_cdf(-self._z(value))

    def _survival_function(self, value: Tensor) -> Tensor:
        return normal_cdf(-self._z(value))

    def _quantile(self, value: Tensor) -> Tensor:
        return apply_op("Ndtri", value) * self._scale + self._loc

    def _entropy(self) -> Tensor:
        scale = self._scale * ones_like(self._loc)
        return 0.5 * math.log(2.0 * math.pi * math.e) + apply_op("Log", scale)

    def _stddev(self) -> Tensor:
        return self._scale * ones_like(self._loc)


@RegisterKL(Normal, Normal)
def _divergence_of_normals(a: Normal, b: Normal, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_normal_normal", [a.loc, b.loc]):
        spread = apply_op("Square", b.scale)
        ratio = apply_op("Square", a.scale) / spread
        distance = apply_op("SquaredDifference", a.loc, b.loc)
        return distance / (2.0 * spread) + 0.5 * (ratio - 1.0 - apply_op("Log", ratio))


class Laplace(_Located):
    """The Laplace distribution, whose density falls exponentially on both sides of `loc`.

    Args:
        loc, scale: floats of one dtype, whose shapes broadcast to that of the batch.
    """

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Laplace",
    ) -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, name, dict(locals()))

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        kind = self.dtype.numpy.type
        least = np.nextafter(kind(-1.0), kind(0.0))
        drawn = random_uniform(self._drawn_shape(n), least, 1.0, self.dtype, seed)
        distance = apply_op("Log1p", -apply_op("Abs", drawn))
        return self._loc - self._scale * apply_op("Sign", drawn) * distance

    def _log_prob(self, value: Tensor) -> Tensor:
        return -apply_op("Abs", self._z(value)) - (math.log(2.0) + apply_op("Log", self._scale))

    def _log_cdf(self, value: Tensor) -> Tensor:
        return log_laplace_cdf(self._z(value))

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return log_laplace_cdf(-self._z(value))

    def _cdf(self, value: Tensor) -> Tensor:
        z = self._z(value)
        return 0.5 + 0.5 * apply_op("Sign", z) * (1.0 - apply_op("Exp", -apply_op("Abs", z)))

    def _entropy(self) -> Tensor:
        scale = self._scale + zeros_like(self._loc)
        return math.log(2.0) + 1.0 + apply_op("Log", scale)

    def _stddev(self) -> Tensor:
        return math.sqrt(2.0) * self._scale + zeros_like(self._loc)


class StudentT(ScalarDistribution):
    """Student's t distribution with `df` degrees of freedom, around `loc`, times `scale`.

    Args:
        df, loc, scale: floats of one dtype, whose shapes broadcast to that of the batch.
    """

    def __init__(
        self,
        df: Any,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[df, loc, scale]) as scope:
            with control_dependencies([assert_positive(df)] if validate_args else []):
                self._df: Tensor = identity(df, name="df")
                self._loc: Tensor = identity(loc, name="loc")
                self._scale: Tensor = identity(scale, name="scale")
            assert_same_float_dtype([self._df, self._loc, self._scale])
        parents = self._batch_parameters()
        dtype = self._scale.dtype
        super().__init__(
            dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, scope
        )

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Tensor]:
        return of_sample_shape(sample_shape, "df", "loc", "scale")

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self._df

    @property
    def loc(self) -> Tensor:
        """The location."""
        return self._loc

    @property
    def scale(self) -> Tensor:
        """The scale."""
        return self._scale

    def _batch_parameters(self) -> list[Tensor]:
        return [self._df, self._loc, self._scale]

    def _ones(self) -> Tensor:
        return ones(self.batch_shape_tensor(), self.dtype)

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        normal = random_normal(self._drawn_shape(n), dtype=self.dtype, seed=seed)
        df = self._df * self._ones()
        gamma = random_gamma([n], 0.5 * df, 0.5, self.dtype, new_seed(seed, "student_t"))
        return normal * apply_op("Rsqrt", gamma / df) * self._scale + self._loc

    def _log_prob(self, value: Tensor) -> Tensor:
        y = (value - self._loc) / self._scale
        density = -0.5 * (self._df + 1.0) * apply_op("Log1p", apply_op("Square", y) / self._df)
        width = apply_op("Log", apply_op("Abs", self._scale)) + 0.5 * apply_op("Log", self._df)
        gammas = apply_op("Lgamma", 0.5 * self._df) - apply_op("Lgamma", 0.5 * (self._df + 1.0))
        return density - (width + 0.5 * math.log(math.pi) + gammas)

    def _cdf(self, value: Tensor) -> Tensor:
        y = (value - self._loc) / apply_op("Abs", self._scale)
        x = self._df / (apply_op("Square", y) + self._df)
        half = constant(0.5, self.dtype)
        dims = broadcast_dynamic_shape(shape(x), shape(self._df))
        arguments = [apply_op("BroadcastTo", each, dims) for each in (0.5 * self._df, half, x)]
        tail = 0.5 * apply_op("Betainc", *arguments)
        return where_v2(y < 0.0, tail, 1.0 - tail)

    def _entropy(self) -> Tensor:
        one = self._ones()[..., None]
        both = concat([one * self._df[..., None], one], -1) / 2.0
        width = apply_op("Log", apply_op("Abs", self._scale)) + 0.5 * apply_op("Log", self._df)
        more = 0.5 * (self._df + 1.0)
        slopes = apply_op("Digamma", more) - apply_op("Digamma", 0.5 * self._df)
        return width + lbeta(both) + more * slopes

    def _mean(self) -> Tensor:
        return self._where_defined(self._loc * self._ones(), "mean")

    def _variance(self) -> Tensor:
        rest = where_v2(self._df > 2.0, self._df - 2.0, ones_like(self._df))
        variance = self._ones() * apply_op("Square", self._scale) * self._df / rest
        infinite = fill(self.batch_shape_tensor(), constant(np.inf, self.dtype))
        return self._where_defined(where_v2(self._df > 2.0 * self._ones(), variance, infinite), "variance")

    def _where_defined(self, value: Tensor, what: str) -> Tensor:
        """The value for more than one degree of freedom, else NaN or an error in the run."""
        if self.allow_nan_stats:
            missing = not_a_number(self.batch_shape_tensor(), self.dtype)
            return where_v2(self._df > self._ones(), value, missing)
        message = f"{what} not defined for components of df <= 1"
        check = assert_less(constant(1.0, self.dtype), self._df, message=message)
        checked: Tensor = with_dependencies([check], value)
        return checked

    def _mode(self) -> Tensor:
        mode: Tensor = identity(self._loc)
        return mode


class Uniform(ScalarDistribution):
    """The uniform distribution over [low, high).

    Args:
        low, high: floats of one dtype, whose shapes broadcast to that of the batch.
    """

    def __init__(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[low, high]) as scope:
            message = "uniform not defined when low >= high."
            with control_dependencies([assert_less(low, high, message=message)] if validate_args else []):
                self._low: Tensor = identity(low, name="low")
                self._high: Tensor = identity(high, name="high")
            assert_same_float_dtype([self._low, self._high])
        parents = [self._low, self._high]
        dtype = self._low.dtype
        super().__init__(
            dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, scope
        )

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Tensor]:
        return of_sample_shape(sample_shape, "low", "high")

    @property
    def low(self) -> Tensor:
        """The lower bound, included."""
        return self._low

    @property
    def high(self) -> Tensor:
        """The upper bound, excluded."""
        return self._high

    def range(self, name: str = "range") -> Tensor:
        """Return high - low."""
        with self._scope(name):
            return self._high - self._low

    def _batch_parameters(self) -> list[Tensor]:
        return [self._low, self._high]

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        drawn = random_uniform(self._drawn_shape(n), dtype=self.dtype, seed=seed)
        return self._low + self.range() * drawn

    def _prob(self, value: Tensor) -> Tensor:
        wide = value * ones(self.batch_shape_tensor(), value.dtype)
        is_outside = logical_or(wide < self._low, wide >= self._high)
        density = where_v2(is_outside, zeros_like(wide), ones_like(wide) / self.range())
        return where_v2(apply_op("IsNan", wide), wide, density)

    def _cdf(self, value: Tensor) -> Tensor:
        dims = broadcast_dynamic_shape(shape(value), self.batch_shape_tensor())
        nothing, everything = (apply_op("Fill", dims, constant(part, self.dtype)) for part in (0, 1))
        part = (value * everything - self._low) / self.range()
        return where_v2(value >= self._high, everything, where_v2(value < self._low, nothing, part))

    def _entropy(self) -> Tensor:
        return apply_op("Log", self.range())

    def _mean(self) -> Tensor:
        return (self._low + self._high) / 2.0

    def _variance(self) -> Tensor:
        return apply_op("Square", self.range()) / 12.0

    def _stddev(self) -> Tensor:
        return self.range() / math.sqrt(12.0)
