"""The Dirichlet distribution of probabilities, and the multinomial distribution with such probabilities."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.distributions.discrete import valid_counts
from aioexec.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    ReparameterizationType,
)
from aioexec.distributions.divergences import RegisterKL
from aioexec.distributions.special import (
    log_combinations,
    new_seed,
    not_a_number,
    whole_numbers,
    with_classes,
)
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.filling import one_hot
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.checks import assert_less, assert_near, assert_positive
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.linalg.matrix_diagonals import matrix_set_diag
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where_v2
from aioexec.ops.math.special_functions import lbeta
from aioexec.ops.random.distributions import random_gamma
from aioexec.ops.random.random_ops import multinomial
from aioexec.ops.reduction.reductions import reduce_all, reduce_sum


class _Concentrated(Distribution):
    """A distribution over k elements with a concentration [*batch_shape, k]."""

    _concentration: Tensor
    _total_concentration: Tensor

    def _concentrate(self, concentration: Any, validate_args: bool) -> None:
        """Set the concentration and its sum."""
        given = convert_to_tensor(concentration, name="concentration")
        if validate_args:
            message = "Concentration parameter must be positive."
            given = with_classes(given)
            given = with_dependencies([assert_positive(given, message=message)], given)
        self._concentration = given
        self._total_concentration = reduce_sum(given, -1)

    def _finish(
        self,
        kind: ReparameterizationType,
        parameters: dict[str, Any],
        parents: list[Tensor],
        validate_args: bool,
        allow_nan_stats: bool,
        name: str,
    ) -> None:
        Distribution.__init__(
            self, self._concentration.dtype, kind, validate_args, allow_nan_stats, parameters, parents, name
        )

    @property
    def concentration(self) -> Tensor:
        """The concentration of each element."""
        return self._concentration

    @property
    def total_concentration(self) -> Tensor:
        """Its sum over the elements."""
        return self._total_concentration

    def _batch_shape_tensor(self) -> Tensor:
        return shape(self._total_concentration)

    def _batch_shape(self) -> Any:
        return self._total_concentration.dims

    def _event_shape_tensor(self) -> Tensor:
        return shape(self._concentration)[-1:]

    def _event_shape(self) -> Any:
        return None if self._concentration.dims is None else self._concentration.dims[-1:]

    def _covariance(self) -> Tensor:
        x = self._scale() * self._mean()
        return matrix_set_diag(-matmul(x[..., None], x[..., None, :]), self._variance())

    def _scale(self) -> Tensor:
        """The factor of the mean in the variance."""
        raise self._missing("scale")


class Dirichlet(_Concentrated):
    """The Dirichlet distribution of k numbers in (0, 1) whose sum is 1.

    Args:
        concentration: positive floats [*batch_shape, k].
    """

    def __init__(
        self,
        concentration: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Dirichlet",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[concentration]) as scope:
            self._concentrate(concentration, validate_args)
        parents = [self._concentration, self._total_concentration]
        self._finish(FULLY_REPARAMETERIZED, parameters, parents, validate_args, allow_nan_stats, scope)

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        drawn = random_gamma([n], self._concentration, dtype=self.dtype, seed=seed)
        return drawn / reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, value: Tensor) -> Tensor:
        x = self._valid(value)
        density = reduce_sum(apply_op("Xlogy", self._concentration - 1.0, x), -1)
        return density - lbeta(self._concentration)

    def _entropy(self) -> Tensor:
        count: Tensor = cast(self.event_shape_tensor()[0], self.dtype)
        total = self._total_concentration
        slopes = (self._concentration - 1.0) * apply_op("Digamma", self._concentration)
        middle = (total - count) * apply_op("Digamma", total)
        return lbeta(self._concentration) + middle - reduce_sum(slopes, axis=-1)

    def _mean(self) -> Tensor:
        return self._concentration / self._total_concentration[..., None]

    def _scale(self) -> Tensor:
        return apply_op("Rsqrt", 1.0 + self._total_concentration[..., None])

    def _variance(self) -> Tensor:
        scale = self._scale()
        x = scale * self._mean()
        return x * (scale - x)

    def _mode(self) -> Tensor:
        count = cast(self.event_shape_tensor()[0], self.dtype)
        mode = (self._concentration - 1.0) / (self._total_concentration[..., None] - count)
        if self.allow_nan_stats:
            is_defined = reduce_all(self._concentration > 1.0, axis=-1, keepdims=True)
            return where_v2(is_defined, mode, not_a_number(shape(mode), self.dtype))
        message = "Mode undefined when any concentration <= 1"
        check = assert_less(constant(1.0, self.dtype), self._concentration, message=message)
        checked: Tensor = with_dependencies([check], mode)
        return checked

    def _valid(self, x: Tensor) -> Tensor:
        if not self.validate_args:
            return x
        total = reduce_sum(x, -1)
        checks = [
            assert_positive(x, message="samples must be positive"),
            assert_near(constant(1.0, self.dtype), total, message="sample last-dimension must sum to `1`"),
        ]
        checked: Tensor = with_dependencies(checks, x)
        return checked


@RegisterKL(Dirichlet, Dirichlet)
def _divergence_of_dirichlets(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_dirichlet_dirichlet", [a.concentration, b.concentration]):
        total = apply_op("Digamma", reduce_sum(a.concentration, axis=-1, keepdims=True))
        slopes = apply_op("Digamma", a.concentration) - total
        distance = reduce_sum((a.concentration - b.concentration) * slopes, axis=-1)
        return distance - lbeta(a.concentration) + lbeta(b.concentration)


class DirichletMultinomial(_Concentrated):
    """The distribution of the counts of k classes in draws whose probabilities are drawn from a Dirichlet distribution.

    Args:
        total_count: floats [*batch_shape], the whole number of draws.
        concentration: positive floats [*batch_shape, k].
    """

    def __init__(
        self,
        total_count: Any,
        concentration: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[total_count, concentration]) as scope:
            counts = convert_to_tensor(total_count, name="total_count")
            self._total_count = whole_numbers(counts) if validate_args else counts
            self._concentrate(concentration, validate_args)
        parents = [self._total_count, self._concentration]
        self._finish(NOT_REPARAMETERIZED, parameters, parents, validate_args, allow_nan_stats, scope)

    @property
    def total_count(self) -> Tensor:
        """The number of draws."""
        return self._total_count

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        draws = cast(self._total_count, dtypes.int32)
        classes = self.event_shape_tensor()[0]
        gammas = random_gamma([n], self._concentration, dtype=self.dtype, seed=seed)
        logits = reshape(apply_op("Log", gammas), stack([-1, classes]))
        drawn = multinomial(logits, draws, new_seed(seed, "dirichlet_multinomial"))
        counts = reduce_sum(one_hot(drawn, classes), -2)
        dims = concat([[n], self.batch_shape_tensor(), stack([classes])], 0)
        found: Tensor = cast(reshape(counts, dims), self.dtype)
        return found

    def _log_prob(self, value: Tensor) -> Tensor:
        counts = valid_counts(value, self._total_count) if self.validate_args else value
        ordered = lbeta(self._concentration + counts) - lbeta(self._concentration)
        return ordered + log_combinations(self._total_count, counts)

    def _draws(self) -> Tensor:
        """The number of draws, to be broadcast to the elements."""
        return self._total_count if self._total_count.dims == () else self._total_count[..., None]

    def _mean(self) -> Tensor:
        return self._draws() * (self._concentration / self._total_concentration[..., None])

    def _scale(self) -> Tensor:
        total = self._total_concentration[..., None]
        return apply_op("Sqrt", (1.0 + total / self._draws()) / (1.0 + total))

    def _variance(self) -> Tensor:
        scale = self._scale()
        x = scale * self._mean()
        return x * (self._draws() * scale - x)
