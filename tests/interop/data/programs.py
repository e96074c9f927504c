"""Datasets that the same program builds with TensorFlow and here."""

from __future__ import annotations

from collections.abc import Callable
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
]
