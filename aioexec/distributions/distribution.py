"""The base class of distributions: public methods under name scopes, with what follows from one another.

A subclass defines `_log_prob` or `_prob`, `_log_cdf` or `_cdf`, `_variance` or `_stddev`, and others with the names of the
public methods. Shapes: samples have the shape [*sample_shape, *batch_shape, *event_shape].
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from aioexec import dtypes
from aioexec.distributions import divergences
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor, stands_for_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import broadcast_dynamic_shape, broadcast_static_shape, shape
from aioexec.ops.reduction.reductions import reduce_prod
from aioexec.shapes import TensorShape, as_dims


class ReparameterizationType:
    """Whether gradients flow from samples to the parameters; compared by identity."""

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """A batch of probability distributions.

    Args:
        dtype: of samples.
        reparameterization_type: FULLY_REPARAMETERIZED or NOT_REPARAMETERIZED.
        validate_args: check parameters and values when the graph runs.
        allow_nan_stats: whether statistics that are not defined are NaN; otherwise they are an error in the run.
        parameters: the arguments of the constructor, for `copy`.
        graph_parents: the tensors that the parameters are.
        name: of the scope of its nodes, by default that of the class.

    Raises:
        GraphValueError: a graph parent is no tensor.
    """

    def __init__(
        self,
        dtype: Any,
        reparameterization_type: ReparameterizationType,
        validate_args: bool,
        allow_nan_stats: bool,
        parameters: dict[str, Any] | None = None,
        graph_parents: list[Any] | None = None,
        name: str | None = None,
    ) -> None:
        for number, parent in enumerate(graph_parents or []):
            if not stands_for_tensor(parent):
                raise GraphValueError(f"Graph parent item {number} is not a Tensor; {parent!r}.")
        if not name or not name.endswith("/"):
            with name_scope(name or type(self).__name__) as name:
                pass
        self._dtype = dtypes.as_dtype(dtype)
        self._reparameterization_type = reparameterization_type
        self._allow_nan_stats = allow_nan_stats
        self._validate_args = validate_args
        self._parameters = dict(parameters or {})
        self._graph_parents = list(graph_parents or [])
        self._name: str = name

    # Properties

    @property
    def name(self) -> str:
        """The name scope, with a slash at the end."""
        return self._name

    @property
    def dtype(self) -> dtypes.DType:
        """The dtype of samples."""
        return self._dtype

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {key: value for key, value in self._parameters.items() if key not in ("self", "__class__")}

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """Whether gradients flow from samples to the parameters."""
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        """Whether statistics that are not defined are NaN."""
        return self._allow_nan_stats

    @property
    def validate_args(self) -> bool:
        """Whether parameters and values are checked when the graph runs."""
        return self._validate_args

    def copy(self, **override_parameters_kwargs: Any) -> Self:
        """Return a distribution of the same class with some other arguments."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    @classmethod
    def param_shapes(cls, sample_shape: Any, name: str = "DistributionParamShapes") -> dict[str, Tensor]:
        """Return the shapes of the parameters that give samples of a shape, for `sample()`."""
        with name_scope(name, values=[sample_shape]):
            return cls._param_shapes(sample_shape)

    @classmethod
    def param_static_shapes(cls, sample_shape: Any) -> dict[str, TensorShape]:
        """As `param_shapes`, of a static shape.

        Raises:
            GraphValueError: it is not fully defined.
        """
        dims = as_dims(sample_shape)
        if dims is None or None in dims:
            raise GraphValueError("TensorShape sample_shape must be fully defined")
        found = cls.param_shapes(list(dims))
        return {name: TensorShape(constant_value(value)) for name, value in found.items()}

    @staticmethod
    def _param_shapes(sample_shape: Any) -> dict[str, Tensor]:
        raise NotImplementedError("_param_shapes not implemented")

    # Shapes

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """Return the shape of the batch as an int32 vector."""
        return self._shape_tensor(name, self.batch_shape, self._batch_shape_tensor)

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """Return the shape of one sample of one element of the batch as an int32 vector."""
        return self._shape_tensor(name, self.event_shape, self._event_shape_tensor)

    def _shape_tensor(self, name: str, static: TensorShape, dynamic: Callable[[], Tensor]) -> Tensor:
        with self._scope(name):
            if static.is_fully_defined():
                return constant(np.array(static.as_list(), np.int32), dtypes.int32)
            return dynamic()

    @property
    def batch_shape(self) -> TensorShape:
        """The static shape of the batch, perhaps partially unknown."""
        return TensorShape(self._batch_shape())

    @property
    def event_shape(self) -> TensorShape:
        """The static shape of one sample of one element of the batch, perhaps partially unknown."""
        return TensorShape(self._event_shape())

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        """Return whether samples of one element of the batch are scalars."""
        with self._scope(name):
            return self._without_dimensions(self.event_shape, self.event_shape_tensor)

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        """Return whether there is one distribution, without dimensions of a batch."""
        with self._scope(name):
            return self._without_dimensions(self.batch_shape, self.batch_shape_tensor)

    def _without_dimensions(self, static: TensorShape, dynamic: Callable[[], Tensor]) -> Tensor:
        if static.ndims is not None:
            return constant(static.ndims == 0)
        return apply_op("Equal", apply_op("Size", dynamic()), 0)

    # Methods of values

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Tensor:
        """Draw samples of shape [*sample_shape, *batch_shape, *event_shape]."""
        with self._scope(name, sample_shape):
            wanted = convert_to_tensor(
                np.array(sample_shape, np.int32) if not stands_for_tensor(sample_shape) else sample_shape,
                dtypes.int32,
            )
            static = constant_value(wanted)
            count = reduce_prod(wanted) if static is None else np.prod(static, dtype=np.int32)
            drawn = self._sample_n(count, seed)
            outer = reshape(wanted, [-1])
            samples = reshape(drawn, concat([outer, shape(drawn)[1:]], 0))
            self._set_sample_shape(samples, static)
            return samples

    def _set_sample_shape(self, samples: Tensor, static: Any) -> None:
        """Set what is known of the shape of samples."""
        batch, event = self.batch_shape, self.event_shape
        if static is not None and batch.ndims is not None and event.ndims is not None:
            samples.set_shape([*np.reshape(static, -1).tolist(), *batch.as_list(), *event.as_list()])

    def log_prob(self, value: Any, name: str = "log_prob") -> Tensor:
        """Return the logarithm of the density, or of the probability mass, at a value."""
        return self._of_value(value, name, (self._log_prob, None), (self._prob, "Log"))

    def prob(self, value: Any, name: str = "prob") -> Tensor:
        """Return the density, or the probability mass, at a value."""
        return self._of_value(value, name, (self._prob, None), (self._log_prob, "Exp"))

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Tensor:
        """Return the logarithm of the probability of samples up to a value."""
        return self._of_value(value, name, (self._log_cdf, None), (self._cdf, "Log"))

    def cdf(self, value: Any, name: str = "cdf") -> Tensor:
        """Return the probability of samples up to a value."""
        return self._of_value(value, name, (self._cdf, None), (self._log_cdf, "Exp"))

    def log_survival_function(self, value: Any, name: str = "log_survival_function") -> Tensor:
        """Return the logarithm of the probability of samples above a value."""
        below = (lambda x: -self.cdf(x)), "Log1p"
        return self._of_value(value, name, (self._log_survival_function, None), below)

    def survival_function(self, value: Any, name: str = "survival_function") -> Tensor:
        """Return the probability of samples above a value."""
        rest = (lambda x: 1.0 - self.cdf(x)), None
        return self._of_value(value, name, (self._survival_function, None), rest)

    def quantile(self, value: Any, name: str = "quantile") -> Tensor:
        """Return the number up to which samples are with a given probability."""
        return self._of_value(value, name, (self._quantile, None))

    def _of_value(self, value: Any, scope: str, *ways: tuple[Callable[[Tensor], Any], str | None]) -> Tensor:
        """Return the result of the first of the methods that is implemented, through the op beside it."""
        with self._scope(scope, value):
            given = convert_to_tensor(value, name="value", preferred_dtype=self.dtype)
            return _first([(lambda method=method: method(given), op_type) for method, op_type in ways])

    # Statistics

    def entropy(self, name: str = "entropy") -> Tensor:
        """Return the Shannon entropy in nats."""
        return self._statistic(name, (self._entropy, None))

    def mean(self, name: str = "mean") -> Tensor:
        """Return the mean."""
        return self._statistic(name, (self._mean, None))

    def variance(self, name: str = "variance") -> Tensor:
        """Return the variance of each element of a sample."""
        return self._statistic(name, (self._variance, None), (self._stddev, "Square"))

    def stddev(self, name: str = "stddev") -> Tensor:
        """Return the standard deviation of each element of a sample."""
        return self._statistic(name, (self._stddev, None), (self._variance, "Sqrt"))

    def covariance(self, name: str = "covariance") -> Tensor:
        """Return the covariances of the elements of a sample: [*batch_shape, k, k]."""
        return self._statistic(name, (self._covariance, None))

    def mode(self, name: str = "mode") -> Tensor:
        """Return the most probable sample."""
        return self._statistic(name, (self._mode, None))

    def _statistic(self, scope: str, *ways: tuple[Callable[[], Any], str | None]) -> Tensor:
        with self._scope(scope):
            return _first(ways)

    def cross_entropy(self, other: Distribution, name: str = "cross_entropy") -> Tensor:
        """Return the cross entropy -E[log other(x)], x from this distribution."""
        with self._scope(name):
            return divergences.cross_entropy(self, other, allow_nan_stats=self.allow_nan_stats)

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Tensor:
        """Return the Kullback-Leibler divergence from another distribution."""
        with self._scope(name):
            return divergences.kl_divergence(self, other, allow_nan_stats=self.allow_nan_stats)

    # What subclasses define

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{method} is not implemented: {type(self).__name__}")

    def _batch_shape_tensor(self) -> Tensor:
        raise self._missing("batch_shape_tensor")

    def _batch_shape(self) -> Any:
        return None

    def _event_shape_tensor(self) -> Tensor:
        raise self._missing("event_shape_tensor")

    def _event_shape(self) -> Any:
        return None

    def _sample_n(self, n: Any, seed: int | None = None) -> Tensor:
        raise self._missing("sample_n")

    def _log_prob(self, value: Tensor) -> Tensor:
        raise self._missing("log_prob")

    def _prob(self, value: Tensor) -> Tensor:
        raise self._missing("prob")

    def _log_cdf(self, value: Tensor) -> Tensor:
        raise self._missing("log_cdf")

    def _cdf(self, value: Tensor) -> Tensor:
        raise self._missing("cdf")

    def _log_survival_function(self, value: Tensor) -> Tensor:
        raise self._missing("log_survival_function")

    def _survival_function(self, value: Tensor) -> Tensor:
        raise self._missing("survival_function")

    def _quantile(self, value: Tensor) -> Tensor:
        raise self._missing("quantile")

    def _entropy(self) -> Tensor:
        raise self._missing("entropy")

    def _mean(self) -> Tensor:
        raise self._missing("mean")

    def _variance(self) -> Tensor:
        raise self._missing("variance")

    def _stddev(self) -> Tensor:
        raise self._missing("stddev")

    def _covariance(self) -> Tensor:
        raise self._missing("covariance")

    def _mode(self) -> Tensor:
        raise self._missing("mode")

    @contextlib.contextmanager
    def _scope(self, name: str, *values: Any) -> Iterator[str]:
        """Enter the scope of the distribution, and `name` in it."""
        with name_scope(self.name), name_scope(name, values=[*values, *self._graph_parents]) as scope:
            yield scope

    def __str__(self) -> str:
        parts = [f'"{self.name}"']
        parts += [f"batch_shape={self.batch_shape}"] if self.batch_shape.ndims is not None else []
        parts += [f"event_shape={self.event_shape}"] if self.event_shape.ndims is not None else []
        return f"tfp.distributions.{type(self).__name__}({', '.join(parts)}, dtype={self.dtype.name})"

    def __repr__(self) -> str:
        return (
            f"<tfp.distributions.{type(self).__name__} '{self.name}' batch_shape={self.batch_shape} "
            f"event_shape={self.event_shape} dtype={self.dtype.name}>"
        )


