"""Cases of connectionist temporal classification, computed by summing over all paths."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from tests.ops.harness import Case, case

LOGITS = np.random.default_rng(3).uniform(-1, 1, (4, 2, 3))  # steps, batch, classes; 2 is the blank
PLACES, LABELS = [[0, 0], [0, 1], [1, 0]], [1, 0, 1]
LENGTHS = [4, 3]
REAL = ["float64", "float32"]


def collapsed(path: Sequence[int], blank: int, merges: bool) -> list[int]:
    kept = [label for k, label in enumerate(path) if not (merges and k and label == path[k - 1])]
    return [label for label in kept if label != blank]


def losses(logits: Any, labels: Sequence[Sequence[int]], lengths: Sequence[int], merges: bool = True) -> Any:
    found = []
    for b, (own, length) in enumerate(zip(labels, lengths, strict=True)):
        scores = np.exp(logits[:length, b])
        odds = scores / scores.sum(axis=1, keepdims=True)
        paths = itertools.product(range(logits.shape[2]), repeat=length)
        chosen = [path for path in paths if collapsed(path, logits.shape[2] - 1, merges) == list(own)]
        found.append(-np.log(sum(np.prod(odds[range(length), path]) for path in chosen)))
    return np.array(found)


def expected(labels: Sequence[Sequence[int]], lengths: Sequence[int], merges: bool = True) -> Any:
    def compute(logits: Any, *rest: Any) -> Any:
        found = losses(logits, labels, lengths, merges)
        slopes = np.zeros(logits.shape)
        for place in np.ndindex(logits.shape):
            step = np.zeros(logits.shape)
            step[place] = 1e-6
            change = losses(logits + step, labels, lengths, merges) - losses(
                logits - step, labels, lengths, merges
            )
            slopes[place] = change.sum() / 2e-6
        return found, slopes

    return compute


def ctc() -> Iterator[Case]:
    near = {"dtypes": ["float32"], "tolerance": 1e-4}
    words = expected([[1, 0], [1]], LENGTHS)
    yield case("CTCLoss", LOGITS, PLACES, LABELS, LENGTHS, expected=words, **near)
    yield case("CTCLoss", LOGITS, PLACES, LABELS, LENGTHS, dtypes=REAL, gradients=(0,), differentiated=(0,))
    twice = [[0, 0], [0, 1], [1, 0]], [1, 1, 0]
    flags = {"ctc_merge_repeated": False}
    apart = expected([[1, 1], [0]], LENGTHS, merges=False)
    yield case("CTCLoss", LOGITS, *twice, LENGTHS, attrs=flags, expected=apart, **near)
    yield case("CTCLoss", LOGITS, *twice, LENGTHS, expected=expected([[1, 1], [0]], LENGTHS), **near)
    flags = {"preprocess_collapse_repeated": True}
    yield case(
        "CTCLoss", LOGITS, *twice, LENGTHS, attrs=flags, expected=expected([[1], [0]], LENGTHS), **near
    )
    flags = {"ignore_longer_outputs_than_inputs": True}
    yield case("CTCLoss", LOGITS, PLACES, LABELS, [1, 3], attrs=flags, dtypes=REAL)
    null = expected([[1], []], LENGTHS)
    yield case("CTCLoss", LOGITS, PLACES, [1, 2, 2], LENGTHS, expected=null, **near)
    for places, labels, lengths in (
        (PLACES, LABELS, [1, 3]),  # too short
        (PLACES, LABELS, [5, 3]),  # too long
        (PLACES, LABELS, [-1, 3]),
        (PLACES, [-1, 0, 1], LENGTHS),
        (PLACES, [2, 0, 1], LENGTHS),  # a label after one that is no class
        ([[0, 0], [0, 1], [0, 2]], LABELS, LENGTHS),  # a sequence without labels
        ([[1, 0], [0, 0], [0, 1]], LABELS, LENGTHS),  # out of order
    ):
        yield case("CTCLoss", LOGITS, places, labels, lengths, raises=InvalidArgumentError)


# Decoding

SURE = np.full((6, 1, 3), -9.0)
SURE[range(6), 0, [0, 0, 2, 0, 1, 1]] = 9.0


def decoders() -> Iterator[Case]:
    greedy, beam = "CTCGreedyDecoder", "CTCBeamSearchDecoder"
    score = [[-54.0]]
    yield case(
        greedy,
        SURE,
        [6],
        attrs={"merge_repeated": True},
        expected=([[0, 0], [0, 1], [0, 2]], [0, 0, 1], [1, 3], score),
        dtypes=REAL,
    )
    all_of_them = ([[0, k] for k in range(5)], [0, 0, 0, 1, 1], [1, 5], score)
    yield case(greedy, SURE, [6], expected=all_of_them, dtypes=REAL)
    blank = ([[0, 0]], [2], [1, 1], [[-27.0]])
    yield case(greedy, SURE, [3], attrs={"blank_index": 0}, expected=blank, dtypes=REAL)
    yield case(greedy, SURE, [6], attrs={"blank_index": 3}, raises=InvalidArgumentError)
    yield case(greedy, SURE, [7], raises=FailedPreconditionError)
    narrow = {"beam_width": 4, "top_paths": 1, "merge_repeated": False}
    places = [[0, 0], [0, 1], [0, 2]]
    yield case(
        beam,
        SURE,
        [6],
        attrs=narrow,
        expected=(places, [0, 0, 1], [1, 3], -losses(SURE, [[0, 0, 1]], [6])[None]),
        dtypes=REAL,
        tolerance=1e-3,
    )
    yield case(beam, SURE, [6], attrs={"beam_width": 2, "top_paths": 3}, raises=InvalidArgumentError)
    yield case(beam, SURE, [7], attrs=narrow, raises=FailedPreconditionError)


CASES = [*ctc(), *decoders()]
