"""Columns of sequences: what `SequenceFeatures` of TensorFlow, the successor of `sequence_input_layer`, makes of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax

pytestmark = pytest.mark.interop

PLACES = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1]])
DEEP = np.array([[0, 0, 0], [0, 0, 1], [0, 2, 0], [1, 0, 0], [2, 1, 0], [2, 1, 1]])


def features(m: Any) -> dict[str, Any]:
    """Sequences of 3, 1, 2 and 0 steps; the numbers in pairs are of 2, 1 and 1."""

    def sparse(values: Any, places: Any = PLACES) -> Any:
        shape = [4, 3, 2][: places.shape[1]] if places is DEEP else [4, places.max() + 1]
        return m.SparseTensor(places, np.array(values), shape)

    numbers = np.arange(1, 9).astype(np.float32)
    pairs = np.array([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1], [2, 0], [2, 1]])
    return {
        "n": sparse(numbers[:6]),
        "p": sparse(numbers, pairs),
        "m": sparse(numbers[:2], np.array([[0, 2], [1, 1]])),
        "i": sparse([0, 1, 2, 3, 1, 9]),
        "d": sparse([0, 1, 2, 3, 1, 0], DEEP),
        "h": sparse([b"a", b"b", b"c", b"a", b"d", b"e"]),
        "v": sparse([b"x", b"y", b"z", b"q", b"y", b"x"]),
    }


def a_range(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 7


COLUMNS: dict[str, Callable[[Any], list[Any]]] = {
    "numbers": lambda fc: [fc.sequence_numeric_column("n")],
    "normalised numbers": lambda fc: [
        fc.sequence_numeric_column("n", default_value=-1.0, normalizer_fn=lambda each: each)
    ],
    "pairs": lambda fc: [fc.sequence_numeric_column("p", shape=(2,))],
    "embedded integers": lambda fc: [
        fc.embedding_column(
            fc.sequence_categorical_column_with_identity("i", 5, default_value=4), 3, initializer=a_range
        )
    ],
    "embedded sets": lambda fc: [
        fc.embedding_column(
            fc.sequence_categorical_column_with_identity("d", 4), 2, "sum", initializer=a_range
        )
    ],
    "hashed": lambda fc: [fc.indicator_column(fc.sequence_categorical_column_with_hash_bucket("h", 6))],
    "words": lambda fc: [
        fc.indicator_column(
            fc.sequence_categorical_column_with_vocabulary_list("v", ["x", "y", "z"], num_oov_buckets=1)
        )
    ],
    "together": lambda fc: [
        *COLUMNS["words"](fc),
        *COLUMNS["numbers"](fc),
        *COLUMNS["embedded integers"](fc),
        *COLUMNS["hashed"](fc),
    ],
    "lengths that differ": lambda fc: [*COLUMNS["numbers"](fc), fc.sequence_numeric_column("m")],
}


@pytest.mark.parametrize("name", COLUMNS)
async def test_columns_are_those_of_tensorflow(tf: Any, name: str):
    with tf.Graph().as_default(), tf.Session() as session:
        layer = tf.keras.experimental.SequenceFeatures(COLUMNS[name](tf.feature_column))
        fetched = layer(features(tf))
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        try:
            expected = session.run(fetched)
        except tf.errors.InvalidArgumentError:
            expected = None

    with ax.Graph().as_default() as graph:
        fetched = ax.contrib.feature_column.sequence_input_layer(
            features(ax), COLUMNS[name](ax.feature_column)
        )
        initialize = [ax.global_variables_initializer(), ax.tables_initializer()]
    async with ax.Session(graph=graph) as own:
        await own.run(initialize)
        if expected is None:
            with pytest.raises(ax.errors.InvalidArgumentError):
                await own.run(fetched)
            return
        found = await own.run(fetched)

    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_specs_are_those_of_tensorflow(tf: Any):
    newer = importlib.import_module("tensorflow.python.feature_column.feature_column_v2")

    def spec(m: Any, make: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        with m.Graph().as_default():
            columns = [*COLUMNS["together"](m.feature_column), *COLUMNS["pairs"](m.feature_column)]
        return {key: (type(each).__name__, each.dtype.name) for key, each in make(columns).items()}

    assert spec(ax, ax.feature_column.make_parse_example_spec) == spec(tf, newer.make_parse_example_spec_v2)


async def test_context_is_concatenated_as_by_tensorflow(tf: Any):
    module = importlib.import_module("tensorflow.python.feature_column.sequence_feature_column")
    context, steps = np.ones((2, 3), np.float32), np.zeros((2, 4, 1), np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        expected = session.run(module.concatenate_context_input(tf.constant(context), tf.constant(steps)))
    with ax.Graph().as_default() as graph:
        made = ax.contrib.feature_column.concatenate_context_input(ax.constant(context), ax.constant(steps))
    async with ax.Session(graph=graph) as own:
        np.testing.assert_array_equal(await own.run(made), expected)
