"""Cases of ParseSingleSequenceExample."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import (
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
from tests.ops.harness import Case, case

BAD: dict[str, Any] = {"raises": InvalidArgumentError}


def floats(*values: float) -> Feature:
    return Feature(float_list=FloatList(value=values))


def integers(*values: int) -> Feature:
    return Feature(int64_list=Int64List(value=values))


EXAMPLE = SequenceExample(
    context=Features(feature={"a": floats(1.0, 2.0), "s": integers(7)}),
    feature_lists=FeatureLists(
        feature_list={
            "d": FeatureList(feature=[floats(1.0), floats(2.0)]),
            "v": FeatureList(feature=[integers(1, 2), integers(), integers(3)]),
        }
    ),
).SerializeToString()
ATTRS: dict[str, Any] = {
    "context_sparse_types": ["int64"],
    "Tcontext_dense": ["float32"],
    "context_dense_shapes": [[2]],
    "feature_list_sparse_types": ["int64"],
    "feature_list_dense_types": ["float32"],
    "feature_list_dense_shapes": [[1]],
}
NONE = np.zeros(0, object)
NO_DEFAULT = np.zeros(0, np.float32)


def parsing(
    data: bytes = EXAMPLE,
    missing: Any = NONE,
    sparse: bytes = b"s",
    dense: bytes = b"a",
    lists: bytes = b"v",
    dense_lists: bytes = b"d",
    **rest: Any,
) -> Case:
    keys = ([sparse], [dense], [lists], [dense_lists])
    return case(
        "ParseSingleSequenceExample",
        np.array(data, object),
        missing,
        *keys,
        [NO_DEFAULT],
        b"",
        attrs=ATTRS,
        **rest,
    )


def outputs(dense_list: Any) -> tuple[Any, ...]:
    return (
        np.array([[0]]),
        np.array([7]),
        np.array([1]),
        np.array([1.0, 2.0], np.float32),
        np.array([[0, 0], [0, 1], [2, 0]]),
        np.array([1, 2, 3]),
        np.array([3, 2]),
        np.array(dense_list, np.float32).reshape(-1, 1),
    )


CASES: list[Case] = [
    parsing(expected=outputs([1.0, 2.0])),
    parsing(missing=np.array([b"none"], object), dense_lists=b"none", expected=outputs([])),
    parsing(dense_lists=b"none", **BAD),
    parsing(dense=b"none", **BAD),
    parsing(dense_lists=b"v", **BAD),
    parsing(lists=b"d", **BAD),
    parsing(data=b"\x12\xff", **BAD),
]
