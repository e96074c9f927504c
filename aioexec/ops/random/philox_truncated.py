"""Truncated normal numbers, drawn as TensorFlow does: in batches, each with its own parameters.

Batches are consecutive in the stream: one begins where the previous one stopped. (TensorFlow draws many batches on several
threads with separate ranges; then only the numbers of its first range are the same.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import InternalError
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.ops.random.philox import Array, normal, uniform, words

_ITERATIONS = 1000  # consecutive rejections before an error
_INSIDE = 1.3  # standard deviations from the mean to a limit from which plain normal draws are tried
_BATCH = 100  # numbers per batch if all batches have the same parameters
_BLOCKS = 1 << 12  # counter blocks drawn at a time

Attempt = Callable[[int], tuple[Array, Array]]
"""A number of attempts to numbers, one row per attempt, and which of them are accepted."""


def batches_of(shape: Sequence[int], same: bool) -> tuple[int, int]:
    """Return the number and the size of batches; `same`: whether all have the same parameters."""
    count, size = int(shape[0]), int(np.prod(shape[1:], dtype=np.int64))
    return (-(-count * size // _BATCH), _BATCH) if same else (count, size)


def reserved_for_truncated(batches: int, size: int) -> int:
    """Return the number of counters to reserve."""
    return batches * 2 * _ITERATIONS * (size + 3) // 4


@dataclass(slots=True)
class Batches:
    """The stream of batches; `position` is the offset of the next counter."""

    key: int
    start: int
    dtype: np.dtype[Any]
    position: int = 0

    def draw(self, size: int, mean: Any, deviation: Any, least: Any, greatest: Any) -> Array:
        """Draw one batch; the limits are ordered, and at least one is finite."""
        if (np.isinf(least) and least < 0) or greatest < mean:
            least, greatest, deviation = greatest, least, -deviation
        with np.errstate(all="ignore"):
            low, high = (least - mean) / deviation, (greatest - mean) / deviation
            drawn = self._accepted(size, self._method(low, high))
            return np.asarray(drawn * deviation + mean, self.dtype)

    def _method(self, low: Any, high: Any) -> tuple[int, Attempt]:
        """Return the counters per attempt, and the function that attempts."""
        two, four = self.dtype.type(2), self.dtype.type(4)
        root = np.sqrt(low * low + four)
        cutoff = two * np.exp(self.dtype.type(0.5) + low * (low - root) / four) / (low + root)
        if (low < -_INSIDE and high >= 0) or (high > _INSIDE and low <= 0):
            return 1, lambda attempts: self._propose_normal(attempts, low, high)
        if high - low < cutoff:
            return 2, lambda attempts: self._propose_uniform(attempts, low, high)
        return 1, lambda attempts: self._propose_exponential(attempts, low, high)

    def _accepted(self, size: int, method: tuple[int, Attempt]) -> Array:
        """Return the first `size` accepted numbers; the stream continues after the last attempt used.

        Raises:
            InternalError: `_ITERATIONS` consecutive numbers were rejected, as many as TensorFlow tries.
        """
        counters, attempt = method
        parts: list[Array] = []
        missing, rejected = size, 0
        while missing:
            check_cancelled()
            blocks = min(_BLOCKS, max(16, missing))
            numbers, accepted = attempt(blocks)
            places = np.flatnonzero(accepted)[:missing]
            parts.append(numbers.reshape(-1)[places])
            missing -= len(places)
            rejected = 0 if len(places) else rejected + numbers.size
            if rejected > _ITERATIONS:
                raise InternalError("TruncatedNormal rejection sampler failed to accept a sample")
            taken = blocks if missing else int(places[-1]) // numbers.shape[1] + 1
            self.position += taken * counters
        return np.concatenate(parts) if parts else np.zeros(0, self.dtype)

    def _words(self, counters: int) -> Array:
        return words(
            self.key, self.start, np.arange(self.position, self.position + counters, dtype=np.uint64)
        )

    def _propose_normal(self, attempts: int, low: Any, high: Any) -> tuple[Array, Array]:
        numbers = normal(self.dtype)(self._words(attempts))
        return numbers, (numbers >= low) & (numbers <= high)

    def _propose_uniform(self, attempts: int, low: Any, high: Any) -> tuple[Array, Array]:
        """Propose uniformly between the limits; accept in proportion to the density."""
        drawn = uniform(self.dtype)(self._words(2 * attempts))
        numbers = drawn[0::2] * (high - low) + low
        most = self.dtype.type(0) if low < 0 else low * low
        return numbers, drawn[1::2] <= np.exp((most - numbers * numbers) / self.dtype.type(2))

    def _propose_exponential(self, attempts: int, low: Any, high: Any) -> tuple[Array, Array]:
        """Propose exponentially from the lower limit, with the rate of highest acceptance."""
        two = self.dtype.type(2)
        rate = (low + np.sqrt(low * low + self.dtype.type(4))) / two
        drawn = uniform(self.dtype)(self._words(attempts))
        numbers = -np.log(drawn[:, 0::2]) / rate + low
        x = numbers - rate if low < rate else np.broadcast_to(low - rate, numbers.shape)
        return numbers, (drawn[:, 1::2] <= np.exp(-x * x / two)) & (numbers < high)
