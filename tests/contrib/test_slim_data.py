"""Data sets of `ax.contrib.slim`: decoders of Examples, readers of record files, providers and queues."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, OutOfRangeError

slim = ax.contrib.slim
decoders = slim.tfexample_decoder


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def feature(value: Any) -> Any:
    """A feature of bytes, whole numbers or floats."""
    if isinstance(value[0], bytes):
        return ax.train.Feature(bytes_list=ax.train.BytesList(value=value))
    if isinstance(value[0], float):
        return ax.train.Feature(float_list=ax.train.FloatList(value=value))
    return ax.train.Feature(int64_list=ax.train.Int64List(value=value))


def example(**features: Any) -> bytes:
    named = {key: feature(value) for key, value in features.items()}
    text: bytes = ax.train.Example(features=ax.train.Features(feature=named)).SerializeToString()
    return text


async def decoded(serialized: bytes, features: Any, handler: Any) -> Any:
    """The item of one handler, in a session with initialised tables."""
    decoder = decoders.TFExampleDecoder(features, {"item": handler})
    (item,) = decoder.decode(ax.constant(serialized))
    assert decoder.list_items() == ["item"]
    async with ax.Session() as session:
        await session.run(ax.tables_initializer())
        return await session.run(item)


VARIABLE = {key: ax.VarLenFeature(ax.float32) for key in ("ymin", "xmin", "ymax", "xmax")}


async def test_features_become_tensors():
    text = example(a=[1, 2, 3, 4, 5, 6], rows=[2], columns=[3])
    fixed = {
        "a": ax.FixedLenFeature([6], ax.int64),
        **{k: ax.FixedLenFeature([], ax.int64) for k in ("rows", "columns")},
    }
    sparse = {**fixed, "a": ax.VarLenFeature(ax.int64)}
    matrix = np.arange(1, 7).reshape(2, 3)

    for features in (fixed, sparse):
        np.testing.assert_array_equal(await decoded(text, features, decoders.Tensor("a")), matrix.reshape(-1))
        for handler in (
            decoders.Tensor("a", shape=[2, 3]),
            decoders.Tensor("a", shape_keys=["rows", "columns"]),
        ):
            np.testing.assert_array_equal(await decoded(text, features, handler), matrix)
    with pytest.raises(GraphValueError, match="both shape_keys and shape"):
        decoders.Tensor("a", "rows", [1])


async def test_features_become_boxes_and_results_of_functions():
    text = example(ymin=[1.0, 5.0], xmin=[2.0, 6.0], ymax=[3.0, 7.0], xmax=[4.0, 8.0])

    found = await decoded(text, VARIABLE, decoders.BoundingBox())
    np.testing.assert_array_equal(found, [[1, 2, 3, 4], [5, 6, 7, 8]])
    handler = decoders.ItemHandlerCallback(["ymin"], lambda tensors: tensors["ymin"].values * 2.0)
    np.testing.assert_array_equal(await decoded(text, VARIABLE, handler), [2, 10])
    assert decoders.BoundingBox(prefix="box/").keys == ["box/ymin", "box/xmin", "box/ymax", "box/xmax"]
    with pytest.raises(GraphValueError, match="4 keys"):
        decoders.BoundingBox(["a"])


async def test_features_are_looked_up():
    table = ax.contrib.lookup.index_table_from_tensor(["a", "b"])
    features = {"word": ax.FixedLenFeature([2], ax.string)}

    found = await decoded(example(word=[b"b", b"a"]), features, decoders.LookupTensor("word", table))
    assert found.tolist() == [1, 0]


async def test_an_empty_item_has_a_backup():
    features = {"a": ax.VarLenFeature(ax.int64), "b": ax.VarLenFeature(ax.int64)}
    handler = decoders.BackupHandler(decoders.Tensor("a"), decoders.Tensor("b"))

    assert (await decoded(example(b=[5]), features, handler)).tolist() == [5]
    assert (await decoded(example(a=[4], b=[5]), features, handler)).tolist() == [4]
    wrong: Any = "a"
    with pytest.raises(GraphValueError, match="Primary"):
        decoders.BackupHandler(wrong, handler)


async def test_features_become_sparse_tensors():
    text = example(indices=[1, 3], values=[7.0, 8.0], shape=[5])
    features = {
        "indices": ax.VarLenFeature(ax.int64),
        "values": ax.VarLenFeature(ax.float32),
        "shape": ax.FixedLenFeature([1], ax.int64),
    }

    dense = await decoded(text, features, decoders.SparseTensor(shape_key="shape", densify=True))
    found = await decoded(text, features, decoders.SparseTensor(shape=[4]))
    np.testing.assert_array_equal(dense, [0, 7, 0, 8, 0])
    np.testing.assert_array_equal(found.indices, [[1], [3]])
    np.testing.assert_array_equal(found.dense_shape, [4])


async def test_images_are_decoded():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    async with ax.Session() as session:
        png = await session.run(ax.image.encode_png(pixels))
    features = {
        "image/encoded": ax.FixedLenFeature([], ax.string),
        "image/format": ax.FixedLenFeature([], ax.string),
    }

    def of(contents: bytes, kind: bytes) -> bytes:
        return example(**{"image/encoded": [contents], "image/format": [kind]})

    np.testing.assert_array_equal(await decoded(of(png, b"png"), features, decoders.Image()), pixels)
    raw = decoders.Image(shape=[2, 4, 3])
    np.testing.assert_array_equal(await decoded(of(pixels.tobytes(), b"raw"), features, raw), pixels)
    floats = decoders.Image(dtype=ax.float32)
    np.testing.assert_array_equal(await decoded(of(png, b"png"), features, floats), pixels.astype(np.float32))
    several = {**features, "image/encoded": ax.FixedLenFeature([2], ax.string)}
    text = example(**{"image/encoded": [png, png], "image/format": [b"png"]})
    np.testing.assert_array_equal(
        await decoded(text, several, decoders.Image(repeated=True)), [pixels, pixels]
    )
    with pytest.raises(GraphValueError, match="both shape_keys and shape"):
        decoders.Image(shape=[1], shape_keys="a")


def write(folder: Path) -> str:
    """Two record files with three examples each; the pattern of their names."""
    for number in range(2):
        with ax.python_io.TFRecordWriter(str(folder / f"data-{number}")) as writer:
            for place in range(3):
                writer.write(example(label=[number * 3 + place]))
    return str(folder / "data-*")


def described(sources: Any) -> Any:
    decoder = decoders.TFExampleDecoder(
        {"label": ax.FixedLenFeature([], ax.int64)}, {"label": decoders.Tensor("label")}
    )
    return slim.dataset.Dataset(sources, ax.TFRecordReader, decoder, 6, {"label": "a number"}, num_classes=6)


async def values(fetches: Any) -> list[Any]:
    """All values until the end of the input."""
    found = []
    coordinator = ax.train.Coordinator()
    async with ax.Session() as session:
        await session.run([ax.global_variables_initializer(), ax.local_variables_initializer()])
        threads = ax.train.start_queue_runners(session, coordinator)
        with pytest.raises(OutOfRangeError):
            while True:
                found.append(await session.run(fetches))
        coordinator.request_stop()
        await coordinator.join(threads)
    return found


@pytest.mark.parametrize("shuffle", [False, True])
async def test_a_data_set_is_provided(tmp_path: Path, shuffle: bool):
    data = described(await asyncio.to_thread(write, tmp_path))
    provider = await asyncio.to_thread(
        slim.dataset_data_provider.DatasetDataProvider,
        data,
        num_readers=2,
        shuffle=shuffle,
        num_epochs=1,
        common_queue_capacity=8,
        common_queue_min=2,
    )
    found = await values(provider.get(["label", "record_key"]))

    assert (data.num_classes, provider.num_samples()) == (6, 6)
    assert sorted(int(label) for label, _ in found) == list(range(6))
    assert all(str(tmp_path).encode() in key for _, key in found)
    assert provider.list_items() == ["label", "record_key"]
    with pytest.raises(GraphValueError, match="unknown"):
        provider.get(["image"])
    with pytest.raises(AttributeError, match="absent"):
        _ = data.absent


async def test_files_are_read_once_in_order(tmp_path: Path):
    pattern = await asyncio.to_thread(write, tmp_path)
    reader = slim.parallel_reader
    _, value = await asyncio.to_thread(reader.single_pass_read, [pattern], ax.TFRecordReader)
    (label,) = described(pattern).decoder.decode(value)
    queue = slim.prefetch_queue.prefetch_queue({"label": label}, capacity=2)

    assert [int(each["label"]) for each in await values(queue.dequeue())] == list(range(6))
    with pytest.raises(GraphValueError, match="No data files"):
        await asyncio.to_thread(reader.get_data_files, str(tmp_path / "none*"))
    with pytest.raises(GraphTypeError, match="common_queue"):
        reader.ParallelReader(ax.TFRecordReader, ax.FIFOQueue(1, [ax.int32]))


def test_an_item_cannot_be_named_as_the_key():
    with pytest.raises(GraphValueError, match="record_key"):
        slim.dataset_data_provider.DatasetDataProvider(described(["file"]), record_key="label")


async def test_readers_count_what_they_read(tmp_path: Path):
    files = await asyncio.to_thread(write, tmp_path)
    names = ax.train.string_input_producer([files.replace("*", "0")], num_epochs=1)
    queue = ax.FIFOQueue(10, [ax.string, ax.string])
    reader = slim.parallel_reader.ParallelReader(ax.TFRecordReader, queue, num_readers=2)
    record = reader.read(names)
    counts = [reader.num_records_produced(), reader.num_work_units_completed()]

    assert (reader.num_readers, reader.common_queue) == (2, queue)
    coordinator = ax.train.Coordinator()
    async with ax.Session() as session:
        await session.run(ax.local_variables_initializer())
        threads = ax.train.start_queue_runners(session, coordinator)
        for _ in range(3):
            await session.run(record)
        with pytest.raises(OutOfRangeError):
            await session.run(record)
        assert await session.run(counts) == [3, 1]
        coordinator.request_stop()
        await coordinator.join(threads)
