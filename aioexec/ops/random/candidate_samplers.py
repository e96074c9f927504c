"""Candidate samplers: draw some classes at random, and return the expected count of each.

The draws equal TensorFlow's for given seeds: words of a Philox stream, of which each run reserves 2048 per sample.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_tuple_op
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.kernels.work import UNBOUNDED, Work, per_element, unbounded
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.random.candidate_distributions import Learned, LogUniform, Sampler, Uniform, Words, fixed
from aioexec.ops.random.philox import Array, Stream
from aioexec.ops.random.random_ops import get_seed
from aioexec.shapes import Dims, with_rank

WORDS_PER_SAMPLE = 2048
TRIES_PER_SAMPLE = 1000
"""Average draws per unique sample before an error; TensorFlow reserves words for as many."""
LEAST_TRIES = 1 << 20
"""Minimum draws before an error, since a rare class may take many, and they are cheap."""
_MOST_AT_ONCE = 1 << 14


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
    """Return the samples, and the number of draws that they took."""
    samples = np.empty(count, np.int64)  # allocated first: too large a request fails before drawing
    if not unique:
        for first in range(0, count, _MOST_AT_ONCE):
            check_cancelled()
            part = samples[first : first + _MOST_AT_ONCE]
            part[:] = sampler.draw(words, len(part))
        return samples, count
    found: dict[int, None] = {}
    tries, most = 0, max(TRIES_PER_SAMPLE * count, LEAST_TRIES)
    while len(found) < count:
        check_cancelled()
        if tries >= most:
            raise InvalidArgumentError(f"no {count} different classes in {tries} draws")
        drawn = sampler.draw(words, min(max(count, tries, 64), _MOST_AT_ONCE))  # doubles the draws each time
        for each in drawn.tolist():
            tries += 1
            found[each] = None
            if len(found) == count:
                break
    samples[:] = list(found)
    return samples, tries


def _kernel(make: Callable[[Attrs], Sampler]) -> Callable[[KernelContext], Compute]:
    def bind(context: KernelContext) -> Compute:
        attrs = context.attrs
        count, limit, unique = attrs["num_sampled"], attrs["range_max"], attrs["unique"]
        if unique and count > limit:
            raise InvalidArgumentError(
                f"Sampler's range is too small: {count} unique samples of {limit} classes"
            )
        sampler, stream = make(attrs), Stream(attrs["seed"], attrs["seed2"])
        lock = threading.Lock() if isinstance(sampler, Learned) else contextlib.nullcontext()
        if unique and count > sampler.possible:
            raise InvalidArgumentError(
                f"Sampler's range is too small: {count} unique samples, and only {sampler.possible} of {limit} classes "
                "have a weight that is not 0"
            )

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


def _work(nanoseconds: float) -> Work:
    """Per sample; unbounded for unique samples, unless the range is so wide that repetitions are rare."""

    def work(attrs: Attrs, inputs: Sequence[Any]) -> float:
        count = attrs["num_sampled"]
        if attrs["unique"] and attrs["range_max"] < _WIDE * count:
            return UNBOUNDED
        return float(_ENTRY_NS + count * nanoseconds + 20 * inputs[0].size)

    return work


_WIDE = 8
_ENTRY_NS = 20_000


def _all_kernel(context: KernelContext) -> Compute:
    count = context.attrs["num_sampled"]

    def compute(true_classes: Array) -> tuple[Array, Array, Array]:
        _check_classes(true_classes, context.attrs["num_true"], count)
        ones = np.ones(count, np.float32)
        return np.arange(count, dtype=np.int64), np.ones(true_classes.shape, np.float32), ones

    return compute


def _hits_kernel(context: KernelContext) -> Compute:
    """Return the kernel of ComputeAccidentalHits: rows, sample positions, and -FLT_MAX as weights."""
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

_SAMPLERS: tuple[tuple[str, Callable[[Attrs], Sampler], Work, str], ...] = (
    ("Uniform", lambda attrs: Uniform(attrs["range_max"]), _work(500), ""),
    ("LogUniform", lambda attrs: LogUniform(attrs["range_max"]), _work(1500), ""),
    ("LearnedUnigram", lambda attrs: Learned(attrs["range_max"]), unbounded, ""),
    ("ThreadUnsafeUnigram", lambda attrs: Learned(attrs["range_max"]), unbounded, ""),
    (
        "FixedUnigram",
        fixed,
        unbounded,
        "; vocab_file:string=''; distortion:float=1.0; num_reserved_ids:int=0; num_shards:int>=1=1; shard:int>=0=0; "
        "unigrams:list(float)=[]",
    ),
)

for _name, _make, _how_long, _attrs in _SAMPLERS:
    register(
        f"{_name}CandidateSampler(true_classes:int64) -> {_OUTPUTS} "
        f"[{_COUNTS}; range_max:int>=1{_attrs}; {_SEEDS}] {{stateful}}",
        shape=_sample_shape,
        kernel=_kernel(_make),
        gradient=undefined_gradient,
        work=_how_long,
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
    work=per_element(200),
)

# Public functions


def _sample(
    op_type: str, true_classes: Any, seed: int | None, name: str | None, **attrs: Any
) -> tuple[Tensor, Tensor, Tensor]:
    one, other = get_seed(seed)
    sampled, true_expected, sampled_expected = apply_tuple_op(
        op_type, true_classes, name=name, seed=one, seed2=other, **attrs
    )
    return sampled, true_expected, sampled_expected


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
        return _sample(op_type, true_classes, seed, name, **attrs)

    sampler.__doc__ = f"""Draw `num_sampled` of `range_max` classes {meaning}.

    Returns:
        The classes, and the expected counts of `true_classes` [batch, num_true] and of the classes drawn.
    """
    return sampler


uniform_candidate_sampler = _sampler("UniformCandidateSampler", "uniformly")
log_uniform_candidate_sampler = _sampler("LogUniformCandidateSampler", "log-uniformly (Zipf's law)")
learned_unigram_candidate_sampler = _sampler(
    "LearnedUnigramCandidateSampler", "in proportion to their frequency among true classes so far"
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
    """Draw classes by weights given in a file or as `unigrams`; see `uniform_candidate_sampler`."""
    return _sample(
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
    """Return all `num_sampled` classes."""
    attrs = {"num_true": num_true, "num_sampled": num_sampled, "unique": unique}
    return _sample("AllCandidateSampler", true_classes, seed, name, **attrs)


def compute_accidental_hits(
    true_classes: Any,
    sampled_candidates: Any,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Find sampled classes that are true classes: return rows, sample positions, and weights to add to their logits."""
    one, other = get_seed(seed)
    rows, numbers, weights = apply_tuple_op(
        "ComputeAccidentalHits",
        true_classes,
        sampled_candidates,
        name=name,
        num_true=num_true,
        seed=one,
        seed2=other,
    )
    return rows, numbers, weights
