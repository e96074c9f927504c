"""Initializers: objects that generate the initial value of a variable for its shape and dtype."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np

from aioexec import dtypes, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import constant
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import ones, zeros
from aioexec.ops.math.arithmetic import multiply
from aioexec.ops.random.random_ops import random_normal, random_uniform, truncated_normal

Mode = Literal["fan_in", "fan_out", "fan_avg"]
Distribution = Literal["normal", "truncated_normal", "untruncated_normal", "uniform"]

TRUNCATED_STDDEV = 0.87962566103423978
"""Standard deviation of the standard normal distribution truncated to [-2, 2]."""


class Initializer:
    """The base of initializers: `initializer(shape, dtype)` returns the initial value.

    The arguments of the constructor are the configuration: `type(i).from_config(i.get_config())` is an equal initializer.
    """

    dtype: DType = dtypes.float32

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        return cls(**config)

    def _dtype_or_default(self, dtype: Any) -> DType:
        return self.dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype


class _Configured(Initializer):
    """The base of the initializers below: the configuration is the attributes named in `_arguments`, and the dtype."""

    _arguments: ClassVar[tuple[str, ...]] = ()

    def get_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._arguments} | {"dtype": self.dtype.name}


def _floating(dtype: Any) -> DType:
    wanted: DType = dtypes.as_dtype(dtype)
    if not wanted.is_floating:
        raise GraphValueError(f"initializer: expected a floating dtype, got {wanted.name}")
    return wanted


class Zeros(_Configured):
    """All zeros."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return zeros(shape, self._dtype_or_default(dtype))


class Ones(_Configured):
    """All ones."""

    def __init__(self, dtype: Any = dtypes.float32) -> None:
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return ones(shape, self._dtype_or_default(dtype))


class Constant(_Configured):
    """A given value: a number for all elements, or a list, whose last element fills up the rest.

    Args:
        verify_shape: whether the value must have the shape of the variable.
    """

    _arguments = ("value",)

    def __init__(self, value: Any = 0, dtype: Any = dtypes.float32, verify_shape: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, list | tuple | np.ndarray)):
            raise GraphTypeError(f"Constant: expected a number, list or array, got {value!r}")
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(
        self, shape: Any, dtype: Any = None, partition_info: Any = None, verify_shape: bool | None = None
    ) -> Tensor:
        verify = self._verify_shape if verify_shape is None else verify_shape
        dims = list(shapes.as_dims(shape) or ())
        return constant(self.value, self._dtype_or_default(dtype), shape=dims, verify_shape=verify)


