"""Distributions over classes for candidate samplers, drawn from the words of a Philox stream as TensorFlow does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.formats.sequential_files import read_whole
from aioexec.graph.kernels.kernel import Attrs
from aioexec.ops.random import philox
from aioexec.ops.random.philox import Array, Stream


class Words:
    """The words of one run in sequence; generated in chunks."""

    def __init__(self, stream: Stream, count: int) -> None:
        self._key = stream.key
        self._start = stream.reserve(-(-count // 4))
        self._made = 0
        self._left = np.zeros(0, np.uint32)

    def look(self, count: int) -> Array:
        """Return the next words without consuming them."""
        missing = count - len(self._left)
        if missing > 0:
            chunk = max(-(-missing // 4), 64)
            offsets = np.arange(self._made, self._made + chunk, dtype=np.uint64)
            self._made += chunk
            made = philox.words(self._key, self._start, offsets).reshape(-1)
            self._left = np.concatenate([self._left, made])
        return self._left[:count]

    def take(self, count: int) -> Array:
        taken = self.look(count)
        self._left = self._left[count:]
        return taken

    def below(self, limit: int, count: int) -> Array:
        """Draw integers uniformly from [0, limit)."""
        return self._accepted(count, limit, 32, lambda missing: self.take(missing).astype(np.uint64))

    def below_wide(self, limit: int, count: int) -> Array:
        """As `below`, from 64-bit words."""
        return self._accepted(count, limit, 64, self._wide)

    def _wide(self, count: int) -> Array:
        pairs = self.take(2 * count).astype(np.uint64).reshape(-1, 2)
        return pairs[:, 0] | pairs[:, 1] << np.uint64(32)

    def _accepted(self, count: int, limit: int, bits: int, draw: Callable[[int], Array]) -> Array:
        """Draw numbers modulo `limit`, rejecting the lowest ones, which would bias the remainders."""
        rest, parts, missing = (1 << bits) % limit, [], count
        while missing:
            numbers = draw(missing)
            parts.append(numbers[numbers >= rest] % np.uint64(limit))
            missing -= len(parts[-1])
        return np.concatenate(parts).astype(np.int64)

    def unit(self, count: int) -> Array:
        """Draw doubles from [0, 1)."""
        high, low = self.take(2 * count).astype(np.uint64).reshape(-1, 2).T
        bits = np.uint64(1023 << 52) | (high & np.uint64(0xFFFFF)) << np.uint64(32) | low
        return np.asarray(bits.view(np.float64) - 1.0)


class Sampler(Protocol):
    """A distribution over [0, range); `possible` is the number of classes of non-zero probability."""

    possible: int

    def draw(self, words: Words, count: int) -> Array: ...
    def probabilities(self, classes: Array) -> Array: ...
    def learn(self, classes: Array) -> None:
        """Update the distribution by the true classes of a run."""


class Uniform:
    def __init__(self, limit: int) -> None:
        self.limit = self.possible = limit

    def draw(self, words: Words, count: int) -> Array:
        return words.below_wide(self.limit, count)

    def probabilities(self, classes: Array) -> Array:
        return np.full(classes.shape, np.float32(1.0 / self.limit))

    def learn(self, classes: Array) -> None:
        pass


class LogUniform(Uniform):
    """Log-uniform (Zipfian), for classes sorted by descending frequency."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.log_range = float(np.log1p(limit))

    def draw(self, words: Words, count: int) -> Array:
        chosen = np.exp(words.unit(count) * self.log_range)
        return (np.minimum(chosen, _LARGEST_DOUBLE).astype(np.int64) - 1) % self.limit

    def probabilities(self, classes: Array) -> Array:
        return np.asarray(np.log((classes + 2.0) / (classes + 1.0)) / self.log_range, np.float32)


_LARGEST_DOUBLE = float(2**63 - 1024)  # the largest double below 2^63


class Learned:
    """The frequencies of the true classes seen so far, starting from 1 each."""

    def __init__(self, limit: int) -> None:
        if limit >= _MOST_LEARNED:
            raise InvalidArgumentError(f"range_max must be below {_MOST_LEARNED} to be learned, got {limit}")
        self.possible = limit
        self.weights = np.ones(limit, np.int64)

    def draw(self, words: Words, count: int) -> Array:
        total = np.cumsum(self.weights)
        if total[-1] >= 1 << 32:
            raise InvalidArgumentError(f"more than {1 << 32} classes were learned from")
        return np.searchsorted(total, words.below(int(total[-1]), count), side="right")

    def probabilities(self, classes: Array) -> Array:
        return np.asarray(self.weights[classes] / self.weights.sum(), np.float32)

    def learn(self, classes: Array) -> None:
        np.add.at(self.weights, classes.reshape(-1), 1)


