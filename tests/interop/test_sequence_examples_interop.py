"""`parse_single_sequence_example` beside TensorFlow's."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec
from tests.ops.io.cases_sequence_examples import EXAMPLE

pytestmark = pytest.mark.interop


def parsed(tf: Any, **features: Any) -> Any:
    return tf.parse_single_sequence_example(tf.placeholder_with_default(EXAMPLE, []), **features)


CASES = {
    "both": lambda tf: parsed(
        tf,
        context_features={"a": tf.FixedLenFeature([2], tf.float32), "s": tf.VarLenFeature(tf.int64)},
        sequence_features={
            "d": tf.FixedLenSequenceFeature([], tf.float32),
            "v": tf.VarLenFeature(tf.int64),
            "w": tf.VarLenFeature(tf.string),
            "missing": tf.FixedLenSequenceFeature([3], tf.int64, allow_missing=True),
        },
    ),
    "context": lambda tf: parsed(
        tf,
        context_features={
            "s": tf.FixedLenFeature([], tf.int64),
            "z": tf.FixedLenFeature([2], tf.string, ["x", "y"]),
        },
    ),
    "lists": lambda tf: parsed(
        tf, sequence_features={"d": tf.io.FixedLenSequenceFeature([1], tf.float32)}, example_name="n"
    ),
    "nothing": lambda tf: parsed(tf),
    "another class": lambda tf: parsed(
        tf, context_features={"a": tf.FixedLenSequenceFeature([2], tf.float32)}
    ),
    "missing": lambda tf: parsed(tf, sequence_features={"e": tf.FixedLenSequenceFeature([], tf.float32)}),
    "another size": lambda tf: parsed(
        tf, sequence_features={"d": tf.FixedLenSequenceFeature([2], tf.float32)}
    ),
    "another dtype": lambda tf: parsed(tf, sequence_features={"d": tf.FixedLenSequenceFeature([], tf.int64)}),
    "another dtype of a sparse list": lambda tf: parsed(
        tf, sequence_features={"d": tf.VarLenFeature(tf.string)}
    ),
    "missing in the context": lambda tf: parsed(
        tf, context_features={"e": tf.FixedLenFeature([], tf.float32)}
    ),
}


def leaves(value: Any) -> Any:
    """Lists of arrays by key, and the static shapes, of both dicts."""
    return [
        {
            key: [np.asarray(part) for part in (each if isinstance(each, tuple) else [each])]
            for key, each in one.items()
        }
        for one in value
    ]


def outcome(tf: Any, name: str, run: Any) -> Any:
    try:
        with tf.Graph().as_default() as graph:
            made = CASES[name](tf)
            shapes = [{key: each.shape.as_list() for key, each in one.items()} for one in made]
            return shapes, leaves(run(graph, made))
    except Exception as error:
        return "ValueError" if isinstance(error, ValueError) else type(error).__name__


def run_ours(graph: Any, fetched: Any) -> Any:
    async def main() -> Any:
        async with aioexec.Session(graph=graph) as session:
            return await session.run(fetched)

    return asyncio.run(main())


@pytest.mark.parametrize("name", CASES)
def test_features_are_parsed_as_by_tensorflow(tf, name):
    def run_theirs(graph: Any, fetched: Any) -> Any:
        with tf.Session(graph=graph) as session:
            return session.run(fetched)

    theirs, ours = outcome(tf, name, run_theirs), outcome(aioexec, name, run_ours)

    if isinstance(theirs, str):
        assert ours == theirs
    else:
        assert ours[0] == theirs[0]
        for mine, yours in zip(ours[1], theirs[1], strict=True):
            assert mine.keys() == yours.keys()
            for key in mine:
                for one, other in zip(mine[key], yours[key], strict=True):
                    assert (one.dtype, one.shape) == (other.dtype, other.shape), key
                    np.testing.assert_array_equal(one, other)
