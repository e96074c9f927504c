"""Vocabularies: words to ids and back, and out-of-vocabulary buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.lookup import KeyValueTensorInitializer, StaticVocabularyTable
from aioexec.ops.lookup.vocabularies import (
    FastHashSpec,
    HasherSpec,
    IdTableWithHashBuckets,
    StrongHashSpec,
    index_table_from_file,
    index_table_from_tensor,
    index_to_string_table_from_file,
    index_to_string_table_from_tensor,
)


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def found(table: Any, keys: Any, dtype: Any = None) -> list[Any]:
    ids = table.lookup(ax.constant(keys, dtype))
    async with ax.Session() as session:
        await session.run(ax.tables_initializer())
        result: list[Any] = (await session.run(ids)).tolist()
    return result


async def test_lines_of_a_file_have_ids(tmp_path: Path):
    path = tmp_path / "words.txt"
    path.write_text("a\nb\nc\n")

    assert await found(index_table_from_file(str(path)), ["c", "x", "a"]) == [2, -1, 0]
    assert await found(index_table_from_file(str(path), vocab_size=2, default_value=9), ["c", "b"]) == [9, 1]
    assert await found(index_to_string_table_from_file(str(path)), [1, 7], ax.int64) == [b"b", b"UNK"]


async def test_columns_of_a_file_have_ids_of_another(tmp_path: Path):
    path = tmp_path / "words.txt"
    path.write_text("a 10\nb 20\n")
    columns: dict[str, Any] = {"key_column_index": 0, "value_column_index": 1, "delimiter": " "}
    numbers: dict[str, Any] = {"key_column_index": 1, "value_column_index": 0, "delimiter": " "}

    assert await found(index_table_from_file(str(path), **columns), ["b", "x"]) == [20, -1]
    assert await found(index_to_string_table_from_file(str(path), **numbers), [10, 1], ax.int64) == [
        b"a",
        b"UNK",
    ]


async def test_elements_of_a_tensor_have_ids():
    assert await found(index_table_from_tensor(["p", "q"]), [["q"], ["x"]]) == [[1], [-1]]
    assert await found(index_table_from_tensor([7, 9], dtype=ax.int64), [9, 8], ax.int64) == [1, -1]
    assert await found(index_to_string_table_from_tensor(["p", "q"], "?"), [1, 2], ax.int64) == [b"q", b"?"]


async def test_integers_of_other_dtypes_are_keys_too():
    table = index_table_from_tensor(ax.constant([7, 9], ax.int32), dtype=ax.int32)

    assert isinstance(table, IdTableWithHashBuckets)
    assert await found(table, [9, 8], ax.int32) == [1, -1]


async def test_keys_that_are_not_there_have_ids_by_their_hash():
    """The ids are TensorFlow's."""
    words = ["b", "hello", "world", ""]

    fast = index_table_from_tensor(["a", "b"], num_oov_buckets=10)
    strong = index_table_from_tensor(["a", "b"], num_oov_buckets=10, hasher_spec=StrongHashSpec([3, 4]))
    numbers = index_table_from_tensor(ax.constant([7, 9]), num_oov_buckets=10, dtype=ax.int32)

    assert await found(fast, words) == [1, 8, 10, 5]
    assert await found(strong, words) == [1, 6, 8, 8]
    assert await found(numbers, [9, 8, -5], ax.int32) == [1, 9, 8]
    assert await found(StaticVocabularyTable(None, 100), ["x", "y"]) == [70, 5]


async def test_the_size_counts_the_ids_to_spare():
    words = KeyValueTensorInitializer(["a", "b"], [0, 1], value_dtype=ax.int64)
    tables = [index_table_from_tensor(["p"], num_oov_buckets=3), StaticVocabularyTable(words, 2)]
    sizes = [*(table.size() for table in tables), IdTableWithHashBuckets(None, 5).size()]
    async with ax.Session() as session:
        await session.run(ax.tables_initializer())
        await session.run([table.initializer for table in tables])

        assert await session.run(sizes) == [4, 4, 5]


def words() -> Any:
    return index_table_from_tensor(["a"])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: index_table_from_file(None), GraphValueError, "must be specified and must not be empty"),
        (lambda: index_table_from_file("f", vocab_size=0), GraphValueError, "must be greater than 0, got 0"),
        (lambda: index_table_from_file("f", num_oov_buckets=-1), GraphValueError, "greater or equal than 0"),
        (
            lambda: index_table_from_file("f", key_dtype=ax.float32),
            GraphTypeError,
            "Only integer and string keys",
        ),
        (lambda: index_table_from_tensor(None), GraphValueError, "`vocabulary_list` must be specified"),
        (lambda: index_table_from_tensor([1]), GraphValueError, "Invalid `dtype`"),
        (
            lambda: index_table_from_tensor(["a"], dtype=ax.float32),
            GraphTypeError,
            "Only integer and string keys",
        ),
        (lambda: index_to_string_table_from_file(""), GraphValueError, "must not be empty"),
        (lambda: index_to_string_table_from_tensor(None), GraphValueError, "must be specified"),
        (lambda: IdTableWithHashBuckets(None, 0), GraphValueError, "must be > 0 if no `table`"),
        (
            lambda: IdTableWithHashBuckets(words(), 1, key_dtype=ax.int64),
            GraphTypeError,
            "Invalid `key dtype`",
        ),
        (
            lambda: IdTableWithHashBuckets(words(), 1, key_dtype=ax.float32),
            GraphTypeError,
            "string or integer",
        ),
        (
            lambda: IdTableWithHashBuckets(words(), 1, hasher_spec="fast"),
            GraphTypeError,
            "of type HasherSpec",
        ),
        (lambda: StaticVocabularyTable(None, 0), GraphValueError, "must be > 0"),
        (
            lambda: StaticVocabularyTable(KeyValueTensorInitializer(["a"], [1.0]), 1),
            GraphTypeError,
            "Invalid `value_dtype`",
        ),
        (
            lambda: StaticVocabularyTable(KeyValueTensorInitializer([1.0], [1]), 1),
            GraphTypeError,
            "Invalid `key_dtype`",
        ),
        (lambda: StaticVocabularyTable(None, 1, ax.int64), GraphTypeError, "Invalid `key_dtype`"),
        (lambda: StaticVocabularyTable(None, 1, ax.float32), GraphTypeError, "Invalid `lookup_key_dtype`"),
        (lambda: StrongHashSpec([1]), GraphValueError, "key must have size 2, got 1"),
        (lambda: StrongHashSpec([1, "a"]), GraphTypeError, "unsigned integer"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call: Callable[[], Any], kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        call()


def test_hashes_are_said_by_name():
    assert FastHashSpec == HasherSpec("fasthash", None)
    assert StrongHashSpec([1, 2]).hasher == "stronghash"
    with pytest.raises(GraphValueError, match="unknown hasher slow"):
        IdTableWithHashBuckets(None, 2, HasherSpec("slow", None)).lookup(ax.constant(["a"]))
