"""Distributions of positive numbers, and of fractions: gamma, exponential and beta."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.distributions.distribution import FULLY_REPARAMETERIZED, ScalarDistribution, of_sample_shape
from aioexec.distributions.divergences import RegisterKL
from aioexec.distributions.special import new_seed, not_a_number
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies, name_scope
from aioexec.ops.array.filling import ones_like
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import broadcast_dynamic_shape, shape
from aioexec.ops.control_flow.checks import assert_less, assert_positive, assert_same_float_dtype
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.math.comparison import logical_and, where_v2
from aioexec.ops.random.distributions import random_gamma
from aioexec.ops.random.random_ops import random_uniform


class Gamma(ScalarDistribution):
    """The gamma distribution with shape `concentration` and mean concentration / rate.

    Args:
        concentration, rate: positive floats of one dtype, whose shapes broadcast to that of the batch.
    """

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[concentration, rate]) as scope:
            checks = [assert_positive(concentration), assert_positive(rate)] if validate_args else []
            with control_dependencies(checks):
                self._concentration: Tensor = identity(concentration, name="concentration")
                self._rate: Tensor = identity(rate, name="rate")
            assert_same_float_dtype([self._concentration, self._rate])
        parents = [self._concentration, self._rate]
        dtype = self._concentration.dtype
        super().__init__(
            dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, scope
        )

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Tensor]:
        return of_sample_shape(sample_shape, "concentration", "rate")

    @property
    def concentration(self) -> Tensor:
        """The shape parameter."""
        return self._concentration

    @property
    def rate(self) -> Tensor:
        """The inverse of the scale."""
        return self._rate

    def _batch_parameters(self) -> list[Tensor]:
        return [self._concentration, self._rate]

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        return random_gamma([n], self._concentration, self._rate, self.dtype, seed)

    def _log_prob(self, value: Tensor) -> Tensor:
        x = self._valid(value)
        density = apply_op("Xlogy", self._concentration - 1.0, x) - self._rate * x
        return density - self._log_normalization()

    def _log_normalization(self) -> Tensor:
        log = apply_op("Log", self._rate)
        return apply_op("Lgamma", self._concentration) - self._concentration * log

    def _cdf(self, value: Tensor) -> Tensor:
        return apply_op("Igamma", self._concentration, self._rate * self._valid(value))

    def _entropy(self) -> Tensor:
        a = self._concentration
        sizes = a - apply_op("Log", self._rate) + apply_op("Lgamma", a)
        return sizes + (1.0 - a) * apply_op("Digamma", a)

    def _mean(self) -> Tensor:
        return self._concentration / self._rate

    def _variance(self) -> Tensor:
        return self._concentration / apply_op("Square", self._rate)

    def _stddev(self) -> Tensor:
        return apply_op("Sqrt", self._concentration) / self._rate

    def _mode(self) -> Tensor:
        mode = (self._concentration - 1.0) / self._rate
        if self.allow_nan_stats:
            missing = not_a_number(self.batch_shape_tensor(), self.dtype)
            return where_v2(self._concentration > 1.0, mode, missing)
        message = "mode not defined when any concentration <= 1"
        check = assert_less(constant(1.0, self.dtype), self._concentration, message=message)
        checked: Tensor = with_dependencies([check], mode)
        return checked

    def _valid(self, x: Tensor) -> Tensor:
        assert_same_float_dtype([x], self.dtype)
        checked: Tensor = with_dependencies([assert_positive(x)], x) if self.validate_args else x
        return checked


@RegisterKL(Gamma, Gamma)
def _divergence_of_gammas(a: Gamma, b: Gamma, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_gamma_gamma", [a.concentration, a.rate, b.concentration, b.rate]):
        shapes = (a.concentration - b.concentration) * apply_op("Digamma", a.concentration)
        gammas = apply_op("Lgamma", b.concentration) - apply_op("Lgamma", a.concentration)
        rates = b.concentration * (apply_op("Log", a.rate) - apply_op("Log", b.rate))
        return shapes + gammas + rates + a.concentration * (b.rate / a.rate - 1.0)


class Exponential(Gamma):
    """The exponential distribution with mean 1 / rate.

    Args:
        rate: positive floats, in the shape of the batch.
    """

    def __init__(
        self,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Exponential",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[rate]) as scope:
            given = convert_to_tensor(rate, name="rate")
            one = constant(1.0, given.dtype.base_dtype)
        super().__init__(one, given, validate_args, allow_nan_stats, scope)
        self._parameters = parameters

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Tensor]:
        return of_sample_shape(sample_shape, "rate")

    def _log_survival_function(self, value: Tensor) -> Tensor:
        return self._log_prob(value) - apply_op("Log", self._rate)

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        dims = concat([[n], shape(self._rate)], 0)
        least = np.finfo(self.dtype.numpy).tiny
        drawn = random_uniform(dims, least, 1.0, self.dtype, seed)
        return -apply_op("Log", drawn) / self._rate


class Beta(ScalarDistribution):
    """The beta distribution over (0, 1).

    Args:
        concentration1, concentration0: positive floats of one dtype, whose shapes broadcast to that of the batch. The density
            is proportional to x ** (concentration1 - 1) · (1 - x) ** (concentration0 - 1).
    """

    def __init__(
        self,
        concentration1: Any = None,
        concentration0: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[concentration1, concentration0]) as scope:
            self._concentration1, self._concentration0 = (
                self._positive(convert_to_tensor(value, name=f"concentration{number}"), validate_args)
                for number, value in ((1, concentration1), (0, concentration0))
            )
            assert_same_float_dtype([self._concentration1, self._concentration0])
            self._total = self._concentration1 + self._concentration0
        parents = [self._concentration1, self._concentration0, self._total]
        dtype = self._total.dtype
        super().__init__(
            dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, scope
        )

    @staticmethod
    def _positive(concentration: Tensor, validate_args: bool) -> Tensor:
        if not validate_args:
            return concentration
        check = assert_positive(concentration, message="Concentration parameter must be positive.")
        checked: Tensor = with_dependencies([check], concentration)
        return checked

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Tensor]:
        return of_sample_shape(sample_shape, "concentration1", "concentration0")

    @property
    def concentration1(self) -> Tensor:
        """The concentration at 1."""
        return self._concentration1

    @property
    def concentration0(self) -> Tensor:
        """The concentration at 0."""
        return self._concentration0

    @property
    def total_concentration(self) -> Tensor:
        """The sum of both."""
        return self._total

    def _batch_parameters(self) -> list[Tensor]:
        return [self._total]

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        one = ones_like(self._total, self.dtype)
        first = random_gamma([n], one * self._concentration1, dtype=self.dtype, seed=seed)
        other = new_seed(seed, "beta")
        second = random_gamma([n], one * self._concentration0, dtype=self.dtype, seed=other)
        return first / (first + second)

    def _log_prob(self, value: Tensor) -> Tensor:
        x = self._valid(value)
        low = apply_op("Xlogy", self._concentration1 - 1.0, x)
        return low + (self._concentration0 - 1.0) * apply_op("Log1p", -x) - self._log_normalization()

    def _log_normalization(self) -> Tensor:
        gammas = apply_op("Lgamma", self._concentration1) + apply_op("Lgamma", self._concentration0)
        return gammas - apply_op("Lgamma", self._total)

    def _cdf(self, value: Tensor) -> Tensor:
        dims = broadcast_dynamic_shape(shape(value), shape(self._total))
        parts = (self._concentration1, self._concentration0, value)
        return apply_op("Betainc", *(apply_op("BroadcastTo", each, dims) for each in parts))

    def _entropy(self) -> Tensor:
        terms = [
            (each - less) * apply_op("Digamma", each)
            for each, less in (
                (self._concentration1, 1.0),
                (self._concentration0, 1.0),
                (self._total, 2.0),
            )
        ]
        return self._log_normalization() - terms[0] - terms[1] + terms[2]

    def _mean(self) -> Tensor:
        return self._concentration1 / self._total

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self._total)

    def _mode(self) -> Tensor:
        mode = (self._concentration1 - 1.0) / (self._total - 2.0)
        if self.allow_nan_stats:
            missing = not_a_number(self.batch_shape_tensor(), self.dtype)
            is_defined = logical_and(self._concentration1 > 1.0, self._concentration0 > 1.0)
            return where_v2(is_defined, mode, missing)
        checks = [
            assert_less(
                constant(1.0, self.dtype), each, message=f"Mode undefined for concentration{number} <= 1."
            )
            for number, each in ((1, self._concentration1), (0, self._concentration0))
        ]
        checked: Tensor = with_dependencies(checks, mode)
        return checked

    def _valid(self, x: Tensor) -> Tensor:
        if not self.validate_args:
            return x
        checks = [
            assert_positive(x, message="sample must be positive"),
            assert_less(x, constant(1.0, self.dtype), message="sample must be less than `1`."),
        ]
        checked: Tensor = with_dependencies(checks, x)
        return checked


@RegisterKL(Beta, Beta)
def _divergence_of_betas(a: Beta, b: Beta, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_beta_beta", [a.total_concentration, b.total_concentration]):
        terms = [
            apply_op("Digamma", one) * (other - one)
            for one, other in (
                (a.concentration1, b.concentration1),
                (a.concentration0, b.concentration0),
                (a.total_concentration, b.total_concentration),
            )
        ]
        normalizers = b._log_normalization() - a._log_normalization()
        return normalizers - terms[0] - terms[1] + terms[2]
