"""Cases of ListDiff: order, repetitions, empty inputs and results."""

from __future__ import annotations

import numpy as np

from tests.ops.harness import case

CASES = [
    case("ListDiff", [5, 1, 3, 1, 2], [3, 9], expected=([5, 1, 1, 2], np.array([0, 1, 3, 4], np.int32))),
    case("ListDiff", [0.5, -1.5, 0.0], [0.5], expected=([-1.5, 0.0], np.array([1, 2], np.int32))),
    case("ListDiff", ["b", "a"], ["b"], expected=(np.array([b"a"], object), np.array([1], np.int32))),
    case("ListDiff", [1, 2], [2, 1], expected=(np.zeros(0, np.int64), np.zeros(0, np.int32))),
    case(
        "ListDiff",
        [7],
        np.zeros(0, np.int64),
        attrs={"out_idx": "int64"},
        expected=([7], np.array([0], np.int64)),
    ),
]
