"""`SparseFeature` beside TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.formats.protos import Example, Feature, Features, FloatList, Int64List
from tests.interop.building import Built
from tests.interop.train.engines import compare, table

pytestmark = pytest.mark.interop

ROWS, add = table()
ERRORS, add_error = table()


def example(at: list[int], across: list[int], values: list[float]) -> bytes:
    return Example(
        features=Features(
            feature={
                "i": Feature(int64_list=Int64List(value=at)),
                "j": Feature(int64_list=Int64List(value=across)),
                "v": Feature(float_list=FloatList(value=values)),
            }
        )
    ).SerializeToString()


EXAMPLES = [example([2, 0], [1, 3], [0.5, 1.5]), example([], [], []), example([4], [2], [2.5])]


def parsed(features: Any, parse: str = "parse_example", data: Any = EXAMPLES) -> Any:
    """The parts of what the function returns, in order of keys."""

    def build(tf: Any) -> Built:
        found = getattr(tf, parse)(tf.constant(np.array(data, np.object_)), features(tf))
        outputs: list[Any] = []
        for key in sorted(found):
            one = found[key]
            is_sparse = isinstance(one, tf.SparseTensor)
            outputs += [one.indices, one.values, one.dense_shape] if is_sparse else [one]
        return Built(outputs, [{}])

    return build


def one(tf: Any) -> Any:
    return {"s": tf.SparseFeature("i", "v", tf.float32, 5)}


def beside_its_parts(tf: Any) -> Any:
    return {
        **one(tf),
        "i": tf.VarLenFeature(tf.int64),
        "d": tf.FixedLenFeature([2], tf.float32, [7.0, 8.0]),
        "t": tf.io.SparseFeature(["i", "j"], "v", tf.float32, [5, 4], already_sorted=True),
    }


add("one key", parsed(one))
add("of an example", parsed(one, "parse_single_example", EXAMPLES[0]))
add("two keys", parsed(lambda tf: {"s": tf.SparseFeature(["j", "i"], "v", tf.float32, [4, 5])}))
add("beside its parts", parsed(beside_its_parts))
add_error("no size", parsed(lambda tf: {"s": tf.SparseFeature("i", "v", tf.float32, None)}))
add_error("no indices", parsed(lambda tf: {"s": tf.SparseFeature("", "v", tf.float32, 5)}))
add_error("no values", parsed(lambda tf: {"s": tf.SparseFeature("i", "", tf.float32, 5)}))
add_error("no dtype", parsed(lambda tf: {"s": tf.SparseFeature("i", "v", None, 5)}))
add_error("two dtypes", parsed(lambda tf: {**one(tf), "v": tf.VarLenFeature(tf.int64)}))
add_error("dense values", parsed(lambda tf: {**one(tf), "v": tf.FixedLenFeature([1], tf.float32)}))
add_error("more keys", parsed(lambda tf: {"s": tf.SparseFeature(["j", "i"], "v", tf.float32, [4])}))


@pytest.mark.parametrize("name", ROWS)
async def test_features_are_parsed_as_by_tensorflow(tf: Any, name: str):
    assert await compare(tf, ROWS[name], 1.0) == []


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_agrees_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ERRORS[name], 1.0) == []
