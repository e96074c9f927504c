"""Transformations of `ax.data.experimental` and `ax.contrib.data`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.formats.records import encode_record
from tests.data.elements import elements

Dataset = ax.data.Dataset
experimental = ax.data.experimental


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def numbers(count: int) -> ax.data.Dataset:
    return Dataset.range(count)


CASES: list[tuple[Any, list[Any]]] = [
    (
        lambda: numbers(5).apply(experimental.map_and_batch(lambda x: x * 2, 2, num_parallel_calls=2)),
        [[0, 2], [4, 6], [8]],
    ),
    (
        lambda: numbers(5).apply(
            ax.contrib.data.map_and_batch(lambda x: x, 2, num_parallel_batches=2, drop_remainder=True)
        ),
        [[0, 1], [2, 3]],
    ),
    (
        lambda: numbers(2).apply(
            experimental.parallel_interleave(lambda x: Dataset.from_tensors(x).repeat(2), 2)
        ),
        [0, 1, 0, 1],
    ),
    (  # rows of unequal length: the fourth takes the place of the first
        lambda: (
            numbers(5)
            .skip(1)
            .apply(experimental.parallel_interleave(lambda x: numbers(x).map(lambda y: x * 100 + y), 3, 2))
        ),
        [100, 200, 201, 300, 301, 400, 401, 302, 402, 403],
    ),
    (lambda: numbers(3).apply(experimental.take_while(lambda x: x < 2)), [0, 1]),
    (lambda: numbers(3).apply(experimental.enumerate_dataset(4)), [(4, 0), (5, 1), (6, 2)]),
    (lambda: numbers(4).batch(2).apply(experimental.unbatch()), [0, 1, 2, 3]),
    (
        lambda: numbers(3).map(lambda x: 6 // x).apply(experimental.ignore_errors()),
        [6, 3],
    ),
    (lambda: numbers(6).map(lambda x: x % 2).apply(experimental.unique()), [0, 1]),
    (
        lambda: numbers(4).apply(experimental.scan(np.int64(1), lambda s, x: (s * 2, s + x))),
        [1, 3, 6, 11],
    ),
    (lambda: experimental.Counter(5, 2).take(3), [5, 7, 9]),
    (
        lambda: numbers(6).apply(
            experimental.group_by_window(lambda x: x % 2, lambda key, window: window.batch(2), 2)
        ),
        [[0, 2], [1, 3], [4], [5]],
    ),
    (
        lambda: experimental.choose_from_datasets(
            [numbers(2), numbers(9).skip(5)], Dataset.from_tensor_slices(np.array([1, 0, 1, 0, 0, 1]))
        ),
        [5, 0, 6, 1, 7],
    ),
    (lambda: numbers(5).apply(ax.contrib.data.batch_and_drop_remainder(2)), [[0, 1], [2, 3]]),
    (
        lambda: numbers(5).apply(ax.contrib.data.sliding_window_batch(3, window_shift=2)),
        [[0, 1, 2], [2, 3, 4]],
    ),
    (
        lambda: (
            numbers(3)
            .map(lambda x: ax.fill([x], x))
            .apply(ax.contrib.data.padded_batch_and_drop_remainder(2, [2]))
        ),
        [[[0, 0], [1, 0]]],
    ),
    (lambda: numbers(3).apply(experimental.prefetch_to_device("/cpu:0")), [0, 1, 2]),
]


@pytest.mark.parametrize(("make", "expected"), CASES)
async def test_elements(make: Any, expected: list[Any]):
    assert await elements(make()) == expected


async def test_sequences_of_similar_lengths_are_batched():
    rows = numbers(9).map(lambda x: (ax.fill([x], x), x))
    buckets = experimental.bucket_by_sequence_length(
        lambda row, _: ax.shape(row)[0], [3, 6], [2, 2, 4], pad_to_bucket_boundary=False
    )

    found = await elements(rows.apply(buckets))

    assert [last for _, last in found] == [[0, 1], [3, 4], [2], [5], [6, 7, 8]]
    assert [[len(row) for row in batch] for batch, _ in found] == [[1, 1], [4, 4], [2], [5], [8, 8, 8]]


async def test_a_sloppy_interleave_passes_over_what_waits():
    gate = asyncio.Event()

    async def generator(index: Any) -> Any:
        if index == 0:
            await gate.wait()
        for k in range(2):
            yield index * 10 + k

    def dataset(x: ax.Tensor) -> ax.data.Dataset:
        return Dataset.from_generator(generator, ax.int64, [], args=(x,))

    element = (
        numbers(3)
        .apply(ax.contrib.data.sloppy_interleave(dataset, cycle_length=3))
        .make_one_shot_iterator()
        .get_next()
    )

    async with ax.Session() as session:
        found = [int(await session.run(element)) for _ in range(4)]
        assert sorted(found) == [10, 11, 20, 21]
        gate.set()
        assert [int(await session.run(element)) for _ in range(2)] == [0, 1]


async def test_sparse_tensors_are_components():
    values = ax.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 4])
    dataset = Dataset.from_tensor_slices({"x": values, "y": [1, 2, 3]})
    assert dataset.output_classes == {"x": ax.SparseTensor, "y": ax.Tensor}
    doubled = dataset.map(lambda row: (row["x"], row["y"])).batch(2)
    iterator = doubled.make_initializable_iterator()
    element = iterator.get_next()

    async with ax.Session() as session:
        await session.run(iterator.initializer)
        sparse, dense = await session.run(element)
    assert sparse.indices.tolist() == [[0, 1]]
    assert sparse.values.tolist() == [1.0]
    assert sparse.dense_shape.tolist() == [2, 4]
    assert dense.tolist() == [1, 2]
    rows = Dataset.from_sparse_tensor_slices(values)
    assert await elements(rows) == [([[1]], [1.0], [4]), ([], [], [4]), ([[0]], [2.0], [4])]


async def test_an_iterator_of_sparse_tensors_is_selected_by_what_is_fed():
    dataset = Dataset.from_tensors(ax.SparseTensor([[1]], ["a"], [3])).repeat()
    handle = ax.placeholder(ax.string, [])
    iterator = ax.data.Iterator.from_string_handle(
        handle, dataset.output_types, dataset.output_shapes, dataset.output_classes
    )
    element = ax.sparse_tensor_to_dense(iterator.get_next(), default_value="")
    name = dataset.make_one_shot_iterator().string_handle()

    async with ax.Session() as session:
        assert (await session.run(element, {handle: await session.run(name)})).tolist() == [b"", b"a", b""]


async def test_batches_of_arrays_of_different_shapes_are_sparse():
    rows = numbers(3).map(lambda x: ax.fill([x], x))
    element = rows.apply(experimental.dense_to_sparse_batch(3, [4])).make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        found = await session.run(ax.sparse_tensor_to_dense(element))
    assert found.tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [2, 2, 0, 0]]


async def test_features_of_files_are_parsed(tmp_path: Path):
    for number in range(2):
        records = []
        for k in range(3):
            example = ax.train.Example()
            example.features.feature["n"].int64_list.value.append(10 * number + k)
            example.features.feature["row"].float_list.value.extend([k] * k)
            records.append(encode_record(example.SerializeToString()))
        (tmp_path / f"{number}.tfrecord").write_bytes(b"".join(records))
    features = {"n": ax.FixedLenFeature([], ax.int64), "row": ax.VarLenFeature(ax.float32)}
    dataset = experimental.make_batched_features_dataset(
        str(tmp_path / "*.tfrecord"), 4, features, label_key="n", num_epochs=1, shuffle=False
    )
    element = dataset.make_one_shot_iterator().get_next()

    async with ax.Session() as session:
        (first, labels), (_, rest) = [await session.run(element) for _ in range(2)]
    assert labels.tolist() == [0, 1, 2, 10]
    assert first["row"].values.tolist() == [1.0, 2.0, 2.0]
    assert rest.tolist() == [11, 12]


async def test_fields_of_csv_files(tmp_path: Path):
    (tmp_path / "a.csv").write_text('n,name,x\n1,"a,b",0.5\n2,c,\n')
    dataset = experimental.CsvDataset(str(tmp_path / "a.csv"), [ax.int32, ax.string, 7.0], header=True)
    chosen = experimental.CsvDataset(
        [str(tmp_path / "a.csv")], [ax.constant([0.0])], header=True, select_cols=[2]
    )

    assert await elements(dataset) == [(1, b"a,b", 0.5), (2, b"c", 7.0)]
    assert await elements(chosen) == [(0.5,), (0.0,)]


@pytest.fixture
def csv_datasets(tmp_path: Path, graph: ax.Graph) -> list[ax.data.Dataset]:
    """Two datasets, whose making reads the files."""
    (tmp_path / "a.csv").write_text("n,name,x,big\n1,p,0.5,5\n2,q,1,5000000000\n")
    (tmp_path / "b.csv").write_text("n,name,x,big\n3,r,,7\n")
    pattern = str(tmp_path / "*.csv")
    with pytest.raises(GraphValueError, match="No files match"):
        experimental.make_csv_dataset(str(tmp_path / "*.no"), 2)
    with pytest.raises(GraphValueError, match="must be one of the columns"):
        experimental.make_csv_dataset(pattern, 2, label_name="y")
    with pytest.raises(GraphValueError, match="without a header line"):
        experimental.make_csv_dataset(pattern, 2, header=False)
    whole = experimental.make_csv_dataset(pattern, 2, label_name="n", num_epochs=1, shuffle=False)
    chosen = experimental.make_csv_dataset(
        pattern, 3, select_columns=["x", 0], num_epochs=1, column_defaults=[ax.int32, 9.0], shuffle=False
    )
    return [whole, chosen]


async def test_columns_of_csv_files(csv_datasets: list[ax.data.Dataset]):
    dataset, chosen = csv_datasets

    assert dataset.output_types == ({"name": ax.string, "x": ax.float32, "big": ax.int64}, ax.int32)
    assert await elements(dataset) == [
        ({"name": [b"p", b"q"], "x": [0.5, 1.0], "big": [5, 5_000_000_000]}, [1, 2]),
        ({"name": [b"r"], "x": [0.0], "big": [7]}, [3]),
    ]
    assert await elements(chosen) == [{"n": [1, 2, 3], "x": [0.5, 1.0, 9.0]}]


async def test_a_single_element_is_a_tensor():
    only = experimental.get_single_element(numbers(3).skip(2))
    many = experimental.get_single_element(numbers(3))

    async with ax.Session() as session:
        assert await session.run(only) == 2
        with pytest.raises(InvalidArgumentError, match="more than one element"):
            await session.run(many)


async def test_datasets_are_sampled_by_weights():
    always = experimental.sample_from_datasets([numbers(3), numbers(9)], weights=[1.0, 0.0])
    alike = experimental.sample_from_datasets([numbers(30), numbers(30)], seed=1)

    assert (await elements(always.take(3))) == [0, 1, 2]
    assert sorted(await elements(alike)) == sorted([*range(30)] * 2)


def test_options_are_kept():
    options = ax.data.Options()
    options.experimental_deterministic = False
    options.experimental_threading.private_threadpool_size = 2
    dataset = numbers(3).with_options(options).map(lambda x: x)

    assert dataset.options().experimental_deterministic is False
    assert dataset.options().experimental_threading.private_threadpool_size == 2
    with pytest.raises(AttributeError, match="Cannot set the property fast"):
        options.fast = True
    options.experimental_deterministic = True
    with pytest.raises(ValueError, match="incompatible values"):
        dataset.with_options(options)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(GraphValueError, match="mutually exclusive"):
        experimental.map_and_batch(lambda x: x, 2, 2, num_parallel_calls=2)
    with pytest.raises(GraphValueError, match="window_size or window_size_func"):
        experimental.group_by_window(lambda x: x, lambda key, window: window)
    with pytest.raises(GraphValueError, match="must equal"):
        experimental.bucket_by_sequence_length(lambda x: x, [1], [1])
    with pytest.raises(GraphTypeError, match="only supports inputs with a single"):
        Dataset.from_tensors(1.0).apply(experimental.unique())
    with pytest.raises(GraphTypeError, match=r"must return a pair"):
        numbers(2).apply(experimental.scan(np.int64(0), lambda state, x: state))
    with pytest.raises(GraphTypeError, match=r"scalar `tf\.int64`"):
        experimental.choose_from_datasets([numbers(2)], Dataset.from_tensors(1.0))
    with pytest.raises(GraphTypeError, match=r"must be a `tf\.SparseTensor`"):
        Dataset.from_sparse_tensor_slices([1])
    with pytest.raises(GraphValueError, match="at least 1-dimensional"):
        Dataset.from_tensor_slices((1, [2]))
    with pytest.raises(GraphValueError, match="incompatible with the expected"):
        numbers(2).apply(ax.contrib.data.assert_element_shape([3]))


def test_static_shapes_are_merged():
    rows = Dataset.from_tensor_slices((np.zeros([4, 2]), [1] * 4)).batch(2)

    narrowed = rows.apply(ax.contrib.data.assert_element_shape(([2, 2], [None])))

    assert [shape.as_list() for shape in narrowed.output_shapes] == [[2, 2], [None]]
