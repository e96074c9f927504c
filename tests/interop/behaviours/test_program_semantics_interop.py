"""What programs of TensorFlow 1.x rely on beyond names: conversions, reads and writes of variables, functions, files."""

from importlib import import_module

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats, outcome

pytestmark = pytest.mark.interop


def internal(engine, ours, theirs):
    """The module that has a class without a public name."""
    return import_module(ours if engine.is_ours else theirs)


async def test_ensure_shape_checks_when_it_runs(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, None)
        y = tf.ensure_shape(x, [None, 2])
        async with engine.session() as session:
            return (
                y.shape.as_list(),
                await session.run(y, {x: np.ones((3, 2))}),
                await failure(lambda: session.run(y, {x: np.ones((3, 3))}), "[3,3]", "[?,2]"),
                await failure(lambda: session.run(y, {x: np.ones(2)})),
            )

    await agree(program)


async def test_a_variable_of_a_variable_begins_with_its_present_value(agree):
    async def program(engine):
        tf = engine.tf
        first = tf.Variable(floats([1, 2]), use_resource=False)
        second = tf.Variable(first, use_resource=False)
        third = tf.Variable(first * 2.0, use_resource=False)
        async with engine.session() as session:
            await session.run(second.initializer)
            before = await session.run(second)
            await session.run(first.initializer)
            await session.run(first.assign(floats([5, 6])))
            await session.run([second.initializer, third.initializer])
            return before, await session.run([second, third])

    result = await agree(program)

    np.testing.assert_array_equal(result[1], [[5, 6], [10, 12]])


async def test_what_an_assignment_returns_is_a_variable_that_is_assigned_again(agree):
    async def program(engine):
        tf = engine.tf
        v = tf.Variable(1.0, use_resource=True)
        twice = v.assign_add(1.0).assign_add(1.0)
        then = v.assign(10.0).assign_sub(3.0) * 2.0
        async with engine.session() as session:
            await session.run(v.initializer)
            return (
                await session.run(twice),
                await session.run(v),
                await session.run(then),
                await session.run(v),
            )

    assert await agree(program) == (3.0, 3.0, 14.0, 7.0)


async def test_a_list_with_tensors_in_it_is_converted_to_the_dtype_asked_for(agree):
    async def program(engine):
        tf = engine.tf
        one = tf.constant(1.0, tf.float64)
        made = [
            tf.convert_to_tensor([one, 2, 3.5], dtype=tf.float64),
            tf.convert_to_tensor([tf.constant(1.5), [2][0], one], dtype=tf.int32),
            tf.stack([one, 2]),
            tf.convert_to_tensor([[one, 2], [3, one]]),
            tf.reshape([one, 2, 3, 4], [tf.constant(2), -1]),
        ]
        async with engine.session() as session:
            return [each.dtype.name for each in made], await session.run(made)

    await agree(program)


async def test_a_tensor_array_with_a_shape_and_without_inference(agree):
    async def program(engine):
        tf = engine.tf
        array = tf.TensorArray(tf.float32, 3, infer_shape=False, element_shape=[None, 2])
        array = array.write(0, tf.ones([1, 2])).write(1, tf.ones([3, 2])).write(2, tf.zeros([0, 2]))
        joined = array.concat()
        async with engine.session() as session:
            return joined.shape.as_list(), array.read(1).shape.as_list(), await session.run(joined)

    await agree(program)


async def test_the_gradient_of_a_split_array_that_is_written_further(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [6])
        array = tf.TensorArray(tf.float32, 3, dynamic_size=True, infer_shape=False, clear_after_read=False)
        array = array.split(x, [1, 2, 3]).write(3, x[:2] * 3.0)
        y = tf.reduce_sum(array.concat() ** 2.0)
        async with engine.session() as session:
            return await session.run([y, *tf.gradients(y, [x])], {x: np.arange(6)})

    await agree(program)


