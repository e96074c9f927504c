"""Distributions of classes and counts: Bernoulli, categorical and multinomial."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.distributions.distribution import (
    NOT_REPARAMETERIZED,
    Distribution,
    ScalarDistribution,
    of_sample_shape,
)
from aioexec.distributions.divergences import RegisterKL
from aioexec.distributions.special import classes_of, log_combinations, logits_and_probs, whole_numbers
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.array.arrays import reshape, transpose
from aioexec.ops.array.filling import one_hot, ones, ones_like, zeros_like
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.masks import sequence_mask
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.checks import assert_equal
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.functions.map_and_scan import map_fn
from aioexec.ops.linalg.matrix_diagonals import matrix_set_diag
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where
from aioexec.ops.nn.cross_entropy import (
    sigmoid_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from aioexec.ops.nn.softmax import log_softmax, softmax
from aioexec.ops.random.random_ops import multinomial, random_uniform
from aioexec.ops.reduction.arg_reduction import argmax
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.shapes import TensorShape


class Bernoulli(ScalarDistribution):
    """The distribution of 0 and 1 with a probability of 1.

    Args:
        logits, probs: the logarithm of the odds, or the probability: one of them, in the shape of the batch.
        dtype: of samples.
    """

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, scope, validate_args=validate_args)
        parents = [self._logits, self._probs]
        super().__init__(
            dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, scope
        )

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Tensor]:
        return of_sample_shape(sample_shape, "logits")

    @property
    def logits(self) -> Tensor:
        """The logarithm of the odds of 1."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return self._probs

    def _batch_parameters(self) -> list[Tensor]:
        return [self._logits]

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        drawn = random_uniform(self._drawn_shape(n), dtype=self._probs.dtype, seed=seed)
        samples: Tensor = cast(drawn < self._probs, self.dtype)
        return samples

    def _log_prob(self, value: Tensor) -> Tensor:
        event = cast(whole_numbers(value) if self.validate_args else value, self._logits.dtype)
        logits = self._logits
        if event.dims is None or event.dims != logits.dims or None in event.dims:
            logits, event = ones_like(event) * logits, ones_like(logits) * event
        return -sigmoid_cross_entropy_with_logits(labels=event, logits=logits)

    def _entropy(self) -> Tensor:
        odds = -self._logits * (apply_op("Sigmoid", self._logits) - 1.0)
        return odds + apply_op("Softplus", -self._logits)

    def _mean(self) -> Tensor:
        mean: Tensor = identity(self._probs)
        return mean

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._probs)

    def _mode(self) -> Tensor:
        mode: Tensor = cast(self._probs > 0.5, self.dtype)
        return mode


@RegisterKL(Bernoulli, Bernoulli)
def _divergence_of_bernoullis(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_bernoulli_bernoulli", [a.logits, b.logits]):
        of_one, of_zero = (
            apply_op("Softplus", sign * b.logits) - apply_op("Softplus", sign * a.logits)
            for sign in (-1.0, 1.0)
        )
        return apply_op("Sigmoid", a.logits) * of_one + apply_op("Sigmoid", -a.logits) * of_zero


class Categorical(Distribution):
    """The distribution of the numbers of classes, 0 … k - 1.

    Args:
        logits, probs: unnormalised log probabilities, or probabilities: one of them, [*batch_shape, k].
        dtype: of samples.
    """

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[logits, probs]) as scope:
            self._logits, self._probs = logits_and_probs(
                logits, probs, scope, is_categorical=True, validate_args=validate_args
            )
            known = self._logits.dims
            count = known[-1] if known else None
            self._event_size = shape(self._logits)[-1] if count is None else constant(count, dtypes.int32)
        parents = [self._logits, self._probs]
        super().__init__(
            dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, scope
        )

    @property
    def event_size(self) -> Tensor:
        """The number of classes."""
        return self._event_size

    @property
    def logits(self) -> Tensor:
        """Unnormalised log probabilities."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._probs

    def _batch_shape_tensor(self) -> Tensor:
        return shape(self._logits)[:-1]

    def _batch_shape(self) -> Any:
        return None if self._logits.dims is None else self._logits.dims[:-1]

    def _event_shape_tensor(self) -> Tensor:
        return constant([], dtypes.int32)

    def _event_shape(self) -> TensorShape:
        return TensorShape([])

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        is_matrix = self._logits.dims is not None and len(self._logits.dims) == 2
        flat = self._logits if is_matrix else reshape(self._logits, stack([-1, self._event_size]))
        kind = dtypes.int64 if self.dtype.size > 4 else dtypes.int32
        drawn = multinomial(flat, n, seed=seed, output_dtype=kind)
        samples = reshape(transpose(drawn), concat([[n], self.batch_shape_tensor()], 0))
        found: Tensor = cast(samples, self.dtype)
        return found

    def _with_parameters(self, value: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return classes as integers, and parameters, broadcast to one batch."""
        kind = value.dtype.base_dtype if value.dtype.is_integer else dtypes.int32
        classes = classes_of(value, kind, self.validate_args)
        outer = None if parameters.dims is None else parameters.dims[:-1]
        if outer is None or None in outer or classes.dims != outer:
            parameters = parameters * ones_like(classes[..., None], parameters.dtype)
            classes = classes * ones(shape(parameters)[:-1], classes.dtype)
            if parameters.dims is not None:
                classes.set_shape(parameters.dims[:-1])
        return classes, parameters

    def _log_prob(self, value: Tensor) -> Tensor:
        classes, logits = self._with_parameters(value, self._logits)
        return -sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits)

    def _cdf(self, value: Tensor) -> Tensor:
        classes, probs = self._with_parameters(value, self._probs)
        flat = reshape(probs, stack([-1, self._event_size]))
        is_below = sequence_mask(reshape(classes, [-1]), self._event_size)
        total = reduce_sum(where(is_below, flat, zeros_like(flat)), axis=-1)
        return reshape(total, shape(classes))

    def _entropy(self) -> Tensor:
        return -reduce_sum(log_softmax(self._logits) * self._probs, axis=-1)

    def _mode(self) -> Tensor:
        mode: Tensor = cast(argmax(self._logits, axis=-1), self.dtype)
        mode.set_shape(self._batch_shape())
        return mode


