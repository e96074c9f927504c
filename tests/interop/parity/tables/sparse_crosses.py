"""Combinations of the elements of features."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.table import Case, case, unknown

PLACES = np.array([[0, 0], [1, 0], [1, 1]])
TEXT = np.array([b"a", b"b", b"c"], object)
NUMBERS = np.array([1, -2, 3])
SHAPE = np.array([2, 2])
DENSE = np.array([[b"f", b"h"], [b"g", b"i"]], object)


def cross(
    values: Any, dense: Any, hashed: bool, buckets: int = 0, places: Any = PLACES, bad: bool = False
) -> Case:
    """The cross of one sparse feature and one dense one."""
    kinds = ["string" if each.dtype == object else "int64" for each in (values, dense)]
    attrs = {
        "N": 1,
        "sparse_types": kinds[:1],
        "dense_types": kinds[1:],
        "hashed_output": hashed,
        "num_buckets": buckets,
        "hash_key": 0xDECAFCAFFE,
        "out_type": "int64" if hashed else "string",
        "internal_type": "string" if kinds == ["string", "string"] else "int64",
    }
    inputs = [unknown(places)], [unknown(values)], [unknown(SHAPE)], [unknown(dense)]
    return case("SparseCross", *inputs, attrs=attrs, bad=bad)


CASES: list[Case] = [
    *(
        cross(values, dense, hashed, buckets)
        for values in (TEXT, NUMBERS)
        for dense in (DENSE, np.array([[5], [-6]]))
        for hashed, buckets in ((False, 0), (True, 0), (True, 100))
    ),
    cross(TEXT[:2], DENSE, True, places=np.array([[1, 0], [1, 1]])),
    cross(TEXT, DENSE[:1], True, bad=True),
]
