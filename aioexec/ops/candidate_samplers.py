"""Candidate samplers: some classes drawn at random in the place of all, and how often each was to be expected.

The draws are TensorFlow's for given seeds: words of a Philox stream, of which each run takes 2048 for a sample it has to make.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops import philox
from aioexec.ops.philox import Stream
from aioexec.ops.random import get_seed
from aioexec.shapes import Dims, with_rank

Array = np.ndarray[Any, Any]

WORDS_PER_SAMPLE = 2048
MOST_TRIES = 1 << 31


class Words:
    """The words of one run, one after the other; made by the chunk."""

    def __init__(self, stream: Stream, count: int) -> None:
        self._key = stream.key
        self._start = stream.reserve(-(-count // 4))
        self._made = 0
        self._left = np.zeros(0, np.uint32)

    def take(self, count: int) -> Array:
        while len(self._left) < count:
            chunk = max(count, 256)
            offsets = np.arange(self._made, self._made + chunk, dtype=np.uint64)
            self._made += chunk
            self._left = np.concatenate(
                [self._left, philox.words(self._key, self._start, offsets).reshape(-1)]
            )
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def below(self, limit: int) -> int:
        """A number in [0, limit), each as likely as any other."""
        if limit & (limit - 1) == 0:
            return int(self.take(1)[0]) & (limit - 1)
        rest = (1 << 32) % limit
        while True:
            word = int(self.take(1)[0])
            if word >= rest:
                return word % limit

    def below_wide(self, limit: int) -> int:
        """The same by numbers of 64 bits."""
        rest = (1 << 64) % limit
        while True:
            low, high = (int(word) for word in self.take(2))
            wide = low | high << 32
            if limit & (limit - 1) == 0:
                return wide & (limit - 1)
            if wide >= rest:
                return wide % limit

    def unit(self) -> float:
        """A double in [0, 1)."""
        high, low = (int(word) for word in self.take(2))
        bits = np.array(1023 << 52 | (high & 0xFFFFF) << 32 | low, np.uint64)
        return float(bits.view(np.float64)) - 1.0

    def unit_single(self) -> float:
        """A float of single precision in [0, 1)."""
        word = int(self.take(1)[0])
        return float(np.array(127 << 23 | word & 0x7FFFFF, np.uint32).view(np.float32)) - 1.0


class Sampler(Protocol):
    """A distribution over [0, range)."""

    def draw(self, words: Words) -> int: ...
    def probabilities(self, classes: Array) -> Array: ...
    def learn(self, classes: Array) -> None:
        """Take the true classes of a run into account."""


class Uniform:
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def draw(self, words: Words) -> int:
        return words.below_wide(self.limit)

    def probabilities(self, classes: Array) -> Array:
        return np.full(classes.shape, np.float32(1.0 / self.limit))

    def learn(self, classes: Array) -> None:
        pass


class LogUniform(Uniform):
    """Classes sorted by how frequent they are, as words by Zipf's law."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.log_range = float(np.log1p(limit))

    def draw(self, words: Words) -> int:
        return (int(np.exp(words.unit() * self.log_range)) - 1) % self.limit

    def probabilities(self, classes: Array) -> Array:
        return np.asarray(np.log((classes + 2.0) / (classes + 1.0)) / self.log_range, np.float32)


class Learned:
    """As often as a class was seen among the true ones, plus once."""

    def __init__(self, limit: int) -> None:
        self.weights = np.ones(limit, np.int64)

    def draw(self, words: Words) -> int:
        total = np.cumsum(self.weights)
        return int(np.searchsorted(total, words.below(int(total[-1])), side="right"))

    def probabilities(self, classes: Array) -> Array:
        return np.asarray(self.weights[classes] / self.weights.sum(), np.float32)

    def learn(self, classes: Array) -> None:
        np.add.at(self.weights, classes.reshape(-1), 1)


class Fixed:
    """By given weights, drawn by the alias method: a place, then it or its alias."""

    def __init__(self, weights: Array) -> None:
        self.weights = weights
        self.total = np.float32(np.sum(weights, dtype=np.float32))
        self.shares, self.aliases = _aliases(weights)

    def draw(self, words: Words) -> int:
        share = words.unit_single()
        place = words.below(len(self.weights))
        return place if share < self.shares[place] else self.aliases[place]

    def probabilities(self, classes: Array) -> Array:
        return np.asarray(self.weights[classes] / self.total, np.float32)

    def learn(self, classes: Array) -> None:
        pass


