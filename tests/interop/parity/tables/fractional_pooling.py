"""Fractional pooling: windows by the seeds, means, maxima and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, const, unknown

IMAGE = sample("float32", (2, 11, 13, 2))
RATIO = [1.0, 1.44, 1.73, 1.0]
KINDS = ("float32", "float64", "int32", "int64")
OTHERS = [np.array(bounds) for bounds in ([0, 2, 3, 4], [0, 1, 2, 4])]
ROWS, COLUMNS = np.array([0, 2, 3, 5]), np.array([0, 1, 3, 4])
SMALL = sample("float32", (1, 5, 4, 2), 3)
DY = sample("float32", (1, 3, 3, 2), 4)


SEQUENCES = "TensorFlow declares the bounds of n windows as a vector of n elements; there are n + 1"


def pools(op: str) -> list[Case]:
    def row(
        given: Any = IMAGE, ratio: Any = RATIO, bad: bool = False, differs: str = "", **attrs: Any
    ) -> Case:
        return case(
            op,
            given if differs or bad else unknown(given),
            attrs={"pooling_ratio": ratio, "deterministic": True, "seed": 5, "seed2": 9, **attrs},
            bad=bad,
            grad=op == "FractionalMaxPool",  # that of means needs a known shape in TensorFlow
            differs=differs,
        )

    return [
        *(row(seed=seed) for seed in (1, 2, 3)),
        *(row(seed=seed, pseudo_random=True) for seed in (1, 2, 3)),
        *(row(pseudo_random=pseudo, overlapping=True) for pseudo in (False, True)),
        *(row(sample(kind, (1, 7, 9, 3)), [1.0, 1.5, 2.4, 1.0], overlapping=True) for kind in KINDS),
        row(ratio=[1.0, 1.0, 1.0, 1.0]),
        row(ratio=[1.0, 3.3, 4.2, 1.0], pseudo_random=True),
        row(IMAGE[:, :10, :12], ratio=[1.0, 2.0, 3.0, 1.0]),
        row(IMAGE[:, :10, :12], ratio=[1.0, 2.0, 3.0, 1.0], pseudo_random=True),
        *(row(differs=SEQUENCES) for _ in range(op == "FractionalMaxPool")),
        row(deterministic=False, bad=True),
        row(ratio=[1.0, 0.5, 1.0, 1.0], bad=True),
        row(ratio=[2.0, 1.5, 1.5, 1.0], bad=True),
        row(unknown(IMAGE), ratio=[1.0, 12.0, 1.5, 1.0], bad=True),
        row(IMAGE[0], bad=True),
        row(unknown(IMAGE[0]), bad=True),
    ]


MAXIMA, MEANS = "FractionalMaxPoolGrad", "FractionalAvgPoolGrad"
SHAPE = np.array(SMALL.shape)


def maxima_of(image: Any, overlapping: bool, columns: Any = COLUMNS) -> Any:
    """The maxima of the windows."""
    pooled = np.zeros((1, 3, 3, 2), image.dtype)
    for i in range(3):
        for j in range(3):
            bottom, right = ROWS[i + 1] + overlapping, columns[j + 1] + overlapping
            pooled[:, i, j] = image[:, ROWS[i] : bottom, columns[j] : right].max(axis=(1, 2))
    return pooled


def typed(kind: str) -> tuple[Any, Any, Any]:
    image = sample(kind, (1, 5, 4, 2), 3)
    return image, maxima_of(image, False), sample(kind, (1, 3, 3, 2), 4)


GRADIENTS = [
    *(case(MAXIMA, *typed(kind), ROWS, COLUMNS) for kind in KINDS),
    case(MAXIMA, SMALL, maxima_of(SMALL, True), DY, ROWS, COLUMNS, attrs={"overlapping": True}),
    case(MAXIMA, *map(unknown, typed("float32")), unknown(ROWS), unknown(COLUMNS)),
    case(MAXIMA, np.zeros_like(SMALL), np.zeros_like(DY), DY, ROWS, COLUMNS),
    *(
        case(
            MAXIMA,
            SMALL,
            maxima_of(SMALL, overlapping, columns),
            DY,
            ROWS,
            columns,
            attrs={"overlapping": overlapping},
        )
        for columns in OTHERS
        for overlapping in (False, True)
    ),
    *(
        case(MEANS, SHAPE, DY, ROWS, columns, attrs={"overlapping": overlapping})
        for columns in OTHERS
        for overlapping in (False, True)
    ),
    case(MAXIMA, SMALL, maxima_of(SMALL, False), np.ones_like(DY), ROWS, COLUMNS),
    *(case(MEANS, const(SHAPE), sample(kind, (1, 3, 3, 2), 4), ROWS, COLUMNS) for kind in KINDS),
    *(case(MEANS, SHAPE, DY, ROWS, COLUMNS, attrs={"overlapping": overlapping}) for overlapping in (0, 1)),
    case(MEANS, *map(unknown, (SHAPE, DY, ROWS, COLUMNS)), attrs={"overlapping": True}),
    case(MEANS, const(SHAPE[:3]), DY, ROWS, COLUMNS, bad=True),
    case(MEANS, unknown(SHAPE[:3]), unknown(DY), unknown(ROWS), unknown(COLUMNS), bad=True),
    case(MEANS, SHAPE, DY, ROWS - 1, COLUMNS, bad=True),
]

CASES: list[Case] = [*pools("FractionalMaxPool"), *pools("FractionalAvgPool"), *GRADIENTS]
