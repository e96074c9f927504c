"""The generator of TensorFlow's random ops, Philox-4x32-10, and the conversion of its words to numbers.

Philox (Salmon et al., SC'11) maps a 128-bit counter and a 64-bit key to four words, so any part of a stream can be computed
independently, and a run merely *reserves* a range of counters. The key of an op is its first seed; its second seed is the
upper half of the first counter. All functions are pure; only `Stream` has state.
"""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.random import Distribution, RandomRange

Array: TypeAlias = np.ndarray[Any, Any]

_MASK32, _MASK64, _MASK128 = (1 << 32) - 1, (1 << 64) - 1, (1 << 128) - 1
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_LOW = np.uint64(_MASK32)
_WORD = np.uint64(32)
_CHUNK = 1 << 14  # counters at a time: their words fit into the cache

RESERVED_PER_OUTPUT = 256
"""Counters reserved per output, whether used or not: distributions with rejection need several."""


class Stream:
    """The random stream of one node in one session; seeds 0, 0 select a random stream.

    `_position` is the next counter; only `reserve`, which is thread-safe, changes it.
    """

    def __init__(self, seed: int, seed2: int) -> None:
        if seed == 0 and seed2 == 0:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        self.key = seed & _MASK64
        self._position = (seed2 & _MASK64) << 64
        self._lock = threading.Lock()

    def reserve_for(self, size: int) -> int:
        """Reserve counters for `size` outputs of a distribution with rejection; return the first."""
        return self.reserve(size * RESERVED_PER_OUTPUT)

    def reserve(self, count: int) -> int:
        """Reserve `count` counters; return the first."""
        with self._lock:
            start = self._position
            self._position = (start + count) & _MASK128
        return start


def words(key: int, start: int, offsets: Array) -> Array:
    """Return the four words of each counter `start` + offset: [counters, 4] of uint32."""
    low = np.uint64(start & _MASK64) + offsets
    high = np.uint64(start >> 64) + (low < offsets).astype(np.uint64)
    a, b, c, d = low & _LOW, low >> _WORD, high & _LOW, high >> _WORD
    first, second = key & _MASK32, key >> 32
    for _ in range(_ROUNDS):
        one, other = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, b = (other >> _WORD) ^ b ^ np.uint64(first), other & _LOW
        c, d = (one >> _WORD) ^ d ^ np.uint64(second), one & _LOW
        first, second = (first + _KEY_STEPS[0]) & _MASK32, (second + _KEY_STEPS[1]) & _MASK32
    return np.stack([a, b, c, d], axis=1).astype(np.uint32)


Convert = Callable[[Array], Array]
"""Maps words [counters, 4] to numbers [counters, numbers per counter]."""


def fill(key: int, start: int, size: int, convert: Convert) -> Array:
    """Return the first `size` numbers that `convert` computes from the counters starting at `start`."""
    result: Array | None = None
    made = at = 0
    while made < size or result is None:
        check_cancelled()
        count = max(1, min(_CHUNK, -(-(size - made) // 2)))
        part = convert(words(key, start, np.arange(at, at + count, dtype=np.uint64))).reshape(-1)
        if result is None:  # allocated first: too large a request fails before drawing
            result = np.empty(size, part.dtype)
        part = part[: size - made]
        result[made : made + len(part)] = part
        made, at = made + len(part), at + count
    return result


# Words to numbers. A uniform number in [0, 1) is a random mantissa in [1, 2), minus 1.


def uniform(dtype: np.dtype[Any]) -> Convert:
    """Return a conversion to uniform numbers in [0, 1)."""
    if dtype == np.float64:
        return _uniform64
    if dtype == np.float32:
        return _uniform32
    if dtype == np.float16:
        return lambda bits: (bits.astype(np.uint16) & 0x3FF | 0x3C00).view(np.float16) - np.float16(1)
    return lambda bits: (
        (bits.astype(np.uint16) & 0x7F | 0x3F80).view(ml_dtypes.bfloat16) - np.ones((), ml_dtypes.bfloat16)
    )


def _uniform32(bits: Array) -> Array:
    return (bits & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1)


def _uniform64(bits: Array) -> Array:
    upper, lower = bits[:, 0::2].astype(np.uint64) & np.uint64(0xFFFFF), bits[:, 1::2].astype(np.uint64)
    return (upper << _WORD | lower | np.uint64(0x3FF << 52)).view(np.float64) - 1.0


def uniform_int(dtype: np.dtype[Any], low: int, high: int) -> Convert:
    """Return a conversion to integers in [low, high), by a remainder and thus slightly biased, as in TensorFlow."""
    span = high - low
    if dtype.itemsize == 4:
        return lambda bits: ((bits % np.uint32(span)).astype(np.int64) + low).astype(dtype)

    def convert(bits: Array) -> Array:
        wide = whole_words(np.dtype(np.uint64))(bits)
        return (wide % np.uint64(span) + np.uint64(low & _MASK64)).view(dtype)

    return convert


def whole_words(dtype: np.dtype[Any]) -> Convert:
    """Return a conversion to integers of the full range of a 4-byte or 8-byte dtype."""
    if dtype.itemsize == 4:
        return lambda bits: bits.view(dtype)

    def convert(bits: Array) -> Array:
        wide = bits[:, 0::2].astype(np.uint64) | bits[:, 1::2].astype(np.uint64) << _WORD
        return wide.view(dtype)

    return convert


_SMALLEST = 1e-7


def normal(dtype: np.dtype[Any]) -> Convert:
    """Return a conversion to standard normal numbers, in pairs by the Box-Muller transform."""
    if dtype == np.float64:
        return _normal64
    return lambda bits: _normal32(bits).astype(dtype, copy=False)


def _normal32(bits: Array) -> Array:
    chosen = _uniform32(bits)
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(chosen[:, 0::2], np.float32(_SMALLEST))))
    angle = (2 * np.pi * chosen[:, 1::2].astype(np.float64)).astype(np.float32)
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=-1).reshape(len(bits), -1)