def _aliases(weights: Array) -> tuple[list[float], list[int]]:
    """What each place keeps of its share, and who gets the rest."""
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
    for k in (*low, *high):  # what rounding left over
        shares[k], aliases[k] = 1.0, k
    return [float(np.float32(share)) for share in shares], aliases


def _fixed(attrs: Attrs) -> Fixed:
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
    """The last field of each line of a vocabulary."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(",")
            try:
                yield float(fields[-1])
            except ValueError:
                raise InvalidArgumentError(f"wrong vocabulary format in {path!r} at line {line!r}") from None


# Kernels


def _expected(probabilities: Array, samples: int, tries: int) -> Array:
    if tries == samples:
        return np.asarray(probabilities * np.float32(samples), np.float32)
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(tries * np.log1p(-probabilities.astype(np.float64))), np.float32)


def _check_classes(classes: Array, count: int, limit: int | None) -> None:
    if classes.ndim != 2 or classes.shape[1] != count:
        raise InvalidArgumentError(
            f"true_classes must have {count} columns, expected: {count} was: {list(classes.shape)}"
        )
    if limit is not None and classes.size and (classes.min() < 0 or classes.max() >= limit):
        raise InvalidArgumentError(
            f"true_classes must be in [0, {limit}), got {classes.reshape(-1).tolist()}"
        )


def _draws(sampler: Sampler, words: Words, count: int, unique: bool) -> tuple[Array, int]:
    """The samples, and how many tries they took."""
    if not unique:
        return np.array([sampler.draw(words) for _ in range(count)], np.int64), count
    found: dict[int, None] = {}
    tries = 0
    while len(found) < count:
        tries += 1
        if tries >= MOST_TRIES:
            raise InvalidArgumentError(f"no {count} different classes in {MOST_TRIES} draws")
        found[sampler.draw(words)] = None
    return np.array(list(found), np.int64), tries


def _kernel(make: Callable[[Attrs], Sampler]) -> Callable[[KernelContext], Compute]:
    def bind(context: KernelContext) -> Compute:
        attrs = context.attrs
        count, limit, unique = attrs["num_sampled"], attrs["range_max"], attrs["unique"]
        if unique and count > limit:
            raise InvalidArgumentError(
                f"Sampler's range is too small: {count} unique samples of {limit} classes"
            )
        sampler, stream = make(attrs), Stream(attrs["seed"], attrs["seed2"])
        lock = threading.Lock()

        def compute(true_classes: Array) -> tuple[Array, Array, Array]:
            _check_classes(true_classes, attrs["num_true"], limit)
            words = Words(stream, WORDS_PER_SAMPLE * count)
            with lock:
                drawn, tries = _draws(sampler, words, count, unique)
                expected = [
                    _expected(sampler.probabilities(each), count, tries) for each in (true_classes, drawn)
                ]
                sampler.learn(true_classes)
            return drawn, expected[0], expected[1]

        return compute

    return bind


def _all_kernel(context: KernelContext) -> Compute:
    count = context.attrs["num_sampled"]

    def compute(true_classes: Array) -> tuple[Array, Array, Array]:
        _check_classes(true_classes, context.attrs["num_true"], count)
        ones = np.ones(count, np.float32)
        return np.arange(count, dtype=np.int64), np.ones(true_classes.shape, np.float32), ones

    return compute


def _hits_kernel(context: KernelContext) -> Compute:
    """Where a true class was drawn: its row, the number of the sample, and a weight that rules it out."""
    count = context.attrs["num_true"]

    def compute(true_classes: Array, sampled: Array) -> tuple[Array, Array, Array]:
        _check_classes(true_classes, count, None)
        if sampled.ndim != 1:
            raise InvalidArgumentError(
                f"sampled_candidates must be a vector, got shape {list(sampled.shape)}"
            )
        places = {int(each): place for place, each in enumerate(sampled)}
        hits = [
            (row, places[int(each)])
            for row, classes in enumerate(true_classes)
            for each in classes
            if int(each) in places
        ]
        rows, ids = (np.array([hit[k] for hit in hits], dtype) for k, dtype in ((0, np.int32), (1, np.int64)))
        return rows, ids, np.full(len(hits), np.finfo(np.float32).min)

    return compute


# Rows


def _sample_shape(context: ShapeContext) -> Sequence[Dims]:
    classes = with_rank(context.inputs[0], 2)
    assert classes is not None
    count = context.attrs["num_true"]
    if classes[1] not in (None, count):
        raise GraphValueError(f"Dimensions must be equal, but are {classes[1]} and {count}")
    samples = (context.attrs["num_sampled"],)
    return [samples, (classes[0], count), samples]


def _hits_shape(context: ShapeContext) -> Sequence[Dims]:
    classes = with_rank(context.inputs[0], 2)
    with_rank(context.inputs[1], 1)
    assert classes is not None
    if classes[1] not in (None, context.attrs["num_true"]):
        raise GraphValueError(
            f"Dimensions must be equal, but are {classes[1]} and {context.attrs['num_true']}"
        )
    return [(None,)] * 3


_OUTPUTS = "(sampled_candidates:int64, true_expected_count:float, sampled_expected_count:float)"
_COUNTS = "num_true:int>=1; num_sampled:int>=1; unique:bool"
_SEEDS = "seed:int=0; seed2:int=0"

_SAMPLERS: tuple[tuple[str, Callable[[Attrs], Sampler], str], ...] = (
    ("Uniform", lambda attrs: Uniform(attrs["range_max"]), ""),
    ("LogUniform", lambda attrs: LogUniform(attrs["range_max"]), ""),
    ("LearnedUnigram", lambda attrs: Learned(attrs["range_max"]), ""),
    ("ThreadUnsafeUnigram", lambda attrs: Learned(attrs["range_max"]), ""),
    (
        "FixedUnigram",
        _fixed,
        "; vocab_file:string=''; distortion:float=1.0; num_reserved_ids:int=0; num_shards:int>=1=1; shard:int>=0=0; "
        "unigrams:list(float)=[]",
    ),
)

for _name, _make, _attrs in _SAMPLERS:
    register(
        f"{_name}CandidateSampler(true_classes:int64) -> {_OUTPUTS} "
        f"[{_COUNTS}; range_max:int>=1{_attrs}; {_SEEDS}] {{stateful}}",
        shape=_sample_shape,
        kernel=_kernel(_make),
        gradient=undefined_gradient,
    )

register(
    f"AllCandidateSampler(true_classes:int64) -> {_OUTPUTS} [{_COUNTS}; {_SEEDS}] {{stateful}}",
    shape=_sample_shape,
    kernel=_all_kernel,
    gradient=undefined_gradient,
)
register(
    "ComputeAccidentalHits(true_classes:int64, sampled_candidates:int64) -> (indices:int32, ids:int64, weights:float) "
    f"[num_true:int; {_SEEDS}]",
    shape=_hits_shape,
    kernel=_hits_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)

# Public functions


def _sample(op_type: str, true_classes: Any, seed: int | None, name: str | None, **attrs: Any) -> Any:
    one, other = get_seed(seed)
    return apply_op(op_type, true_classes, name=name, seed=one, seed2=other, **attrs)


def _sampler(op_type: str, meaning: str) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    def sampler(
        true_classes: Any,
        num_true: int,
        num_sampled: int,
        unique: bool,
        range_max: int,
        seed: int | None = None,
        name: str | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        attrs = {"num_true": num_true, "num_sampled": num_sampled, "unique": unique, "range_max": range_max}
        return _sample(op_type, true_classes, seed, name, **attrs)  # type: ignore[no-any-return]

    sampler.__doc__ = f"""Draw `num_sampled` of `range_max` classes, {meaning}.

    Returns:
        The classes, and how often each of `true_classes` [batch, num_true] and of them was to be expected.
    """
    return sampler


uniform_candidate_sampler = _sampler("UniformCandidateSampler", "all alike")
log_uniform_candidate_sampler = _sampler("LogUniformCandidateSampler", "the first ones most often")
learned_unigram_candidate_sampler = _sampler(
    "LearnedUnigramCandidateSampler", "as often as they were among the true ones"
)


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw classes by weights that are given, in a file or as `unigrams`; see `uniform_candidate_sampler`."""
    return _sample(  # type: ignore[no-any-return]
        "FixedUnigramCandidateSampler",
        true_classes,
        seed,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=list(unigrams),
    )


def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Take all `num_sampled` classes."""
    attrs = {"num_true": num_true, "num_sampled": num_sampled, "unique": unique}
    return _sample("AllCandidateSampler", true_classes, seed, name, **attrs)  # type: ignore[no-any-return]


def compute_accidental_hits(
    true_classes: Any,
    sampled_candidates: Any,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Where true classes are among the sampled ones: rows, numbers of samples, and weights to add to their logits."""
    one, other = get_seed(seed)
    return apply_op(  # type: ignore[no-any-return]
        "ComputeAccidentalHits",
        true_classes,
        sampled_candidates,
        name=name,
        num_true=num_true,
        seed=one,
        seed2=other,
    )
