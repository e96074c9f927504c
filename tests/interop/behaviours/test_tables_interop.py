"""Lookup tables and vocabularies, in both engines."""

import importlib

import numpy as np
import pytest

from tests.interop.behaviours.both import failure

pytestmark = pytest.mark.interop


def lookup_ops(engine):
    """The module with the names that are not public in TensorFlow 2."""
    if not engine.is_ours:
        return importlib.import_module("tensorflow.python.ops.lookup_ops")

    class Names:
        def __getattr__(self, name):
            for module in ("lookup_tables", "vocabularies", "table_initializers"):
                found = getattr(importlib.import_module(f"aioexec.ops.lookup.{module}"), name, None)
                if found is not None:
                    return found
            raise AttributeError(name)

    return Names()


async def test_a_table_is_filled_and_looked_up(agree):
    async def program(engine):
        tf = engine.tf
        names = tf.lookup
        table = names.StaticHashTable(
            names.KeyValueTensorInitializer(["a", "b"], [1, 2], value_dtype=tf.int64), -1
        )
        keys = tf.placeholder(tf.string)
        found = table.lookup(keys)
        sparse = table.lookup(tf.SparseTensor([[0, 1]], ["b"], [1, 2]))
        async with engine.session() as session:
            early = await failure(lambda: session.run(found, {keys: ["a"]}), "Table not initialized")
            await session.run(tf.tables_initializer())
            value = await session.run(sparse)
            return (
                early,
                await session.run(found, {keys: [["b", "x"]]}),
                await session.run(table.size()),
                [np.asarray(part) for part in value],
            )

    _, found, size, sparse = await agree(program)

    assert (found.tolist(), size, sparse[1].tolist()) == ([[2, -1]], 2, [2])