_MOST_LEARNED = 2**31 - 1


class Fixed:
    """Given weights, drawn by the alias method: a uniform class, then this class or its alias."""

    def __init__(self, weights: Array) -> None:
        self.weights = weights
        self.total = np.float32(np.sum(weights, dtype=np.float32))
        if not 0 < self.total < np.inf or np.any(weights < 0):
            raise InvalidArgumentError(
                "the weights of the classes must be finite, not negative, and not all 0"
            )
        self.possible = int(np.count_nonzero(weights))
        shares, aliases = _aliases(weights)
        self.shares, self.aliases = np.array(shares), np.array(aliases)

    def draw(self, words: Words, count: int) -> Array:
        """Draw classes; each takes two words, and more where the second word is rejected as biased."""
        limit, parts, missing = len(self.weights), [], count
        rest = (1 << 32) % limit
        while missing:
            pairs = words.look(2 * missing).reshape(-1, 2)
            refused = np.flatnonzero(pairs[:, 1] < rest)
            good = int(refused[0]) if len(refused) else missing
            parts.append(self._chosen(pairs[:good, 0], pairs[:good, 1].astype(np.int64) % limit))
            words.take(2 * good)
            missing -= good
            if missing:
                parts.append(self._chosen(words.take(1), words.below(limit, 1)))
                missing -= 1
        return np.concatenate(parts)

    def _chosen(self, words: Array, places: Array) -> Array:
        share = (np.uint32(127 << 23) | words & np.uint32(0x7FFFFF)).view(np.float32) - np.float32(1)
        return np.where(share < self.shares[places], places, self.aliases[places])

    def probabilities(self, classes: Array) -> Array:
        return np.asarray(self.weights[classes] / self.total, np.float32)

    def learn(self, classes: Array) -> None:
        pass


def _aliases(weights: Array) -> tuple[list[float], list[int]]:
    """Return the alias table: the probability of keeping each class, and its alias."""
    count = len(weights)
    total = float(np.sum(weights, dtype=np.float64))
    shares = [float(weight) * count / total for weight in weights]
    aliases = [-1] * count
    low = [k for k, share in enumerate(shares) if share < 1.0]
    high = [k for k, share in enumerate(shares) if not share < 1.0]
    while high and low:
        poor, rich = low.pop(), high.pop()
        aliases[poor] = rich
        shares[rich] -= 1.0 - shares[poor]
        (low if shares[rich] < 1.0 else high).append(rich)
    for k in (*low, *high):  # left over by rounding
        shares[k], aliases[k] = 1.0, k
    return [float(np.float32(share)) for share in shares], aliases


def fixed(attrs: Attrs) -> Fixed:
    shards, shard = attrs["num_shards"], attrs["shard"]
    if shard >= shards:
        raise InvalidArgumentError(f"shard must be below num_shards {shards}, got {shard}")
    if bool(attrs["vocab_file"]) == bool(attrs["unigrams"]):
        raise InvalidArgumentError("Must provide either vocab_file or unigrams, and not both")
    counts = list(attrs["unigrams"]) or list(_counts_in(attrs["vocab_file"]))
    kept = [0.0] * attrs["num_reserved_ids"]
    first = len(kept)
    distortion = np.float32(attrs["distortion"])
    for number, count in enumerate(counts):
        if (first + number) % shards == shard:
            kept.append(float(np.float32(count) ** distortion))
    if len(kept) != attrs["range_max"]:
        raise InvalidArgumentError(f"range_max is {attrs['range_max']}, but there are {len(kept)} weights")
    return Fixed(np.array(kept, np.float32))


def _counts_in(path: str) -> Iterator[float]:
    """Return the last field of each line of a vocabulary file."""
    for line in read_whole(path).splitlines():
        try:
            yield float(line.split(b",")[-1])
        except ValueError:
            raise InvalidArgumentError(f"wrong vocabulary format in {path!r} at line {line!r}") from None