def _normal64(bits: Array) -> Array:
    chosen = _uniform64(bits)
    radius = np.sqrt(-2.0 * np.log(np.maximum(chosen[:, :1], _SMALLEST)))
    angle = 2 * np.pi * chosen[:, 1:]
    return np.concatenate([np.sin(angle) * radius, np.cos(angle) * radius], axis=1)


_BOUND = 2.0


def truncated_normal(key: int, start: int, size: int, dtype: np.dtype[Any]) -> Array:
    """Draw standard normal numbers within two standard deviations by rejection.

    Each group of numbers (four; two for float64) has a range of counters of its own.
    """
    convert = _normal64 if dtype == np.float64 else _normal32
    group = 2 if dtype == np.float64 else 4
    stretch = group * RESERVED_PER_OUTPUT // 4
    result = np.empty(size, dtype)  # allocated first: too large a request fails before drawing
    count = -(-size // group)
    for first in range(0, count, _CHUNK):
        groups = np.arange(first, min(first + _CHUNK, count), dtype=np.uint64)
        part = _truncated_groups(key, start, groups, stretch, convert)[: size - first * group]
        result[first * group : first * group + len(part)] = part
    return result


def _truncated_groups(key: int, start: int, groups: Array, stretch: int, convert: Convert) -> Array:
    check_cancelled()
    count = stretch * 4 // RESERVED_PER_OUTPUT
    result = np.zeros((len(groups), count), np.float64 if count == 2 else np.float32)
    filled = np.zeros(len(groups), np.int64)
    active, step = np.arange(len(groups)), 0
    while len(active):
        drawn = convert(words(key, start, groups[active] * np.uint64(stretch) + np.uint64(step)))
        accepted = np.abs(drawn) < _BOUND
        places = filled[active, None] + np.cumsum(accepted, axis=1) - 1
        rows, columns = np.nonzero(accepted & (places < count))
        result[active[rows], places[rows, columns]] = drawn[rows, columns]
        filled[active] += accepted.sum(axis=1)
        active, step = active[filled[active] < count], step + 1
    return result.reshape(-1)


def permutation(key: int, start: int, size: int) -> Array:
    """Return a random permutation of range(size) (Fisher-Yates shuffle)."""
    order = list(range(size))
    draws = fill(key, start, max(size - 1, 0), lambda bits: bits).tolist()
    for i, draw in enumerate(draws):
        j = i + draw % (size - i)
        order[i], order[j] = order[j], order[i]
    return np.array(order, np.int64)


Draw = Callable[[int, int, int], Array]
"""(key, first counter, size) to that many numbers."""

DISTRIBUTIONS: dict[Distribution, Callable[[np.dtype[Any]], Draw]] = {
    "Uniform": lambda dtype: lambda key, start, size: fill(key, start, size, uniform(dtype)),
    "Normal": lambda dtype: lambda key, start, size: fill(key, start, size, normal(dtype)),
    "TruncatedNormal": lambda dtype: lambda key, start, size: truncated_normal(key, start, size, dtype),
    "FullInt": lambda dtype: lambda key, start, size: fill(key, start, size, whole_words(dtype)),
}
"""The distributions without parameters."""


def drawn(distribution: Distribution, dtype: np.dtype[Any], given: RandomRange) -> Array:
    """Return the numbers of one run of a random op."""
    size = math.prod(given.shape)
    if distribution != "UniformInt":
        numbers = DISTRIBUTIONS[distribution](dtype)(given.key, given.start, size)
    elif given.span:
        numbers = fill(given.key, given.start, size, uniform_int(dtype, given.low, given.low + given.span))
    else:
        numbers = np.zeros(size, dtype)
    return numbers.reshape(given.shape)


def scrambled(seed: int, seed2: int) -> tuple[int, int]:
    """Return the key and the first counter for seeds that are values rather than attributes."""
    counter = (seed & _MASK64) | (seed2 & _MASK64) << 64
    one, other, third, fourth = map(int, words(0x02461E293EC8F720, counter, np.zeros(1, np.uint64))[0])
    return one | other << 32, (third | fourth << 32) << 64


def classes(key: int, start: int, logits: Array, count: int) -> Array:
    """Draw `count` classes for each row of unnormalised log-probabilities."""
    size = len(logits) * count
    chosen = fill(key, start, size, _uniform64).reshape(len(logits), count)
    result = np.zeros(chosen.shape, np.int64)
    for row, (scores, places) in enumerate(zip(logits.astype(np.float64), chosen, strict=True)):
        check_cancelled()
        finite = np.isfinite(scores)
        weights = np.where(finite, np.exp(scores - scores[finite].max(initial=-np.inf)), 0.0)
        limits = np.cumsum(weights)
        result[row] = np.searchsorted(limits, places * limits[-1], side="right")
    return result


def reserved_for_classes(rows: int, count: int) -> int:
    """Return the number of counters to reserve for `classes`."""
    return rows * -(-count // 4) * 4 * 2 * RESERVED_PER_OUTPUT
