"""Cases of candidate samplers: expected counts follow from the distributions; the samples are compared elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

NAMES = ("Uniform", "LogUniform", "LearnedUnigram", "ThreadUnsafeUnigram", "FixedUnigram")
LEAST = float(np.finfo(np.float32).min)


def cases() -> Iterator[Case]:
    for name in NAMES:
        attrs: dict[str, Any] = {"num_true": 1, "num_sampled": 4, "range_max": 4, "seed": 1, "seed2": 2}
        if name == "FixedUnigram":
            attrs["unigrams"] = [1.0] * 4
        yield case(f"{name}CandidateSampler", [[1], [2]], attrs=attrs | {"unique": False}, strided=False)
        yield case(
            f"{name}CandidateSampler",
            [[1], [2]],
            attrs=attrs | {"unique": True, "num_sampled": 5},
            raises=InvalidArgumentError,
        )
    fixed: dict[str, Any] = {"num_true": 1, "range_max": 4, "seed": 1, "seed2": 2}
    for unigrams, count, unique in (
        ([1.0, 0.0, 0.0, 0.0], 3, True),  # only one class can be drawn
        ([1.0, 1e-30, 1e-30, 1e-30], 3, True),  # the others take longer than a test may
        ([0.0, 0.0, 0.0, 0.0], 1, False),
        ([1.0, float("nan"), 1.0, 1.0], 1, False),
        ([1.0, float("inf"), 1.0, 1.0], 1, False),
    ):
        yield case(
            "FixedUnigramCandidateSampler",
            [[1], [2]],
            attrs=fixed | {"unigrams": unigrams, "num_sampled": count, "unique": unique},
            raises=InvalidArgumentError,
        )
    yield case(
        "LearnedUnigramCandidateSampler",
        [[1], [2]],
        attrs=fixed | {"range_max": 2**50, "num_sampled": 1, "unique": False},
        raises=InvalidArgumentError,
    )
    yield case(
        "AllCandidateSampler",
        [[1], [2]],
        attrs={"num_true": 1, "num_sampled": 3, "unique": True},
        expected=lambda classes: (np.arange(3), np.ones((2, 1)), np.ones(3)),
    )
    yield case(
        "ComputeAccidentalHits",
        [[1, 5], [7, 1]],
        [7, 1],
        attrs={"num_true": 2},
        expected=lambda *_: (np.array([0, 1, 1]), np.array([1, 0, 1]), np.full(3, LEAST)),
    )


CASES = list(cases())
