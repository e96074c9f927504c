"""Columns of sequences: names of variables, steps and lengths, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.feature_column.sequence_input import concatenate_context_input, sequence_input_layer

fc = ax.feature_column


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def features() -> dict[str, Any]:
    """Two steps, none, and one."""
    places = np.array([[0, 0], [0, 1], [2, 0]])
    return {
        "n": ax.SparseTensor(places, np.array([1.0, 2.0, 3.0], np.float32), [3, 2]),
        "i": ax.SparseTensor(places, np.array([0, 1, 1]), [3, 2]),
        "k": ax.SparseTensor(places, np.array([1, 1, 0]), [3, 2]),
    }


async def run(fetches: Any) -> Any:
    async with ax.Session() as session:
        await session.run([ax.global_variables_initializer(), ax.tables_initializer()])
        return await session.run(fetches)


async def test_columns_are_side_by_side_at_each_step():
    identity = fc.sequence_categorical_column_with_identity("i", 2)
    layer, lengths = sequence_input_layer(
        features(), [fc.sequence_numeric_column("n"), fc.indicator_column(identity)]
    )
    values, sizes = await run([layer, lengths])

    assert values.tolist() == [
        [[1, 0, 1], [0, 1, 2]],
        [[0, 0, 0], [0, 0, 0]],
        [[0, 1, 3], [0, 0, 0]],
    ]
    assert sizes.tolist() == [2, 0, 1]
    assert sizes.dtype == np.int64


async def test_shared_tables_are_made_once():
    pair = [fc.sequence_categorical_column_with_identity(key, 2) for key in "ik"]
    shared = fc.shared_embedding_columns(pair, 1, initializer=ax.constant_initializer([[5.0], [7.0]]))
    layer, _ = sequence_input_layer(features(), shared)

    assert [each.name for each in ax.global_variables()] == [
        "sequence_input_layer/i_k_shared_embedding/embedding_weights:0"
    ]
    assert (await run(layer)).tolist() == [[[5, 7], [7, 7]], [[0, 0], [0, 0]], [[7, 5], [0, 0]]]


async def test_vocabulary_files_number_the_words_of_steps(tmp_path):
    path = tmp_path / "words"
    path.write_text("a\nb\n")
    words = fc.sequence_categorical_column_with_vocabulary_file("w", str(path), 2)
    given = {"w": ax.constant([["b", "a"], ["c", ""]])}
    layer, lengths = sequence_input_layer(given, [fc.indicator_column(words)])
    values, sizes = await run([layer, lengths])

    assert values.tolist() == [[[0, 1], [1, 0]], [[0, 0], [0, 0]]]
    assert sizes.tolist() == [2, 1]


def test_columns_of_sequences_and_others_are_told_apart():
    sequence = fc.sequence_categorical_column_with_identity("i", 2)
    plain = fc.categorical_column_with_identity("i", 2)
    for made in (fc.indicator_column, lambda column: fc.embedding_column(column, 2)):
        with pytest.raises(GraphValueError, match="must be of type _SequenceCategoricalColumn"):
            sequence_input_layer(features(), [made(plain)])
        with pytest.raises(GraphValueError, match="must not be of type _SequenceCategoricalColumn"):
            fc.input_layer(features(), [made(sequence)])
    with pytest.raises(GraphValueError, match="must be of type _SequenceDenseColumn"):
        sequence_input_layer(features(), [fc.numeric_column("n")])


def test_numbers_of_another_kind_are_refused():
    with pytest.raises(GraphValueError, match="convertible to float"):
        fc.sequence_numeric_column("n", dtype=ax.string)
    with pytest.raises(GraphTypeError, match="must be a callable"):
        fc.sequence_numeric_column("n", normalizer_fn=1)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="greater than 0"):
        fc.sequence_numeric_column("n", shape=0)


def test_context_of_another_rank_or_dtype_is_refused():
    steps = ax.zeros([1, 2, 3])
    with pytest.raises(GraphValueError, match="context_input must have rank 2"):
        concatenate_context_input(ax.zeros([1]), steps)
    with pytest.raises(GraphTypeError, match="float32"):
        concatenate_context_input(ax.zeros([1, 1], ax.int32), steps)