async def test_magnitudes_of_complex_numbers(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.constant([3 + 4j, -5 + 12j], tf.complex64)
        made = [tf.abs(x), abs(x), tf.abs(tf.cast(x, tf.complex128))]
        async with engine.session() as session:
            return [each.dtype.name for each in made], await session.run(made)

    await agree(program)


async def test_quantized_values_are_fetched_as_integers(agree):
    async def program(engine):
        tf = engine.tf
        q = tf.bitcast(tf.constant([1, 200], tf.uint8), tf.quint8)
        async with engine.session() as session:
            value = await session.run(q)
            return [int(each) for each in value]

    await agree(program)


async def test_string_attributes_and_locations_are_bytes(agree):
    async def program(engine):
        tf = engine.tf
        a = tf.constant(1.0, name="a")
        with tf.colocate_with(a.op), tf.container("here"):
            b = tf.identity(a, name="b")
            queue = tf.FIFOQueue(1, [tf.float32], shared_name="mine", name="q")
        op = queue.queue_ref.op
        return (
            b.op.colocation_groups(),
            op.get_attr("shared_name"),
            op.get_attr("container"),
            b.op.get_attr("T").name,
        )

    await agree(program)


@pytest.mark.parametrize("use_resource", [True, False])
async def test_a_part_of_a_variable_is_assigned(use_resource, agree):
    async def program(engine):
        tf = engine.tf
        v = tf.Variable(np.zeros((3, 2), np.float32), use_resource=use_resource)
        row, column = v[0].assign([1.0, 2.0]), v[1:, 1].assign([3.0, 4.0])
        async with engine.session() as session:
            await session.run(v.initializer)
            await session.run(row)
            await session.run(column)
            return await session.run(v)

    np.testing.assert_array_equal(await agree(program), [[1, 2], [0, 3], [0, 4]])


async def test_gather_nd_with_batches(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.constant(np.arange(24).reshape(2, 3, 4))
        async with engine.session() as session:
            return await session.run([
                tf.gather_nd(x, [[[1], [0]], [[2], [2]]], batch_dims=1),
                tf.gather_nd(x, [[1, 2], [0, 3]], batch_dims=1),
            ])  # fmt: skip

    await agree(program)


async def test_a_map_over_a_sparse_tensor(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.SparseTensor([[0, 0], [0, 2], [2, 1]], floats([1, 2, 3]), [3, 4])
        y = tf.map_fn(lambda row: tf.sparse.reduce_sum(row) + 1.0, x, dtype=tf.float32)
        async with engine.session() as session:
            return await session.run(y)

    await agree(program)


async def test_sparse_tensors_times_and_divided_by_dense_ones(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.SparseTensor([[0, 0], [1, 2]], floats([1, 2]), [2, 3])
        dense = tf.constant(floats([[2, 3, 4], [5, 6, 7]]))
        async with engine.session() as session:
            return [(await session.run(each)).values for each in (x * dense, x / dense, x * 3.0, x / 2.0)]

    await agree(program)


async def test_slices_with_the_sign_changed(agree):
    async def program(engine):
        tf = engine.tf
        slices = tf.IndexedSlices(tf.constant(floats([[1, 2]])), tf.constant([1]), tf.constant([3, 2]))
        negative = -slices
        async with engine.session() as session:
            value = await session.run(negative)
            return type(negative).__name__, value.values, value.indices, value.dense_shape

    await agree(program)


async def test_running_nothing(agree):
    async def program(engine):
        async with engine.session() as session:
            return await failure(lambda: session.run([]), "The Session graph is empty")

    await agree(program)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", np.array([1.0, 2.0])),
        ("int32", [1.0, 2.0]),
        ("int32", 2.0),
        ("int64", np.float32(3)),
        ("uint8", np.array([1, 2], np.int64)),
        ("float32", np.array([1, 2], np.int64)),
        ("float32", np.array([True, False])),
        ("bool", np.array([0, 1])),
        ("bool", 1.0),
        ("int32", np.array([True])),
        ("int32", [[1, 2], [3]]),
        ("complex64", np.array([1.0])),
    ],
    ids=str,
)
async def test_feeds_are_converted(dtype, value, agree):
    async def program(engine):
        x = engine.tf.placeholder(dtype, None)
        async with engine.session() as session:
            return await outcome(lambda: session.run(x, {x: value}))

    await agree(program)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("int32", np.array([1.5])),
        ("int32", 2.5),
        ("int32", np.array([2**40])),
        ("uint8", np.array([300], np.int64)),
        ("float32", np.array(["1"])),
        ("float32", None),
    ],
    ids=str,
)
async def test_feeds_that_would_lose_value_are_refused_here(dtype, value, differ):
    async def program(engine):
        x = engine.tf.placeholder(dtype, None)
        async with engine.session() as session:
            return await outcome(lambda: session.run(x, {x: value}))

    ours, theirs = await differ(program)

    assert "OpError" in ours.classes
    assert isinstance(theirs, np.ndarray | np.generic)


async def test_two_calls_of_a_random_function_differ(agree):
    async def program(engine):
        tf = engine.tf
        defun = internal(engine, "aioexec.ops.functions.defun", "tensorflow.python.framework.function").Defun

        @defun()
        def draw():
            return tf.random_uniform([8])

        a, b = draw(), draw()
        async with engine.session() as session:
            first, second = await session.run([a, b])
            return bool(np.any(first != second)), bool(np.any(first != await session.run(a)))

    assert await agree(program) == (True, True)


async def test_a_barrier_without_shapes(agree):
    async def program(engine):
        tf = engine.tf
        module = internal(engine, "aioexec.ops.containers.barrier", "tensorflow.python.ops.data_flow_ops")
        barrier = module.Barrier((tf.float32,), shapes=())
        async with engine.session() as session:
            await session.run(barrier.insert_many(0, ["a"], [1.0]))
            return await session.run(barrier.ready_size())

    await agree(program)


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
async def test_compressed_records(compression, agree, tf, tmp_path):
    path = str(tmp_path / "records")
    with tf.io.TFRecordWriter(path, compression) as writer:
        writer.write(b"one")
        writer.write(b"two")

    async def program(engine):
        tf = engine.tf
        options = tf.python_io.TFRecordOptions({"": 0, "ZLIB": 1, "GZIP": 2}[compression])
        reader = tf.TFRecordReader(options=options)
        queue = tf.FIFOQueue(2, [tf.string], shapes=[[]])
        _, value = reader.read(queue)
        async with engine.session() as session:
            await session.run(queue.enqueue(path))
            await session.run(queue.close())
            return [
                await session.run(value),
                await session.run(value),
                await outcome(lambda: session.run(value)),
            ]

    await agree(program)


