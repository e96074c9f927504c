"""Candidate samplers: the same samples for given seeds, and their expected counts."""

from __future__ import annotations

from typing import Any

from tests.interop.parity.table import Case, case, partly, unknown

CLASSES = [[1], [7], [3], [0]]
PAIRS = [[1, 2], [7, 0]]


def attrs(**changed: Any) -> dict[str, Any]:
    return {"num_true": 1, "num_sampled": 5, "unique": True, "range_max": 50, "seed": 3, "seed2": 9} | changed


def sampler(op_type: str, **more: Any) -> list[Case]:
    def row(classes: Any, bad: bool = False, **changed: Any) -> Case:
        return case(op_type, classes, attrs=attrs(**more) | changed, bad=bad)

    sizes = [{"num_sampled": n, "unique": unique} for n in (1, 4, 17, 40) for unique in (True, False)]
    return [
        *(row(CLASSES, **size) for size in sizes),
        *(row(CLASSES, seed=seed, seed2=seed * 7) for seed in (1, 12345)),
        row(PAIRS, num_true=2),
        row(unknown(PAIRS), num_true=2),
        row(partly(CLASSES, [None, 1])),
        row([[1, 2]], bad=True),
        row(unknown([[1, 2]]), bad=True),
        row([1, 2], bad=True),
    ]


UNIGRAMS = {"unigrams": [float(1 + k % 7) for k in range(50)]}

CASES: list[Case] = [
    *(
        row
        for name in ("Uniform", "LogUniform", "LearnedUnigram", "ThreadUnsafeUnigram")
        for row in (
            *sampler(f"{name}CandidateSampler"),
            case(
                f"{name}CandidateSampler", CLASSES, attrs=attrs(range_max=8, num_sampled=8)
            ),  # every one of them
            case(f"{name}CandidateSampler", CLASSES, attrs=attrs(range_max=64, num_sampled=20, unique=False)),
            case(f"{name}CandidateSampler", CLASSES, attrs=attrs(range_max=8, num_sampled=9), bad=True),
        )
    ),
    *sampler("FixedUnigramCandidateSampler", **UNIGRAMS),
    *sampler("FixedUnigramCandidateSampler", **UNIGRAMS, distortion=0.75),
    case(
        "FixedUnigramCandidateSampler",
        CLASSES,
        attrs=attrs(unigrams=[1.0] * 48, num_reserved_ids=2, distortion=0.5),
    ),
    case("FixedUnigramCandidateSampler", CLASSES, attrs=attrs(), bad=True),
    *(
        case(
            "AllCandidateSampler",
            [[k] * true for k in range(rows)],
            attrs={"num_true": true, "num_sampled": count, "unique": True},
        )
        for rows in (1, 3)
        for true in (1, 2)
        for count in (3, 4, 10)
    ),
    case(
        "AllCandidateSampler", [[0], [1]], attrs={"num_true": 1, "num_sampled": 1, "unique": True}, bad=True
    ),
    case(
        "AllCandidateSampler",
        [[1, 2]],
        attrs={"num_true": 1, "num_sampled": 3, "unique": True},
        bad=True,
    ),
    *(
        case("ComputeAccidentalHits", classes, sampled, attrs={"num_true": true})
        for true, classes in ((1, CLASSES), (2, PAIRS), (1, [[9]]))
        for sampled in ([1, 7], [3], [5, 0, 1, 1], [20])
    ),
    case("ComputeAccidentalHits", unknown(PAIRS), unknown([2, 7]), attrs={"num_true": 2}),
    case("ComputeAccidentalHits", PAIRS, [[1]], attrs={"num_true": 2}, bad=True),
    case("ComputeAccidentalHits", PAIRS, [1], attrs={"num_true": 1}, bad=True),
]
