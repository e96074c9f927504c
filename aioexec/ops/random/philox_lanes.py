"""Distributions with rejection: each output has a range of counters of its own.

An output thus does not depend on how many are drawn. Outputs are drawn in parallel lanes, which drop out when accepted. Lanes
with invalid parameters never accept; after `_ATTEMPTS` attempts, far more than valid ones take, they yield NaN or 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.ops.random.philox import RESERVED_PER_OUTPUT, Array, Convert, normal, uniform, words

_CHUNK = 1 << 14
_ATTEMPTS = 1000
_DOUBLE = np.dtype(np.float64)
_FARTHEST = 40.0  # standard deviations from the mean, beyond any draw
_FEW = 10.0  # Poisson rate from which rejection replaces counting


@dataclass(slots=True)
class _Pairs:
    """Numbers generated in pairs: `values`, and how many of them are `left`; the last one is used first."""

    convert: Convert
    values: Array
    left: Array


@dataclass(slots=True)
class Lanes:
    """One stream per output; `used` is the number of counters that each has consumed."""

    key: int
    start: int
    outputs: Array
    used: Array = field(init=False)
    _uniform: _Pairs = field(init=False)
    _normal: _Pairs = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.outputs)
        self.used = np.zeros(count, np.uint64)
        self._uniform, self._normal = (
            _Pairs(convert(_DOUBLE), np.zeros((count, 2)), np.zeros(count, np.int64))
            for convert in (uniform, normal)
        )

    def uniform(self, lanes: Array) -> Array:
        """Return the next number in [0, 1) of each of these lanes."""
        return self._next(self._uniform, lanes)

    def normal(self, lanes: Array) -> Array:
        """Return the next standard normal number of each of these lanes."""
        return self._next(self._normal, lanes)

    def _next(self, pairs: _Pairs, lanes: Array) -> Array:
        empty = lanes[pairs.left[lanes] == 0]
        if len(empty):
            places = self.outputs[empty] * np.uint64(RESERVED_PER_OUTPUT) + self.used[empty]
            pairs.values[empty] = pairs.convert(words(self.key, self.start, places))
            pairs.left[empty] = 2
            self.used[empty] += np.uint64(1)
        pairs.left[lanes] -= 1
        return pairs.values[lanes, pairs.left[lanes]]


def _by_parameter(
    key: int, start: int, parameters: Array, count: int, draw: Callable[[Lanes, Array], Array]
) -> Array:
    """Draw `count` outputs for each parameter: [count, parameters]; outputs of a parameter use consecutive counters."""
    total = len(parameters) * count
    result = np.zeros(total)
    for outputs in _chunks(total):
        check_cancelled()
        result[outputs.astype(np.int64)] = draw(
            Lanes(key, start, outputs), parameters[outputs.astype(np.int64) // count].astype(np.float64)
        )
    return result.reshape(len(parameters), count).T


def _chunks(total: int) -> Iterator[Array]:
    for first in range(0, total, _CHUNK):
        yield np.arange(first, min(first + _CHUNK, total), dtype=np.uint64)


# Gamma


def gamma(key: int, start: int, alphas: Array, count: int) -> Array:
    """Draw gamma distributed numbers of scale 1, [count, alphas] in float64 (Marsaglia and Tsang, 2000)."""
    return _by_parameter(key, start, alphas, count, _gamma)


def _gamma(lanes: Lanes, alpha: Array) -> Array:
    result = np.full(len(alpha), np.nan)
    exponential = np.flatnonzero(alpha == 1)
    result[exponential] = -np.log1p(-lanes.uniform(exponential))
    active = np.flatnonzero((alpha > 0) & (alpha != 1))
    for _ in range(_ATTEMPTS):
        if not len(active):
            break
        check_cancelled()
        accepted, values = _gamma_attempt(lanes, active, alpha[active])
        result[active[accepted]] = values[accepted]
        active = active[~accepted]
    return result


def _gamma_attempt(lanes: Lanes, active: Array, alpha: Array) -> tuple[Array, Array]:
    d = alpha + np.where(alpha < 1, 2.0 / 3, -1.0 / 3)
    x = lanes.normal(active)
    v = 1 + 1.0 / 3 / np.sqrt(d) * x
    positive = v > 0
    v = v * v * v
    u = np.ones(len(active))
    u[positive] = lanes.uniform(active[positive])
    with np.errstate(all="ignore"):
        squeezed = u < 1 - 0.0331 * (x * x) * (x * x)
        accepted = positive & (squeezed | (np.log(u) < 0.5 * x * x + d * (1 - v + np.log(v))))
    values = d * v
    small = accepted & (alpha < 1)
    values[small] *= np.power(lanes.uniform(active[small]), 1 / alpha[small])
    return accepted, values


# Poisson


def poisson(key: int, start: int, rates: Array, count: int, highest: float) -> Array:
    """Draw Poisson distributed numbers up to `highest`, [count, rates] in float64."""
    return _by_parameter(key, start, rates, count, lambda lanes, rate: _poisson(lanes, rate, highest))


def _poisson(lanes: Lanes, rate: Array, highest: float) -> Array:
    result = np.full(len(rate), np.nan)
    few = np.flatnonzero(rate < _FEW)
    result[few] = _poisson_counted(lanes, few, rate[few])
    with np.errstate(invalid="ignore"):
        least = rate - _FARTHEST * np.sqrt(np.maximum(rate, 0))
    active = np.flatnonzero((rate >= _FEW) & np.isfinite(rate) & (least <= highest))
    for _ in range(_ATTEMPTS):
        if not len(active):
            break
        check_cancelled()
        accepted, values = _poisson_attempt(lanes, active, rate[active], highest)
        result[active[accepted]] = values[accepted]
        active = active[~accepted]
    return result


def _poisson_counted(lanes: Lanes, few: Array, rate: Array) -> Array:
    """Count arrivals within unit time (Knuth's method)."""
    limit, product, count = np.exp(-rate), np.ones(len(few)), np.zeros(len(few))
    active = np.arange(len(few))
    while len(active):
        product[active] *= lanes.uniform(few[active])
        active = active[product[active] > limit[active]]
        count[active] += 1
    return count


def _poisson_attempt(lanes: Lanes, active: Array, rate: Array, highest: float) -> tuple[Array, Array]:
    """Attempt once by transformed rejection, with the constants of algorithm PTRS (Hörmann, 1993)."""
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    u = lanes.uniform(active) - 0.5
    v = lanes.uniform(active)
    shifted = 0.5 - np.abs(u)
    with np.errstate(all="ignore"):
        k = np.floor((2 * a / shifted + b) * u + rate + 0.43)
        inside = (shifted >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        hopeless = (k < 0) | ((shifted < 0.013) & (v > shifted))
        s = np.log(v * inverse_alpha / (a / (shifted * shifted) + b))
        t = -rate + k * np.log(rate) - _log_factorial(k)
    return (k <= highest) & (inside | (~hopeless & (s <= t))), k


def _log_factorial(k: Array) -> Array:
    """Return log(k!); 0 for negative k."""
    from scipy.special import gammaln  # slow to import

    return np.asarray(gammaln(np.maximum(k, 0) + 1))
