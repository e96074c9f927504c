"""Datasets that the same program builds with TensorFlow and here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Make = Callable[[Any], Any]
"""The module `tensorflow.compat.v1`, or ours, to a dataset."""


def ranges(tf: Any) -> Any:
    data = tf.data.Dataset
    return data.zip((data.range(5), data.range(2, 20, 3), data.range(3, -4, -2).repeat(2)))


def nested(tf: Any) -> Any:
    values = {"b": np.arange(6.0).reshape(3, 2), "a": (np.arange(3), ["x", "yy", "zzz"])}
    return tf.data.Dataset.from_tensor_slices(values)


def whole(tf: Any) -> Any:
    return tf.data.Dataset.from_tensors((np.ones([2, 3], np.float32), {"k": 5})).repeat(3)


def mapped(tf: Any) -> Any:
    pairs = tf.data.Dataset.from_tensor_slices((tf.range(7), tf.ones([7, 2])))
    return pairs.map(lambda a, b: {"sum": tf.cast(a, tf.float32) + b, "a": (a, [a, a * 2])}).batch(3)


def mapped_in_parallel(tf: Any) -> Any:
    return tf.data.Dataset.range(25).map(lambda x: x * x, num_parallel_calls=4).batch(4, drop_remainder=True)


def filtered(tf: Any) -> Any:
    return tf.data.Dataset.range(30).filter(lambda x: tf.equal(x % 3, 1)).map(lambda x: (x, x + 1))


def selected(tf: Any) -> Any:
    numbers = tf.data.Dataset.range(20)
    return numbers.skip(3).take(12).shard(3, 1).concatenate(numbers.take(-1).skip(18)).enumerate(5)


def concatenated(tf: Any) -> Any:
    one, other = np.zeros([2, 3], np.int32), np.ones([2, 4], np.int32)
    data = tf.data.Dataset
    return data.from_tensor_slices(one).concatenate(data.from_tensor_slices(other))


def shuffled(tf: Any) -> Any:
    return tf.data.Dataset.range(20).shuffle(7, seed=3).repeat(3)


def shuffled_once(tf: Any) -> Any:
    return tf.data.Dataset.range(20).shuffle(7, seed=3, reshuffle_each_iteration=False).repeat(3)


def shuffled_by_the_seed_of_the_graph(tf: Any) -> Any:
    tf.set_random_seed(11)
    return tf.data.Dataset.range(40).shuffle(100, seed=5).repeat(2)


def shuffled_epochs(tf: Any) -> Any:
    return tf.data.Dataset.range(10).repeat(3).shuffle(15, seed=7).batch(4)


def shuffled_empty(tf: Any) -> Any:
    return tf.data.Dataset.range(0).shuffle(15, seed=7).repeat(-1)


def padded(tf: Any) -> Any:
    rows = tf.data.Dataset.range(7).map(lambda x: (tf.fill([x], x), tf.fill([2, x], "s")))
    return rows.padded_batch(3, ([None], [2, 8]), (tf.constant(-1, tf.int64), "end"))


def padded_with_zeros(tf: Any) -> Any:
    rows = tf.data.Dataset.range(7).map(lambda x: {"x": tf.fill([x], 1.5), "n": x})
    return rows.padded_batch(2, {"x": [-1], "n": []}, drop_remainder=True)


def unbatched(tf: Any) -> Any:
    batches = tf.data.Dataset.from_tensor_slices((np.arange(12).reshape(3, 4), np.ones([3, 4, 2])))
    return batches.unbatch().skip(1)


def prefetched(tf: Any) -> Any:
    return tf.data.Dataset.range(50).map(lambda x: x + 1).prefetch(4).batch(7).prefetch(1).repeat(2)


def failing(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices(np.array([1, 0, 2, 0, 3], np.int32))
    return numbers.map(lambda x: 6 // x)


def failing_in_parallel(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices(np.array([1, 0, 2, 0, 3], np.int32))
    return numbers.map(lambda x: 6 // x, num_parallel_calls=3).prefetch(2)


def flat_mapped(tf: Any) -> Any:
    data = tf.data.Dataset
    return data.range(5).flat_map(lambda x: data.from_tensors((x, [x])).repeat(x).batch(2))


def interleaved(tf: Any) -> Any:
    data = tf.data.Dataset
    return data.range(1, 8).interleave(lambda x: data.range(5).map(lambda y: x * 100 + y), 3, 2)


def interleaved_in_parallel(tf: Any) -> Any:
    data = tf.data.Dataset
    rows = data.range(1, 8).map(lambda x: x * 2)
    return rows.interleave(
        lambda x: data.range(x).map(lambda y: x * 100 + y),
        cycle_length=3,
        block_length=2,
        num_parallel_calls=2,
    )


def generated(tf: Any) -> Any:
    def generator() -> Any:
        for k in range(4):
            yield k, {"row": [k] * k, "name": f"n{k}"}

    types = (tf.int32, {"row": tf.float32, "name": tf.string})
    shapes: Any = ([], {"row": [None], "name": []})
    return tf.data.Dataset.from_generator(generator, types, shapes).repeat(2)


def generated_from_arguments(tf: Any) -> Any:
    def generator(count: Any, step: Any) -> Any:
        return (np.full([2], k) for k in range(0, count, step))

    return tf.data.Dataset.from_generator(generator, tf.int64, args=(tf.constant(9), 2))


def generated_wrongly(tf: Any) -> Any:
    return tf.data.Dataset.from_generator(lambda: iter([1, "a", 3]), tf.int32, [])


def windowed(tf: Any) -> Any:
    windows = tf.data.Dataset.range(10).map(lambda x: (x, -x)).window(3, 2, 2)
    return windows.flat_map(lambda x, y: tf.data.Dataset.zip((x.batch(4), y.batch(4))))


def windowed_whole(tf: Any) -> Any:
    return tf.data.Dataset.range(11).window(3, shift=4, drop_remainder=True).flat_map(lambda x: x)


def cached(tf: Any) -> Any:
    return tf.data.Dataset.range(6).shuffle(6, seed=4).cache().repeat(3)


def cached_in_part(tf: Any) -> Any:
    return tf.data.Dataset.range(6).cache().map(lambda x: x + 1).repeat(2)


def reduced(tf: Any) -> Any:
    numbers = tf.data.Dataset.range(5)
    total = numbers.reduce(np.int64(100), lambda state, x: state + x)
    rows = numbers.reduce(
        (0, tf.zeros([0], tf.int64)), lambda state, x: (state[0] + 1, tf.concat([state[1], [x]], 0))
    )
    return tf.data.Dataset.from_tensors((total, rows))


def sparse_elements(tf: Any) -> Any:
    values = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], [1.0, 2.0, 3.0], [3, 4])
    return tf.data.Dataset.from_tensor_slices((values, [1, 2, 3])).repeat(2)


def sparse_batches(tf: Any) -> Any:
    rows = tf.data.Dataset.range(1, 6).map(
        lambda x: tf.SparseTensor([[0], [x]], [x, x + 1], tf.stack([x + 1]))
    )
    return rows.batch(2)


def sparse_rows(tf: Any) -> Any:
    values = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], ["a", "b", "c"], [3, 4])
    return tf.data.Dataset.from_sparse_tensor_slices(values)


def sparse_unbatched(tf: Any) -> Any:
    values = tf.SparseTensor([[0, 1], [2, 0], [2, 3]], [1, 2, 3], [3, 4])
    return tf.data.Dataset.from_tensors((values, [7, 8, 9])).repeat(2).unbatch()


def map_and_batch(tf: Any) -> Any:
    numbers = tf.data.Dataset.range(10)
    return numbers.apply(
        tf.data.experimental.map_and_batch(lambda x: (x, [x, x]), 4, num_parallel_calls=3)
    ).repeat(2)


def parallel_interleave(tf: Any) -> Any:
    """Rows of one length: TensorFlow's order of unequal ones varies by chance (9 of 800 runs)."""
    data = tf.data.Dataset
    return data.range(1, 8).apply(
        tf.data.experimental.parallel_interleave(lambda x: data.range(5).map(lambda y: x * 100 + y), 3, 2)
    )