class RandomUniform(_Configured):
    """Uniform in [minval, maxval); for floating dtypes maxval None means 1."""

    _arguments = ("minval", "maxval", "seed")

    def __init__(
        self, minval: Any = 0, maxval: Any = None, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.minval = minval
        self.maxval = maxval
        self.seed = seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return random_uniform(shape, self.minval, self.maxval, self._dtype_or_default(dtype), seed=self.seed)


class _Normal(_Configured):
    """The base of initializers that draw from a normal distribution."""

    _arguments = ("mean", "stddev", "seed")

    def __init__(
        self, mean: Any = 0.0, stddev: Any = 1.0, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        self.mean = mean
        self.stddev = stddev
        self.seed = seed
        self.dtype = _floating(dtype)


class RandomNormal(_Normal):
    """Normally distributed."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return random_normal(shape, self.mean, self.stddev, self._dtype_or_default(dtype), seed=self.seed)


class TruncatedNormal(_Normal):
    """Normally distributed within two standard deviations from the mean."""

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        return truncated_normal(shape, self.mean, self.stddev, self._dtype_or_default(dtype), seed=self.seed)


class UniformUnitScaling(_Configured):
    """Uniform, preserving the scale of activations through a linear layer.

    Values are in [-limit, limit) with limit = factor * sqrt(3 / inputs), where all dimensions but the last are inputs.
    """

    _arguments = ("factor", "seed")

    def __init__(self, factor: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.factor = factor
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        inputs = max(1.0, math.prod(float(dim) for dim in _full_shape(shape, partition_info)[:-1]))
        limit = math.sqrt(3 / inputs) * self.factor
        return random_uniform(shape, -limit, limit, self._dtype_or_default(dtype), seed=self.seed)


class VarianceScaling(_Configured):
    """Random with variance scale / n, where n is the number of inputs, of outputs, or their mean, by `mode`.

    Args:
        distribution: "uniform", "truncated_normal" (also called "normal") or "untruncated_normal".
    """

    _arguments: ClassVar[tuple[str, ...]] = ("scale", "mode", "distribution", "seed")

    def __init__(
        self,
        scale: float = 1.0,
        mode: Mode = "fan_in",
        distribution: Distribution = "truncated_normal",
        seed: int | None = None,
        dtype: Any = dtypes.float32,
    ) -> None:
        if scale <= 0.0:
            raise GraphValueError(f"VarianceScaling: scale must be positive, got {scale!r}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise GraphValueError(f"VarianceScaling: mode must be fan_in, fan_out or fan_avg, got {mode!r}")
        if distribution not in ("normal", "truncated_normal", "untruncated_normal", "uniform"):
            raise GraphValueError(f"VarianceScaling: unknown distribution {distribution!r}")
        self.scale = scale
        self.mode: Mode = mode
        self.distribution: Distribution = distribution
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        fan_in, fan_out = fans(_full_shape(shape, partition_info))
        count = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, count)
        wanted = self._dtype_or_default(dtype)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return random_uniform(shape, -limit, limit, wanted, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return random_normal(shape, 0.0, math.sqrt(variance), wanted, seed=self.seed)
        return truncated_normal(shape, 0.0, math.sqrt(variance) / TRUNCATED_STDDEV, wanted, seed=self.seed)


def fans(dims: list[int]) -> tuple[float, float]:
    """Return the numbers of inputs and outputs per unit of a layer with a kernel of this shape."""
    if not dims:
        return 1.0, 1.0
    if len(dims) == 1:
        return float(dims[0]), float(dims[0])
    field = float(math.prod(dims[:-2]))
    return dims[-2] * field, dims[-1] * field


def _full_shape(shape: Any, partition_info: Any) -> list[int]:
    """Return the shape of the whole variable, of which `shape` may be a partition."""
    whole = shape if partition_info is None else partition_info.full_shape
    dims = shapes.as_dims(whole)
    if not shapes.is_fully_defined(dims):
        raise GraphValueError(f"initializer: the shape must be fully defined, got {shapes.describe(dims)}")
    return [int(dim or 0) for dim in dims or ()]


class Identity(_Configured):
    """The identity matrix times `gain`."""

    _arguments = ("gain",)

    def __init__(self, gain: float = 1.0, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        dims = _full_shape(shape, partition_info)
        if len(dims) != 2:
            raise GraphValueError(f"Identity: only matrices have an identity, got shape {dims}")
        matrix = constant(np.eye(dims[0], dims[1]), self._dtype_or_default(dtype), name="eye")
        return matrix if self.gain == 1.0 else multiply(matrix, self.gain)


class Orthogonal(_Configured):
    """An orthogonal matrix times `gain`, or the first rows or columns of one; the last axis against all others.

    Raises:
        GraphValueError: the shape has fewer than two dimensions.
    """

    _arguments = ("gain", "seed")

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.seed = seed
        self.dtype = _floating(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
        dims = _full_shape(shape, None)
        if len(dims) < 2:
            raise GraphValueError(
                "The tensor to initialize, specified by argument `shape` must be at least two-dimensional. "
                f"Received shape={dims}"
            )
        rows, columns = math.prod(dims[:-1]), dims[-1]
        size = [max(rows, columns), min(rows, columns)]
        drawn = random_normal(size, dtype=self._dtype_or_default(dtype), seed=self.seed)
        q, r = apply_tuple_op("Qr", drawn, full_matrices=False)
        q = multiply(
            q, apply_op("Sign", apply_op("DiagPart", r)), name="mul"
        )  # as likely as its mirror images
        if rows < columns:
            q = apply_op("Transpose", q, [1, 0], name="matrix_transpose/transpose")
        return multiply(self.gain, apply_op("Reshape", q, dims), name="mul")


class GlorotUniform(VarianceScaling):
    """Uniform in [-limit, limit) with limit = sqrt(6 / (inputs + outputs)) (Glorot and Bengio, 2010; Xavier)."""

    _arguments = ("seed",)

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class GlorotNormal(VarianceScaling):
    """Truncated normal with standard deviation sqrt(2 / (inputs + outputs)) (Glorot and Bengio, 2010)."""

    _arguments = ("seed",)

    def __init__(self, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


def lecun_normal(seed: int | None = None) -> VarianceScaling:
    """Truncated normal with standard deviation sqrt(1 / inputs) (LeCun et al., 1998)."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed)


def lecun_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform in [-limit, limit) with limit = sqrt(3 / inputs) (LeCun et al., 1998)."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed)


def he_normal(seed: int | None = None) -> VarianceScaling:
    """Truncated normal with standard deviation sqrt(2 / inputs) (He et al., 2015)."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed)


def he_uniform(seed: int | None = None) -> VarianceScaling:
    """Uniform in [-limit, limit) with limit = sqrt(6 / inputs) (He et al., 2015)."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed)


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Constant
random_uniform_initializer = RandomUniform
random_normal_initializer = RandomNormal
truncated_normal_initializer = TruncatedNormal
uniform_unit_scaling_initializer = UniformUnitScaling
variance_scaling_initializer = VarianceScaling
identity_initializer = Identity
orthogonal_initializer = Orthogonal
glorot_uniform_initializer = GlorotUniform
glorot_normal_initializer = GlorotNormal
