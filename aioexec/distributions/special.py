"""Functions that several distributions share: of the normal distribution, of logits, of counts, of seeds, and checks."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.checks import (
    assert_equal,
    assert_greater_equal,
    assert_less_equal,
    assert_near,
    assert_non_negative,
)
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import where_v2
from aioexec.ops.nn.softmax import softmax
from aioexec.ops.reduction.reductions import reduce_sum

# The normal distribution


def normal_cdf(x: Tensor) -> Tensor:
    """Return the probability of standard normal numbers up to x."""
    half = constant(0.5 * np.sqrt(2.0), x.dtype.base_dtype)
    w = x * half
    z = apply_op("Abs", w)
    tail = apply_op("Erfc", z)
    outer = where_v2(w > 0.0, 2.0 - tail, tail)
    return 0.5 * where_v2(z < half, 1.0 + apply_op("Erf", w), outer)


_SEGMENTS = {"float64": (-20.0, 8.0), "float32": (-10.0, 5.0)}
"""By dtype: below the first number the logarithm of the normal CDF is a series, above the second it is -CDF(-x)."""

_TERMS = (1.0, 3.0, 15.0)
"""The double factorials 1!!, 3!!, 5!! of the series."""


def log_normal_cdf(x: Tensor) -> Tensor:
    """Return the logarithm of `normal_cdf`, exact for large negative x as well."""
    low, high = (constant(limit, x.dtype.base_dtype) for limit in _SEGMENTS[x.dtype.base_dtype.name])
    middle = apply_op("Log", normal_cdf(apply_op("Maximum", x, low)))
    left = _log_of_tail(apply_op("Minimum", x, low))
    return where_v2(x > high, -normal_cdf(-x), where_v2(x > low, middle, left))


def _log_of_tail(x: Tensor) -> Tensor:
    """Return the asymptotic series of the logarithm of `normal_cdf` for large negative x."""
    square = apply_op("Square", x)
    scale = -0.5 * square - apply_op("Log", -x) - 0.5 * math.log(2.0 * math.pi)
    total: Any = 1.0
    power = square
    for number, factorial in enumerate(_TERMS):
        total = total + (-1.0) ** (number + 1) * factorial / power
        power = power * square
    return scale + apply_op("Log", total)


def log_laplace_cdf(x: Tensor) -> Tensor:
    """Return the logarithm of the probability of standard Laplace numbers up to x."""
    above = apply_op("Log1p", -0.5 * apply_op("Exp", -apply_op("Abs", x)))
    return where_v2(x < 0.0, x - math.log(2.0), above)


# Logits and probabilities


def logits_and_probs(
    logits: Any, probs: Any, name: str, is_categorical: bool = False, validate_args: bool = False
) -> tuple[Tensor, Tensor]:
    """Return logits and probabilities, of which one is given.

    Raises:
        GraphValueError: none or both are given.
        GraphTypeError: they are not floating.
    """
    if (logits is None) == (probs is None):
        raise GraphValueError("Must pass probs or logits, but not both.")
    with name_scope(name, values=[logits, probs]):
        what = "logits" if probs is None else "probs"
        given = convert_to_tensor(logits if probs is None else probs, name=what)
        if not given.dtype.is_floating:
            raise GraphTypeError(f"{what} must having floating type.")
        if probs is None:
            if is_categorical:
                given = with_classes(given) if validate_args else given
                return given, softmax(given, name="probs")
            return given, apply_op("Sigmoid", given, name="probs")
        given = _checked_probs(given, is_categorical) if validate_args else given
        with name_scope("logits"):
            log = apply_op("Log", given)
            return (log if is_categorical else log - apply_op("Log1p", -1.0 * given)), given


def _checked_probs(probs: Tensor, is_categorical: bool) -> Tensor:
    one = constant(1.0, probs.dtype.base_dtype)
    checks = [assert_non_negative(probs)]
    if is_categorical:
        probs = with_classes(probs)
        checks.append(assert_near(reduce_sum(probs, -1), one, message="probs does not sum to 1."))
    else:
        checks.append(assert_less_equal(probs, one, message="probs has components greater than 1."))
    checked: Tensor = with_dependencies(checks, probs)
    return checked


def with_classes(parameter: Tensor) -> Tensor:
    """Return a parameter that has two classes or more along its last dimension; checked in a run if it is not static.

    Raises:
        GraphValueError: it has fewer.
    """
    message = "A categorical-distribution parameter must have at least 2 events."
    if parameter.dims is not None and not parameter.dims:
        raise GraphValueError("A categorical-distribution parameter must have at least 1 dimension.")
    count = parameter.dims[-1] if parameter.dims else None
    if count is not None:
        if count < 2:
            raise GraphValueError(message)
        return parameter
    check = assert_greater_equal(shape(parameter)[-1], 2, message=message)
    checked: Tensor = with_dependencies([check], parameter)
    return checked


# Counts


def whole_numbers(x: Tensor) -> Tensor:
    """Return x after checks that it is not negative and has no fractions."""
    checks = [assert_non_negative(x, message=f"'{x.name}' must be non-negative.")]
    if not x.dtype.is_integer:
        message = f"'{x.name}' cannot contain fractional components."
        checks.append(assert_equal(x, apply_op("Floor", x), message=message))
    checked: Tensor = with_dependencies(checks, x)
    return checked


def classes_of(event: Any, dtype: Any, validate_args: bool) -> Tensor:
    """Return numbers of classes as integers of `dtype`; floats must be whole if they are validated."""
    given = convert_to_tensor(event)
    given = whole_numbers(given) if validate_args else given
    found: Tensor = cast(given, dtype)
    return found


def log_combinations(n: Tensor, counts: Tensor) -> Tensor:
    """Return the logarithm of the number of sequences of n classes with these counts of each class."""
    with name_scope("log_combinations", values=[n, counts]):
        ways = reduce_sum(apply_op("Lgamma", counts + 1), axis=[-1])
        return apply_op("Lgamma", n + 1) - ways


# Seeds


def new_seed(seed: int | None, salt: str) -> int | None:
    """Return another seed that depends on a seed and a word."""
    if seed is None:
        return None
    digest = hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:8], 16) & 0x7FFFFFFF


def not_a_number(dims: Any, dtype: dtypes.DType) -> Tensor:
    """Return NaN in a shape."""
    return apply_op("Fill", dims, constant(np.nan, dtype), name="nan")