def shuffle_and_repeat(tf: Any) -> Any:
    return tf.data.Dataset.range(7).apply(tf.data.experimental.shuffle_and_repeat(10, 3, seed=5))


def grouped(tf: Any) -> Any:
    return tf.data.Dataset.range(20).apply(
        tf.data.experimental.group_by_window(
            lambda x: x % 3, lambda key, window: window.batch(4).map(lambda x: (key, x)), 4
        )
    )


def bucketed(tf: Any) -> Any:
    rows = tf.data.Dataset.range(1, 14).map(lambda x: tf.fill([x], x))
    return rows.apply(
        tf.data.experimental.bucket_by_sequence_length(lambda x: tf.shape(x)[0], [4, 8], [3, 2, 4])
    )


def bucketed_to_boundaries(tf: Any) -> Any:
    rows = tf.data.Dataset.range(1, 8).map(lambda x: (tf.fill([x], x), x))
    return rows.apply(
        tf.data.experimental.bucket_by_sequence_length(
            lambda x, _: tf.shape(x)[0], [4, 8], [3, 2, 4], pad_to_bucket_boundary=True
        )
    )


def scanned(tf: Any) -> Any:
    return tf.data.Dataset.range(6).apply(
        tf.data.experimental.scan(np.int64(10), lambda state, x: (state + x, (state, x)))
    )