async def test_vocabularies_come_from_files_and_tensors(agree, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("a 7\nb 8\nc 9\n")

    async def program(engine):
        tf, names = engine.tf, lookup_ops(engine)
        columns = {"key_column_index": 0, "value_column_index": 1, "delimiter": " "}
        tables = [
            names.index_table_from_file(str(path)),
            names.index_table_from_file(str(path), **columns),
            names.index_table_from_file(str(path), num_oov_buckets=5, vocab_size=2, **columns),
            names.index_table_from_tensor(["a", "c"], default_value=4),
            names.index_table_from_tensor(
                ["a", "c"], num_oov_buckets=3, hasher_spec=names.StrongHashSpec([5, 6])
            ),
        ]
        back = [
            names.index_to_string_table_from_file(str(path)),
            names.index_to_string_table_from_tensor(["p", "q"]),
        ]
        words, numbers = tf.constant(["a", "c", "a 7", "zzz"]), tf.constant([1, 5], tf.int64)
        found = [*(table.lookup(words) for table in tables), *(table.lookup(numbers) for table in back)]
        sizes = [table.size() for table in (*tables, *back)]
        async with engine.session() as session:
            await session.run(tf.tables_initializer())
            return await session.run(found), await session.run(sizes)

    found, sizes = await agree(program)

    assert found[1].tolist() == [7, 9, -1, -1]
    assert sizes == [3, 3, 7, 2, 5, 3, 2]


async def test_steps_change_tables(agree):
    async def program(engine):
        tf = engine.tf
        names = tf.lookup.experimental
        table = names.MutableHashTable(tf.string, tf.int64, -1)
        vectors = names.MutableHashTable(tf.int64, tf.float32, [0.0, 0.5])
        dense = names.DenseHashTable(tf.int64, tf.int64, -5, 0, -1, initial_num_buckets=4)
        keys, values = tf.placeholder(tf.string), tf.placeholder(tf.int64)
        insert, remove, find = table.insert(keys, values), table.remove(keys), table.lookup(keys)
        async with engine.session() as session:
            await session.run(insert, {keys: ["a", "b", "a"], values: [1, 2, 3]})
            results = [await session.run(find, {keys: [["a", "z"]]})]
            await session.run(remove, {keys: ["a", "q"]})
            results += [await session.run(part) for part in table.export()]
            results.append(await session.run(table.size()))
            ids = tf.constant([3, 4], tf.int64)
            await session.run(vectors.insert(ids, [[1.0, 2.0], [3.0, 4.0]]))
            results.append(await session.run(vectors.lookup(tf.constant([4, 9], tf.int64))))
            await session.run(
                dense.insert(tf.constant([5, 6, 7, 13], tf.int64), tf.constant([1, 2, 3, 4], tf.int64))
            )
            await session.run(dense.erase(tf.constant([6], tf.int64)))
            results += [await session.run(part) for part in dense.export()]
            return *results, [
                await failure(
                    lambda: session.run(insert, {keys: ["a", "b"], values: [1]}), "Expected shape [2]"
                ),
                await failure(
                    lambda: session.run(dense.lookup(tf.constant([0], tf.int64))),
                    "Using the empty_key as a table key",
                ),
            ]

    found, keys, values, size, *_ = await agree(program)

    assert (found.tolist(), keys.tolist(), values.tolist(), size) == ([[3, -1]], [b"b"], [2], 1)


@pytest.mark.behaviour(128, 129)
async def test_tables_of_a_session_are_its_own_and_share_by_name(agree):
    async def program(engine):
        tf, names = engine.tf, importlib.import_module("tensorflow.python.ops.gen_lookup_ops")
        if engine.is_ours:
            from aioexec.graph.apply import apply_no_output_op, apply_op

            def make(**attrs):
                return apply_op("HashTableV2", key_dtype=tf.string, value_dtype=tf.int64, **attrs)

            def size(handle):
                return apply_op("LookupTableSizeV2", handle)

            def fill(handle):
                return apply_no_output_op("InitializeTableV2", handle, ["a"], tf.constant([1], tf.int64))
        else:

            def make(**attrs):
                return names.hash_table_v2(tf.string, tf.int64, **attrs)

            def size(handle):
                return names.lookup_table_size_v2(handle)

            def fill(handle):
                return names.initialize_table_v2(handle, ["a"], tf.constant([1], tf.int64))

        handles = [
            make(shared_name="s", name="one"),
            make(shared_name="s", name="two"),
            make(shared_name="s", container="c", name="three"),
            make(name="s", use_node_name_sharing=True),
            make(name="four"),
        ]
        sizes = [size(handle) for handle in handles]
        filled = fill(handles[0])
        async with engine.session() as session, engine.session() as other:
            await session.run(filled)
            return await session.run(sizes), await other.run(sizes)

    mine, others = await agree(program)

    assert (mine, others) == ([1, 1, 0, 1, 0], [0, 0, 0, 0, 0])


async def test_files_that_are_no_tables_are_refused(agree, tmp_path):
    def file(content):
        path = tmp_path / f"{abs(hash(content))}.txt"
        path.write_bytes(content)
        return str(path)

    async def program(engine):
        tf = engine.tf
        names = tf.lookup
        line, number = names.TextFileIndex.WHOLE_LINE, names.TextFileIndex.LINE_NUMBER

        async def run(content, *columns, **options):
            path = file(content) if content is not None else str(tmp_path / "nowhere")
            with tf.Graph().as_default():
                key, value = columns or (line, number)
                initializer = names.TextFileInitializer(path, tf.string, key, tf.int64, value, **options)
                names.StaticHashTable(initializer, -1)
                async with engine.session() as session:
                    await session.run(tf.tables_initializer())

        return [
            await failure(lambda: run(None), "nowhere"),
            await failure(lambda: run(b"a\n\nb\n"), "empty line found at position 3"),
            await failure(
                lambda: run(b"a\nb\na\n"), "HashTable has different value for same key. Key a has 0"
            ),
            await failure(lambda: run(b"a\n", vocab_size=4), "Invalid vocab_size in", "expected 4 but got 1"),
            await failure(lambda: run(b"a\n", 0, 1), "expected at least 2 got 1"),
            await failure(lambda: run(b"a\tx\n", 0, 1), "Field x in line 0 is not a valid int64"),
            await failure(lambda: run(b"a\n", vocab_size=0), "vocab_size"),
            await failure(lambda: run(b"a\n", number, number)),
        ]

    await agree(program)
