"""Cases of unique: order of first appearance."""

from __future__ import annotations

import numpy as np

from tests.ops.harness import Case, case

NUMBERS = [3, 1, 3, 2, 1, 3]

CASES: list[Case] = [
    case("Unique", NUMBERS, expected=([3, 1, 2], [0, 1, 0, 2, 1, 0])),
    case(
        "Unique",
        np.array(NUMBERS, float),
        attrs={"out_idx": "int64"},
        expected=([3, 1, 2], [0, 1, 0, 2, 1, 0]),
    ),
    case("Unique", ["b", "a", "b"], expected=(np.array([b"b", b"a"], object), [0, 1, 0])),
    case("Unique", [True, False, True], expected=([True, False], [0, 1, 0])),
    case("Unique", np.zeros(0), expected=(np.zeros(0), np.zeros(0))),
    case("UniqueWithCounts", NUMBERS, expected=([3, 1, 2], [0, 1, 0, 2, 1, 0], [3, 2, 1])),
    case("UniqueWithCounts", np.zeros(0), expected=(np.zeros(0), np.zeros(0), np.zeros(0))),
]
