"""Feature columns: the values, variables and signatures of TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.interop.test_names_interop import signature
from tests.names_table import FEATURE_COLUMN

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore:.*add_variable.*:UserWarning"),
]

PLACES = np.array([[0, 0], [1, 0], [1, 1]])


def features(m: Any) -> dict[str, Any]:
    def sparse(values: Any) -> Any:
        return m.SparseTensor(PLACES, np.array(values), [2, 2])

    return {
        "n": m.constant([[1.0, 2.0], [3.0, 4.0]]),
        "b": m.constant([[-1.0], [1.5]]),
        "v": m.constant([["x", "q"], ["z", ""]]),
        "h": m.constant([["a"], ["b"]]),
        "k": sparse([7, 8, 9]),
        "i": sparse([1, 2, 9]),
        "w": sparse(np.array([0.5, 2.0, 1.0], np.float32)),
        "s": m.constant([1, 2]),
        "t": m.constant([[3], [1]]),
    }


def columns(m: Any) -> tuple[list[Any], list[Any]]:
    """Dense columns, and others besides."""
    fc = m.feature_column
    number = fc.numeric_column("n", shape=(2,), normalizer_fn=lambda x: x * 2)
    buckets = fc.bucketized_column(fc.numeric_column("b"), [0.0, 1.0, 2.0])
    words = fc.categorical_column_with_vocabulary_list("v", ["x", "y", "z"], num_oov_buckets=1)
    text = fc.categorical_column_with_hash_bucket("h", 10)
    keys = fc.categorical_column_with_hash_bucket("k", 10, dtype=m.int64)
    identity = fc.categorical_column_with_identity("i", 5, default_value=0)
    weighted = fc.weighted_categorical_column(identity, "w")
    crossed = fc.crossed_column(["h", words, buckets], 20)
    nested = fc.crossed_column([crossed, identity], 50, hash_key=3)
    shared = fc.shared_embedding_columns(
        [fc.categorical_column_with_identity(key, 4) for key in "st"], 3, initializer=m.ones_initializer()
    )
    start = m.random_uniform_initializer(seed=3)
    dense = [
        number,
        buckets,
        fc.indicator_column(words),
        fc.indicator_column(weighted),
        fc.indicator_column(crossed),
        fc.indicator_column(nested),
        fc.embedding_column(text, 2, initializer=start),
        fc.embedding_column(keys, 3, "sqrtn", initializer=start, max_norm=0.5),
        *shared,
    ]
    return dense, [number, buckets, words, text, keys, weighted, crossed]


def build(m: Any) -> list[Any]:
    dense, others = columns(m)
    made = features(m)
    layers = [m.feature_column.input_layer(made, [column]) for column in dense]
    models = [
        m.feature_column.linear_model(made, others, units=2),
        m.feature_column.linear_model(made, others[:3]),
    ]
    together = m.feature_column.input_layer(made, dense)
    return [*layers, together, *models]


def described(m: Any) -> list[tuple[str, list[int]]]:
    return [(each.name, each.shape.as_list()) for each in m.global_variables()]


async def test_columns_are_those_of_tensorflow(tf: Any):
    with tf.Graph().as_default(), tf.Session() as session:
        fetched = build(tf)
        theirs = described(tf)
        of_models = [each.name for each in tf.model_variables()]
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        expected = session.run(fetched)

    with ax.Graph().as_default() as graph:
        fetched = build(ax)
        ours = described(ax)
        initialize = [ax.global_variables_initializer(), ax.tables_initializer()]
    async with ax.Session(graph=graph) as own:
        await own.run(initialize)
        found = await own.run(fetched)

    assert ours == theirs
    assert [each.name for each in graph.get_collection("model_variables")] == of_models
    for own_value, their_value in zip(found, expected, strict=True):
        np.testing.assert_allclose(own_value, their_value, rtol=1e-6)


def test_specs_are_those_of_tensorflow(tf: Any):
    def spec(m: Any) -> dict[str, Any]:
        with m.Graph().as_default():
            dense, others = columns(m)
        found = m.feature_column.make_parse_example_spec([*dense, *others])
        return {
            key: (type(each).__name__, each.dtype.name, getattr(each, "shape", None))
            for key, each in found.items()
        }

    assert spec(ax) == spec(tf)


EMBEDDINGS = ("embedding_column", "shared_embedding_columns")


@pytest.mark.parametrize("name", [name for name in FEATURE_COLUMN if name not in EMBEDDINGS])
def test_functions_take_the_arguments_of_tensorflow(tf: Any, name: str):
    theirs, ours = getattr(tf.feature_column, name), getattr(ax.feature_column, name)

    assert signature(ours) == signature(theirs)


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embeddings_take_the_arguments_of_tensorflow(tf: Any, name: str):
    """All but the last, `use_safe_embedding_lookup`, which came with 2.x."""
    theirs, ours = getattr(tf.feature_column, name), getattr(ax.feature_column, name)

    assert signature(ours) == signature(theirs)[:-1]