def taken_while(tf: Any) -> Any:
    return tf.data.Dataset.range(9).apply(tf.data.experimental.take_while(lambda x: x * x < 20))


def without_errors(tf: Any) -> Any:
    numbers = tf.data.Dataset.from_tensor_slices([1, 0, 2, 0, 3]).map(lambda x: 6 // x)
    return numbers.apply(tf.data.experimental.ignore_errors())


def unique(tf: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(["a", "b", "a", "c", "b"]).apply(tf.data.experimental.unique())


def chosen(tf: Any) -> Any:
    data = tf.data.Dataset
    choices = data.from_tensor_slices(np.array([0, 1, 1, 0, 2, 2, 1, 0], np.int64))
    return tf.data.experimental.choose_from_datasets(
        [data.range(2), data.range(10, 20), data.range(30, 31)], choices
    )


def sampled(tf: Any) -> Any:
    data = tf.data.Dataset
    return tf.data.experimental.sample_from_datasets(
        [data.range(20), data.range(100, 110)], weights=[0.7, 0.3], seed=3
    )


def random_numbers(tf: Any) -> Any:
    return tf.data.experimental.RandomDataset(seed=9).take(20)


def counted(tf: Any) -> Any:
    return tf.data.experimental.Counter(3, 2).take(5)


def dense_to_sparse(tf: Any) -> Any:
    rows = tf.data.Dataset.range(1, 6).map(lambda x: tf.fill([x, 2], x))
    return rows.apply(tf.data.experimental.dense_to_sparse_batch(2, [6, 2]))


def single(tf: Any) -> Any:
    only = tf.data.experimental.get_single_element(tf.data.Dataset.range(8).skip(7).map(lambda x: (x, -x)))
    return tf.data.Dataset.from_tensors(only)


def examples(tf: Any) -> Any:
    rows = []
    for k in range(5):
        example = tf.train.Example()
        example.features.feature["n"].int64_list.value.append(k)
        example.features.feature["row"].float_list.value.extend([k] * k)
        rows.append(example.SerializeToString())
    features = {"n": tf.FixedLenFeature([], tf.int64), "row": tf.VarLenFeature(tf.float32)}
    return (
        tf.data.Dataset.from_tensor_slices(rows)
        .map(lambda row: tf.parse_single_example(row, features))
        .batch(2)
    )


PROGRAMS: list[Make] = [
    ranges,
    nested,
    whole,
    mapped,
    mapped_in_parallel,
    filtered,
    selected,
    concatenated,
    shuffled,
    shuffled_once,
    shuffled_by_the_seed_of_the_graph,
    shuffled_epochs,
    shuffled_empty,
    padded,
    padded_with_zeros,
    unbatched,
    prefetched,
    failing,
    failing_in_parallel,
    flat_mapped,
    interleaved,
    interleaved_in_parallel,
    generated,
    generated_from_arguments,
    generated_wrongly,
    windowed,
    windowed_whole,
    cached,
    cached_in_part,
    reduced,
    sparse_elements,
    sparse_batches,
    sparse_rows,
    sparse_unbatched,
    map_and_batch,
    parallel_interleave,
    shuffle_and_repeat,
    grouped,
    bucketed,
    bucketed_to_boundaries,
    scanned,
    taken_while,
    without_errors,
    unique,
    chosen,
    sampled,
    random_numbers,
    counted,
    dense_to_sparse,
    single,
    examples,
]


def lines(tf: Any, folder: Path) -> Any:
    names = [str(folder / f"{k}.txt") for k in (0, 1, 2, 0)]
    return tf.data.TextLineDataset(names).map(lambda line: (line, tf.strings.length(line)))


def compressed_lines(tf: Any, folder: Path) -> Any:
    names = tf.constant([str(folder / f"{k}.txt.gz") for k in (2, 0)])
    return tf.data.TextLineDataset(names, compression_type="GZIP", buffer_size=1000)


def lines_by_hand(tf: Any, folder: Path) -> Any:
    names = tf.data.Dataset.from_tensor_slices([str(folder / "0.txt"), str(folder / "2.txt")])
    return names.flat_map(lambda name: tf.data.TextLineDataset(name).skip(1)).batch(3)


def tf_records(tf: Any, folder: Path) -> Any:
    return tf.data.TFRecordDataset([str(folder / f"{k}.tfrecord") for k in range(3)])


def compressed_tf_records(tf: Any, folder: Path) -> Any:
    return tf.data.TFRecordDataset(str(folder / "2.tfrecord.z"), "ZLIB")


def tf_records_of_a_dataset(tf: Any, folder: Path) -> Any:
    names = tf.data.Dataset.from_tensor_slices([str(folder / f"{k}.tfrecord") for k in range(3)])
    return tf.data.TFRecordDataset(names.take(2)).filter(lambda data: tf.strings.length(data) > 9000)


def damaged_tf_records(tf: Any, folder: Path) -> Any:
    return tf.data.TFRecordDataset([str(folder / "damaged.tfrecord"), str(folder / "0.tfrecord")])


def short_tf_records(tf: Any, folder: Path) -> Any:
    return tf.data.TFRecordDataset([str(folder / "short.tfrecord"), str(folder / "0.tfrecord")])


def no_tf_records(tf: Any, folder: Path) -> Any:
    return tf.data.TFRecordDataset([str(folder / "0.txt"), str(folder / "none"), str(folder / "0.tfrecord")])


def fixed_length(tf: Any, folder: Path) -> Any:
    names = [str(folder / f"{k}.fixed") for k in range(3)]
    return tf.data.FixedLengthRecordDataset(names, 5, header_bytes=4, footer_bytes=2)


def fixed_length_that_is_none(tf: Any, folder: Path) -> Any:
    names = [str(folder / f"{k}.fixed") for k in range(2)]
    return tf.data.FixedLengthRecordDataset(names, 4, header_bytes=4, footer_bytes=2)


def listed(tf: Any, folder: Path) -> Any:
    return tf.data.Dataset.list_files(str(folder / "*.txt"), shuffle=False)


def listed_in_random_order(tf: Any, folder: Path) -> Any:
    return tf.data.Dataset.list_files([str(folder / "*.txt"), str(folder / "*.gz")], seed=4)


FILES: list[Any] = [
    lines,
    compressed_lines,
    lines_by_hand,
    tf_records,
    compressed_tf_records,
    tf_records_of_a_dataset,
    damaged_tf_records,
    short_tf_records,
    no_tf_records,
    fixed_length,
    fixed_length_that_is_none,
    listed,
    listed_in_random_order,
]
"""Programs that read files of a folder."""