async def test_paths_with_a_scheme(agree, tmp_path):
    (tmp_path / "text").write_bytes(b"hello")

    async def program(engine):
        tf = engine.tf
        async with engine.session() as session:
            return await session.run([
                tf.read_file(f"file://{tmp_path}/text"),
                tf.matching_files(f"file://{tmp_path}/te*"),
            ])  # fmt: skip

    await agree(program)


async def test_a_partitioned_variable_with_a_number(agree):
    async def program(engine):
        tf = engine.tf
        v = tf.get_variable(
            "v", [4, 2], initializer=tf.constant_initializer(3), partitioner=tf.fixed_size_partitioner(2)
        )
        w = tf.get_variable(
            "w", [4], tf.int32, initializer=tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2)
        )
        async with engine.session() as session:
            await session.run(tf.global_variables_initializer())
            return await session.run([tf.convert_to_tensor(v), w.as_tensor()]), [p.name for p in v]

    await agree(program)


async def test_tables_made_in_a_map(agree):
    async def program(engine):
        tf = engine.tf

        def find(key):
            table = tf.lookup.StaticHashTable(
                tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2], tf.string, tf.int32), -1
            )
            return table.lookup(key)

        found = tf.map_fn(find, tf.constant(["b", "c", "a"]), dtype=tf.int32)
        async with engine.session() as session:
            await session.run(tf.tables_initializer())
            return await session.run(found)

    np.testing.assert_array_equal(await agree(program), [2, -1, 1])


async def test_one_path_in_a_vector_is_remapped(agree, tf, tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        matrix = tf.get_variable("matrix", initializer=floats([[1, 2], [3, 4]]))
        session.run(matrix.initializer)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))

    async def program(engine):
        loaded = engine.tf.raw_ops.LoadAndRemapMatrix(
            ckpt_path=[path],
            old_tensor_name="matrix",
            row_remapping=[1, 0],
            col_remapping=np.zeros(0, np.int64),
            initializing_values=floats([]),
            num_rows=2,
            num_cols=2,
        )
        async with engine.session() as session:
            return await session.run(loaded)

    np.testing.assert_array_equal(await agree(program), [[3, 4], [1, 2]])


async def test_templates_inside_functions(agree):
    async def program(engine):
        tf = engine.tf
        defun = internal(engine, "aioexec.ops.functions.defun", "tensorflow.python.framework.function").Defun

        template = tf.make_template(
            "t", lambda x: x * tf.get_variable("w", initializer=2.0, use_resource=True)
        )

        @defun(tf.float32)
        def twice(x):
            return template(template(x))

        y = twice(3.0)
        async with engine.session() as session:
            await session.run(tf.global_variables_initializer())
            return await session.run(y), [v.name for v in tf.global_variables()]

    await agree(program)


async def test_functions_that_differ_in_their_gradient_only(agree):
    async def program(engine):
        tf = engine.tf
        defun = internal(engine, "aioexec.ops.functions.defun", "tensorflow.python.framework.function").Defun

        @defun(tf.float32, tf.float32)
        def tenfold(x, dy):
            return dy * 10.0

        @defun(tf.float32, grad_func=tenfold, func_name="with_a_gradient")
        def one(x):
            return x * 2.0

        @defun(tf.float32, func_name="without")
        def other(x):
            return x * 2.0

        x = tf.placeholder(tf.float32, [])
        y, z = one(x), other(x)
        async with engine.session() as session:
            return await session.run([y, z, *tf.gradients(y, [x]), *tf.gradients(z, [x])], {x: 3.0})

    assert await agree(program) == [6.0, 6.0, 10.0, 2.0]


async def test_a_mutable_table_is_shared_by_its_name(agree):
    async def program(engine):
        tf = engine.tf

        def table():
            return tf.raw_ops.MutableHashTableV2(
                key_dtype=tf.int64, value_dtype=tf.float32, shared_name="mine", use_node_name_sharing=False
            )

        keys = tf.constant([1, 2], tf.int64)
        put = tf.raw_ops.LookupTableInsertV2(table_handle=table(), keys=keys, values=floats([5, 6]))
        found = tf.raw_ops.LookupTableFindV2(table_handle=table(), keys=keys, default_value=tf.constant(-1.0))
        async with engine.session() as session:
            await session.run(put)
            return await session.run(found)

    np.testing.assert_array_equal(await agree(program), [5, 6])