@RegisterKL(Categorical, Categorical)
def _divergence_of_categoricals(a: Categorical, b: Categorical, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_categorical_categorical", [a.logits, b.logits]):
        ratios = log_softmax(a.logits) - log_softmax(b.logits)
        return reduce_sum(softmax(a.logits) * ratios, axis=-1)


class Multinomial(Distribution):
    """The distribution of the counts of k classes in `total_count` draws.

    Args:
        total_count: floats [*batch_shape], whole numbers.
        logits, probs: unnormalised log probabilities, or probabilities: one of them, [*batch_shape, k].
    """

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[total_count, logits, probs]) as scope:
            counts = convert_to_tensor(total_count, name="total_count")
            self._total_count = whole_numbers(counts) if validate_args else counts
            self._logits, self._probs = logits_and_probs(
                logits, probs, scope, is_categorical=True, validate_args=validate_args
            )
            self._mean_value = self._total_count[..., None] * self._probs
        parents = [self._total_count, self._logits, self._probs]
        dtype = self._probs.dtype
        super().__init__(
            dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, scope
        )

    @property
    def total_count(self) -> Tensor:
        """The number of draws."""
        return self._total_count

    @property
    def logits(self) -> Tensor:
        """Unnormalised log probabilities."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._probs

    def _batch_shape_tensor(self) -> Tensor:
        return shape(self._mean_value)[:-1]

    def _batch_shape(self) -> Any:
        return None if self._mean_value.dims is None else self._mean_value.dims[:-1]

    def _event_shape_tensor(self) -> Tensor:
        return shape(self._mean_value)[-1:]

    def _event_shape(self) -> Any:
        return None if self._mean_value.dims is None else self._mean_value.dims[-1:]

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        classes = self.event_shape_tensor()[0]
        draws = ones_like(self._logits[..., 0], dtypes.int32) * cast(self._total_count, dtypes.int32)
        logits = ones_like(draws[..., None], self._logits.dtype) * self._logits
        flat = [reshape(logits, stack([-1, classes])), n * reshape(draws, [-1])]

        def counts(parts: Any) -> Tensor:
            drawn = reshape(multinomial(parts[0][None, ...], parts[1], seed), stack([n, -1]))
            return reduce_sum(one_hot(drawn, classes, dtype=self.dtype), axis=-2)

        found = transpose(map_fn(counts, flat, dtype=self.dtype), [1, 0, 2])
        return reshape(found, concat([[n], self.batch_shape_tensor(), stack([classes])], 0))

    def _log_prob(self, value: Tensor) -> Tensor:
        counts = self._valid(value)
        likelihood = reduce_sum(counts * log_softmax(self._logits), -1)
        return likelihood + log_combinations(self._total_count, counts)

    def _mean(self) -> Tensor:
        mean: Tensor = identity(self._mean_value)
        return mean

    def _shares(self) -> Tensor:
        return self._probs * ones_like(self._total_count)[..., None]

    def _covariance(self) -> Tensor:
        product = matmul(self._mean_value[..., None], self._shares()[..., None, :])
        return matrix_set_diag(-product, self._variance())

    def _variance(self) -> Tensor:
        return self._mean_value - self._mean_value * self._shares()

    def _valid(self, counts: Tensor) -> Tensor:
        return valid_counts(counts, self._total_count) if self.validate_args else counts


def valid_counts(counts: Tensor, total: Tensor) -> Tensor:
    """Return counts after checks that they are whole numbers with the right sum."""
    message = "counts must sum to `self.total_count`"
    found = whole_numbers(counts)
    check = assert_equal(total, reduce_sum(found, -1), message=message)
    checked: Tensor = with_dependencies([check], found)
    return checked
