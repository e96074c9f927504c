"""Cases of ParseExample, ParseExampleV2 and ParseSingleExample."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case
from tests.ops.io.example_bytes import DAMAGED, DAMAGED_INTEGERS, example

NOTHING = np.zeros(0, object)
DENSE = {"Tdense": ["float32"], "dense_shapes": [[2]]}
BAD: dict[str, Any] = {"raises": InvalidArgumentError}


def text(*words: bytes) -> Any:
    return np.array(words, object)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


ROWS = text(example(a=[1.0, 2.0], s=[b"x"]), example(a=[3.0, 4.0], s=[b"y", b"z"]), example(a=[5.0, 6.0]))
SPARSE = {"sparse_types": ["string"]}
OF_BATCH = (
    np.array([[0, 0], [1, 0], [1, 1]]),
    text(b"x", b"y", b"z"),
    np.array([3, 2]),
    floats(1, 2, 3, 4, 5, 6).reshape(3, 2),
)
KINDS = {"num_sparse": 1, **SPARSE, **DENSE}
NO_RAGGED: dict[str, Any] = {"ragged_value_types": [], "ragged_split_types": []}
RAGGED = {"ragged_value_types": ["string"], "ragged_split_types": ["int32"]}
SINGLE = {**KINDS, "sparse_keys": ["s"], "dense_keys": ["a"]}
PADDED = {"num_sparse": 0, "sparse_types": [], "sparse_keys": [], "dense_keys": ["a"], "Tdense": ["float32"]}


def refused(kind: str, data: bytes) -> Case:
    attrs = {
        "num_sparse": 1,
        "sparse_types": [kind],
        "sparse_keys": ["a"],
        "dense_keys": [],
        "Tdense": [],
        "dense_shapes": [],
    }
    return case("ParseSingleExample", np.array(data, object), [], attrs=attrs, **BAD)


CASES: list[Case] = [
    case(
        "ParseExample",
        ROWS,
        NOTHING,
        [b"s"],
        [b"a"],
        [floats()],
        attrs={"Nsparse": 1, "Ndense": 1, **SPARSE, **DENSE},
        expected=OF_BATCH,
    ),
    case(
        "ParseExampleV2",
        ROWS,
        NOTHING,
        text(b"s"),
        text(b"a"),
        NOTHING,
        [floats()],
        attrs={**KINDS, **NO_RAGGED},
        expected=OF_BATCH,
    ),
    case(
        "ParseExampleV2",
        ROWS,
        NOTHING,
        NOTHING,
        text(b"a"),
        text(b"s"),
        [floats()],
        attrs={"num_sparse": 0, "sparse_types": [], **DENSE, **RAGGED},
        expected=(OF_BATCH[3], OF_BATCH[1], np.array([0, 1, 3, 3], np.int32)),
    ),
    case(
        "ParseSingleExample",
        ROWS[1],
        [floats()],
        attrs=SINGLE,
        expected=(np.array([[0], [1]]), text(b"y", b"z"), np.array([2]), floats(3, 4)),
    ),
    case(
        "ParseSingleExample",
        example(),
        [floats(7)],
        attrs={**PADDED, "dense_shapes": [[None, 3]]},
        expected=np.zeros((0, 3), np.float32),
    ),
    case("ParseSingleExample", example(), [floats()], attrs=SINGLE, **BAD),
    *(refused("float32", data) for data in DAMAGED.values()),
    *(refused("int64", data) for data in DAMAGED_INTEGERS.values()),
]
