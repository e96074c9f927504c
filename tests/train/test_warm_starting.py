"""Variables initialized from a checkpoint: by name, by scope, partitioned, and by vocabulary."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec
from aioexec.train.checkpoints.vocabulary_matrices import (
    _load_and_remap_matrix_initializer,
    _load_embedding_initializer,
)
from aioexec.train.off_loop import off_loop

MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
async def checkpoint(tmp_path: Path) -> str:
    """A checkpoint of a vector, a matrix in two parts, and a number in a scope."""
    with aioexec.Graph().as_default() as graph:
        aioexec.get_variable("vector", initializer=aioexec.constant([1.0, 2.0]))
        aioexec.get_variable(
            "matrix",
            initializer=aioexec.constant(MATRIX),
            partitioner=aioexec.fixed_size_partitioner(2),
        )
        with aioexec.variable_scope("old"):
            aioexec.get_variable("number", initializer=7.0, use_resource=True)
        saver = aioexec.train.Saver()
        async with aioexec.Session(graph=graph) as session:
            await session.run(aioexec.global_variables_initializer())
            return str(await saver.save(session, f"{tmp_path}/model", global_step=3))


async def initialized(build: Callable[[], Any]) -> dict[str, Any]:
    """The values of all variables once they are initialized, by name."""
    with aioexec.Graph().as_default() as graph:
        await off_loop(build)
        async with aioexec.Session(graph=graph) as session:
            await session.run(aioexec.global_variables_initializer())
            values = await session.run({each.op.name: each for each in aioexec.global_variables()})
    return dict(values)


async def test_variables_of_a_scope_begin_as_those_of_another(checkpoint: str) -> None:
    def build() -> None:
        with aioexec.variable_scope("new"):
            aioexec.get_variable("number", initializer=0.0)
        aioexec.train.init_from_checkpoint(checkpoint, {"old/": "new/"})

    assert await initialized(build) == {"new/number": 7.0}


async def test_all_variables_of_a_scope_begin_as_those_of_no_scope(checkpoint: str) -> None:
    def build() -> None:
        with aioexec.variable_scope("new"):
            aioexec.get_variable("vector", shape=[2], use_resource=True)
            aioexec.get_variable("matrix", shape=[4, 3], partitioner=aioexec.fixed_size_partitioner(3))
        aioexec.train.init_from_checkpoint(Path(checkpoint).parent, {"/": "new/"})

    values = await initialized(build)

    np.testing.assert_array_equal(values["new/vector"], [1, 2])
    parts = [values[f"new/matrix/part_{k}"] for k in range(3)]
    np.testing.assert_array_equal(np.concatenate(parts), MATRIX)


async def test_a_variable_is_given_by_name_by_itself_or_by_its_parts(checkpoint: str) -> None:
    def build() -> None:
        aioexec.get_variable("named", shape=[2])
        given = aioexec.get_variable("given", shape=[2])
        parted = aioexec.get_variable("parted", [4, 3], partitioner=aioexec.fixed_size_partitioner(4))
        whole = aioexec.get_variable("whole", shape=[4, 3])
        pairs = [("vector", "named"), ("vector", given), ("matrix", list(parted)), ("matrix", whole)]
        aioexec.train.init_from_checkpoint(checkpoint, pairs)

    values = await initialized(build)

    for name, expected in {"named": [1, 2], "given": [1, 2], "whole": MATRIX}.items():
        np.testing.assert_array_equal(values[name], expected)
    np.testing.assert_array_equal(values["parted/part_2"], MATRIX[2:3])


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("nothing", "here"), "Tensor nothing is not found in"),
        (("matrix", "here"), "doesn't match with shape"),
        (("old", "new/"), "Should be 'scope/': 'other_scope/'"),
        (("old/", "new/"), r"Tensor old/other \(other in old/\) is not found"),
    ],
)
async def test_what_does_not_fit_is_refused(checkpoint: str, pair: tuple[str, str], message: str) -> None:
    with aioexec.Graph().as_default():
        aioexec.get_variable("here", shape=[2])
        aioexec.get_variable("new/other", shape=[2])

        with pytest.raises(ValueError, match=message):
            await off_loop(aioexec.train.init_from_checkpoint, checkpoint, dict([pair]))


def test_parts_of_two_variables_are_refused(checkpoint: str) -> None:
    with aioexec.Graph().as_default():
        partitioner = aioexec.fixed_size_partitioner(2)
        both = [aioexec.get_variable(name, [4, 3], partitioner=partitioner) for name in "ab"]

        with pytest.raises(ValueError, match="Slices must all be from the same tensor"):
            aioexec.train.init_from_checkpoint(checkpoint, {"matrix": [*both[0], *both[1]]})


# Vocabularies


WORDS = {
    "old rows": "mercury venus mars earth",
    "new rows": "venus jupiter mercury",
    "old columns": "good better best",
    "new columns": "good best fantastic",
    "letters": "a b c d",
    "other letters": "c x a d",
    "two letters": "d e",
    "two grades": "best good",
}


@pytest.fixture
def vocabularies(tmp_path: Path) -> dict[str, str]:
    """The path of a file for each list of words."""
    for name, words in WORDS.items():
        (tmp_path / name).write_text(words.replace(" ", "\n") + "\n")
    return {name: str(tmp_path / name) for name in WORDS}


def counting() -> Callable[..., Any]:
    """An initializer that makes 101, 102, …, through all its calls."""
    numbers = itertools.count(101)

    def make(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        rows: Any
        columns: Any
        rows, columns = (None if hasattr(size, "op") else size for size in shape)
        if rows is None:
            return aioexec.reshape(aioexec.cast(aioexec.range(1, shape[0] + 1), aioexec.float32), [-1, 1])
        return np.array([next(numbers) for _ in range(rows * columns)], np.float32).reshape(rows, columns)

    return make


async def test_a_matrix_follows_the_words_of_its_rows_and_columns(
    checkpoint: str, vocabularies: dict[str, str]
) -> None:
    initializer = _load_and_remap_matrix_initializer(
        ckpt_path=checkpoint,
        old_tensor_name="matrix",
        new_row_vocab_size=3,
        new_col_vocab_size=3,
        old_row_vocab_file=vocabularies["old rows"],
        new_row_vocab_file=vocabularies["new rows"],
        old_col_vocab_file=vocabularies["old columns"],
        new_col_vocab_file=vocabularies["new columns"],
        num_row_oov_buckets=2,
        num_col_oov_buckets=1,
        initializer=counting(),
    )
    with aioexec.Graph().as_default() as graph:
        value = initializer([5, 4])
        async with aioexec.Session(graph=graph) as session:
            found = await session.run(value)

    expected = [
        [3, 5, 1, 107],
        [2, 3, 4, 108],
        [0, 2, 5, 109],
        [101, 102, 103, 110],
        [104, 105, 106, 111],
    ]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("parts", [None, 2, 3, 5])
async def test_an_embedding_in_parts_follows_the_words_of_its_rows(
    checkpoint: str, vocabularies: dict[str, str], parts: int | None
) -> None:
    old = vocabularies["letters"]
    new = vocabularies["other letters"]
    initializer = _load_embedding_initializer(
        checkpoint,
        "matrix",
        4,
        3,
        old,
        new,
        num_oov_buckets=1,
        initializer=aioexec.ones_initializer(),
    )

    def build() -> None:
        partitioner = None if parts is None else aioexec.fixed_size_partitioner(parts)
        aioexec.get_variable("e", shape=[5, 3], initializer=initializer, partitioner=partitioner)

    values = await initialized(build)

    expected = [MATRIX[2], [1] * 3, MATRIX[0], MATRIX[3], [1] * 3]
    whole = [values["e"]] if parts is None else [values[f"e/part_{k}"] for k in range(parts)]
    np.testing.assert_array_equal(np.concatenate(whole), expected)


async def test_a_warm_start_takes_names_and_vocabularies_of_a_former_model(
    checkpoint: str, vocabularies: dict[str, str]
) -> None:
    old = vocabularies["letters"]
    new = vocabularies["two letters"]
    by_rows = aioexec.train.VocabInfo(new, 2, 1, old, backup_initializer=aioexec.ones_initializer())

    def build() -> None:
        aioexec.get_variable("vector", shape=[2], initializer=aioexec.zeros_initializer())
        aioexec.get_variable("words", [3, 3], partitioner=aioexec.fixed_size_partitioner(2))
        aioexec.get_variable("untouched", initializer=5.0, trainable=False)
        aioexec.train.warm_start(
            checkpoint,
            var_name_to_vocab_info={"words": by_rows},
            var_name_to_prev_var_name={"words": "matrix"},
        )

    values = await initialized(build)

    np.testing.assert_array_equal(values["vector"], [1, 2])
    np.testing.assert_array_equal(values["words/part_0"], [MATRIX[3], [1] * 3])
    np.testing.assert_array_equal(values["words/part_1"], [[1] * 3])
    assert values["untouched"] == 5


async def test_two_variables_warm_start_from_one_and_columns_have_vocabularies(
    checkpoint: str, vocabularies: dict[str, str]
) -> None:
    old = vocabularies["old columns"]
    new = vocabularies["two grades"]
    by_columns = aioexec.train.VocabInfo(new, 2, 0, old, axis=1)

    def build() -> None:
        aioexec.get_variable("one", shape=[2])
        aioexec.get_variable("other", shape=[2])
        aioexec.get_variable("classes", shape=[4, 2], use_resource=True)
        aioexec.train.warm_start(
            checkpoint,
            [".*"],
            var_name_to_vocab_info={"classes": by_columns},
            var_name_to_prev_var_name={"one": "vector", "other": "vector", "classes": "matrix"},
        )

    values = await initialized(build)

    np.testing.assert_array_equal(values["one"], [1, 2])
    np.testing.assert_array_equal(values["other"], [1, 2])
    np.testing.assert_array_equal(values["classes"], MATRIX[:, [2, 0]])


def test_what_a_warm_start_cannot_use_is_refused(checkpoint: str) -> None:
    with aioexec.Graph().as_default():
        aioexec.get_variable("vector", shape=[2])

        with pytest.raises(ValueError, match=r"var_name_to_prev_var_name that were not used.*misspelled"):
            aioexec.train.warm_start(checkpoint, var_name_to_prev_var_name={"vektor": "vector"})
        with pytest.raises(ValueError, match="axis argument are 0 and 1"):
            aioexec.train.VocabInfo("new", 2, 0, "old", axis=2)
        with pytest.raises(ValueError, match="all `Variable` or all `str`"):
            aioexec.train.warm_start(checkpoint, [1, "a"])
        with pytest.raises(ValueError, match="row or column vocab files"):
            _load_and_remap_matrix_initializer(checkpoint, "matrix", 4, 3)([4, 3])
