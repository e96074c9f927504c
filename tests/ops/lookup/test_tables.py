"""Lookup tables in graphs: initialization, lookup, changes, files, sharing, and errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import (
    FailedPreconditionError,
    GraphTypeError,
    GraphValueError,
    InvalidArgumentError,
    NotFoundError,
)
from aioexec.graph.apply import apply_no_output_op, apply_op, apply_tuple_op
from aioexec.lookup import KeyValueTensorInitializer, StaticHashTable, TextFileIndex, TextFileInitializer
from aioexec.ops.lookup.lookup_tables import DenseHashTable, HashTable, MutableHashTable
from tests.tiers import Tier, tier as tier


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def words_to_numbers(**options: Any) -> StaticHashTable:
    initializer = KeyValueTensorInitializer(["a", "b"], [1, 2], value_dtype=ax.int64)
    return StaticHashTable(initializer, -1, **options)


async def test_a_program_looks_keys_up_on_every_tier(tier: Tier, graph: ax.Graph):
    table = words_to_numbers()
    keys = ax.placeholder(ax.string, [None])
    doubled = table.lookup(keys) * 2
    assert doubled.shape.as_list() == [None]
    async with tier.session(graph) as session:
        with pytest.raises(FailedPreconditionError, match="Table not initialized"):
            await session.run(doubled, {keys: ["a"]})
        await session.run(ax.tables_initializer())

        for _ in range(3):
            assert (await session.run(doubled, {keys: ["b", "x", "a"]})).tolist() == [4, -2, 2]
        assert await session.run(table.size()) == 2


async def test_a_table_is_looked_up_in_a_loop_and_on_a_branch():
    table = words_to_numbers()
    number = ax.placeholder(ax.int32, [])
    with_loop = ax.while_loop(
        lambda k, total: k < number,
        lambda k, total: (k + 1, total + table.lookup(ax.constant("b"))),
        [ax.constant(0), ax.constant(0, ax.int64)],
    )
    with_branch = ax.cond(
        number > 2, lambda: table.lookup(ax.constant("a")), lambda: ax.constant(0, ax.int64)
    )
    async with ax.Session() as session:
        await session.run(table.initializer)

        assert await session.run([with_loop[1], with_branch], {number: 5}) == [10, 1]
        assert await session.run([with_loop[1], with_branch], {number: 1}) == [2, 0]


async def test_sparse_keys_have_sparse_values():
    table = words_to_numbers()
    keys = ax.SparseTensor([[0, 1], [1, 0]], ["b", "z"], [2, 2])
    async with ax.Session() as session:
        await session.run(table.initializer)

        found = await session.run(table[keys])

    assert (found.indices.tolist(), found.values.tolist(), found.dense_shape.tolist()) == (
        [[0, 1], [1, 0]],
        [2, -1],
        [2, 2],
    )


async def test_a_table_is_filled_from_a_file(tmp_path: Path):
    path = tmp_path / "words.txt"
    path.write_text("zero\tnull\none\teins\n")
    whole = StaticHashTable(
        TextFileInitializer(
            str(path), ax.int64, TextFileIndex.LINE_NUMBER, ax.string, TextFileIndex.WHOLE_LINE
        ),
        "?",
    )
    columns = StaticHashTable(TextFileInitializer(str(path), ax.string, 1, ax.string, 0), "?")
    keys = ax.placeholder(ax.string)
    numbers = ax.placeholder(ax.int64)
    assert [each.name for each in ax.get_collection(ax.GraphKeys.ASSET_FILEPATHS)] == [
        "text_file_init/asset_filepath:0",
        "text_file_init_1/asset_filepath:0",
    ]
    async with ax.Session() as session:
        await session.run(ax.tables_initializer())

        assert (await session.run(whole.lookup(numbers), {numbers: [1, 2]})).tolist() == [b"one\teins", b"?"]
        assert (await session.run(columns.lookup(keys), {keys: ["null", "x"]})).tolist() == [b"zero", b"?"]


async def test_a_file_that_is_not_there_is_named():
    table = StaticHashTable(TextFileInitializer("/nowhere/words", ax.string, 0, ax.string, 1), "?")
    several = apply_no_output_op(
        "InitializeTableFromTextFileV2", table.resource_handle, ax.constant(["a"]), key_index=0, value_index=1
    )
    async with ax.Session() as session:
        with pytest.raises(NotFoundError, match="/nowhere/words; No such file"):
            await session.run(table.initializer)
        with pytest.raises(InvalidArgumentError, match="filename should be a single string"):
            await session.run(several)


async def test_steps_change_a_table():
    table = MutableHashTable(ax.int64, ax.string, "?")
    keys, values = ax.placeholder(ax.int64), ax.placeholder(ax.string)
    insert, remove, look = table.insert(keys, values), table.remove(keys), table.lookup(keys)
    export = table.export()
    async with ax.Session() as session:
        await session.run(insert, {keys: [1, 2], values: ["x", "y"]})
        assert (await session.run(look, {keys: [[2, 3]]})).tolist() == [[b"y", b"?"]]

        await session.run(remove, {keys: [2]})

        assert [part.tolist() for part in await session.run(export)] == [[1], [b"x"]]
        assert await session.run(table.size()) == 1
        own = table.lookup(keys, dynamic_default_values=ax.constant(["p", "q"]))
        assert (await session.run(own, {keys: [1, 9]})).tolist() == [b"x", b"q"]
        with pytest.raises(InvalidArgumentError, match=r"Expected shape \[2\] for value, got \[1\]"):
            await session.run(insert, {keys: [1, 2], values: ["x"]})


async def test_inserts_of_many_steps_at_once_all_count():
    table = MutableHashTable(ax.int64, ax.int64, 0)
    key = ax.placeholder(ax.int64)
    insert = table.insert(key, key * 2)
    async with ax.Session() as session:
        await asyncio.gather(*[session.run(insert, {key: [k, k + 1000]}) for k in range(50)])

        assert await session.run(table.size()) == 100


async def test_values_may_be_vectors_and_keys_of_dense_tables_too():
    vectors = MutableHashTable(ax.string, ax.float32, [0.0, -1.0])
    dense = DenseHashTable(ax.int64, ax.float32, [0.0, -1.0], [0, 0], [-1, -1], initial_num_buckets=4)
    words, pairs = (
        vectors.insert(["a"], [[1.0, 2.0]]),
        dense.insert([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
    )
    found = vectors.lookup(ax.constant(["a", "b"])), dense.lookup(ax.constant([[3, 4], [4, 3]], ax.int64))
    async with ax.Session() as session:
        await session.run([words, pairs])

        assert [value.tolist() for value in await session.run(found)] == [
            [[1, 2], [0, -1]],
            [[3, 4], [0, -1]],
        ]
        keys, values = await session.run(dense.export())
        assert (keys.shape, values.shape) == ((4, 2), (4, 2))
        await session.run(dense.erase([[1, 2]]))
        assert await session.run(dense.size()) == 1


async def test_the_first_version_of_a_dense_table_has_no_deleted_key():
    table = apply_op("MutableDenseHashTable", 0, key_dtype=ax.int64, value_dtype=ax.int64)
    async with ax.Session() as session:
        await session.run(
            apply_no_output_op("LookupTableInsert", table, [7], [8], Tin=ax.int64, Tout=ax.int64)
        )

        found = apply_op("LookupTableFind", table, [7, -1], 0, Tin=ax.int64, Tout=ax.int64)
        assert (await session.run(found)).tolist() == [8, 0]


@pytest.mark.behaviour(128, 129)
async def test_tables_of_one_name_are_one_in_all_sessions_that_share_devices():
    initializer = KeyValueTensorInitializer(["a"], [1], value_dtype=ax.int64)
    one, same = (HashTable(initializer, 0, shared_name="s") for _ in range(2))
    with ax.container("elsewhere"):
        apart = HashTable(initializer, 0, shared_name="s")
    by_node = apply_op(
        "HashTableV2", name="n", use_node_name_sharing=True, key_dtype=ax.string, value_dtype=ax.int64
    )
    also = apply_op("HashTableV2", shared_name="n", key_dtype=ax.string, value_dtype=ax.int64)
    other = apply_op("HashTableV2", shared_name="s", key_dtype=ax.string, value_dtype=ax.float32)
    async with ax.Session() as session:
        await session.run(one.initializer)
        await session.run(apply_no_output_op("InitializeTableV2", by_node, ["k"], ax.constant([1], ax.int64)))

        sizes = [apply_op("LookupTableSizeV2", each) for each in (by_node, also)]
        assert await session.run([one.size(), same.size(), apart.size(), *sizes]) == [1, 1, 0, 1, 1]
        with pytest.raises(
            InvalidArgumentError, match="Conflicting key/value dtypes string->float32 with string->int64"
        ):
            await session.run(apply_op("LookupTableSizeV2", other))


@pytest.mark.behaviour(130)
async def test_a_handle_of_another_kind_of_resource_is_refused():
    queue = ax.FIFOQueue(3, ax.int32)
    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="using the wrong type: expected a LookupTable"):
            await session.run(apply_op("LookupTableSizeV2", queue.queue_ref))


def test_types_and_shapes_that_do_not_fit_are_refused_while_building():
    table = words_to_numbers()
    mutable = MutableHashTable(ax.string, ax.int64, 0)
    handle = mutable.resource_handle
    numbers = KeyValueTensorInitializer([1], [2], ax.int64, ax.int64)
    for call, kind, message in (
        (lambda: table.lookup(ax.constant([1])), GraphTypeError, "string"),
        (
            lambda: numbers.initialize(table),
            GraphTypeError,
            "Invalid key dtype for table, expected string but got int64",
        ),
        (lambda: StaticHashTable(numbers, [1, 2]), GraphValueError, "rank 0"),
        (
            lambda: apply_op("LookupTableFindV2", handle, [1], ax.constant(1, ax.int64)),
            GraphValueError,
            "wrong dtype",
        ),
        (lambda: apply_no_output_op("LookupTableRemoveV2", handle, "a"), GraphValueError, "rank"),
        (lambda: TextFileInitializer("", ax.string, 0, ax.string, 1), GraphValueError, "Filename required"),
        (
            lambda: TextFileInitializer("f", ax.string, -3, ax.string, 1),
            GraphValueError,
            "Invalid key index -3",
        ),
        (
            lambda: TextFileInitializer("f", ax.string, -1, ax.string, 1),
            GraphValueError,
            "Keys must be dtype int64",
        ),
        (
            lambda: TextFileInitializer("f", ax.string, 0, ax.float32, -2),
            GraphValueError,
            "must be integer or string",
        ),
        (
            lambda: TextFileInitializer("f", ax.string, 0, ax.string, 1, vocab_size=0),
            GraphValueError,
            "should be > 0",
        ),
        (
            lambda: TextFileInitializer(3, ax.string, 0, ax.string, 1),
            GraphValueError,
            "must be a string or a tensor",
        ),
    ):
        with pytest.raises(kind, match=message):
            call()


async def test_types_that_do_not_fit_are_refused_when_the_step_runs():
    table = words_to_numbers()
    handle = table.resource_handle
    async with ax.Session() as session:
        for node in (
            apply_op("LookupTableFindV2", handle, [1], ax.constant(1, ax.int64)),
            apply_no_output_op("InitializeTableV2", handle, ["a"], [1.0]),
            apply_tuple_op("LookupTableExportV2", handle, Tkeys=ax.string, Tvalues=ax.float32),
        ):
            with pytest.raises(InvalidArgumentError, match="Signature mismatch: table"):
                await session.run(node)


def test_static_shapes_follow_keys_and_values_where_the_table_is_known():
    keys = ax.placeholder(ax.string, [None, 3])
    vectors = MutableHashTable(ax.string, ax.float32, [0.0, 0.0])
    behind_identity = ax.identity(vectors.resource_handle)

    found = apply_op("LookupTableFindV2", behind_identity, keys, [0.0, 0.0])

    assert found.shape.as_list() == [None, 3, 2]
    assert words_to_numbers().lookup(keys).shape.as_list() == [None, 3]
    assert np.array_equal(vectors.export()[1].shape.as_list(), [None, 2])