def _first(ways: Any) -> Tensor:
    """Return the result of the first function that is implemented, through the op beside it.

    Raises:
        NotImplementedError: none is; the message is that of the first.
    """
    missing: NotImplementedError | None = None
    for compute, op_type in ways:
        try:
            found: Tensor = compute()
        except NotImplementedError as error:
            missing = missing or error
            continue
        return found if op_type is None else apply_op(op_type, found)
    assert missing is not None
    raise missing


class ScalarDistribution(Distribution):
    """A distribution whose samples are scalars, with parameters that broadcast to the shape of the batch."""

    def _batch_parameters(self) -> list[Tensor]:
        """The parameters whose shapes broadcast to that of the batch."""
        raise self._missing("batch_parameters")

    def _batch_shape_tensor(self) -> Tensor:
        shapes = [shape(each) for each in self._batch_parameters()]
        found = shapes[-1]
        for each in reversed(shapes[:-1]):
            found = broadcast_dynamic_shape(each, found)
        return found

    def _batch_shape(self) -> TensorShape:
        found = TensorShape([])
        for each in self._batch_parameters():
            found = broadcast_static_shape(found, each.shape)
        return found

    def _event_shape_tensor(self) -> Tensor:
        return constant([], dtypes.int32)

    def _event_shape(self) -> TensorShape:
        return TensorShape([])

    def _drawn_shape(self, n: Any) -> Tensor:
        """The shape of n samples: [n, *batch_shape]."""
        return concat([[n], self.batch_shape_tensor()], 0)


def of_sample_shape(sample_shape: Any, *names: str) -> dict[str, Tensor]:
    """Return the shape of samples as that of each parameter."""
    return dict.fromkeys(names, convert_to_tensor(sample_shape, dtypes.int32))
