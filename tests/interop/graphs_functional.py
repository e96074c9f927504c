"""Graphs with TensorArrays and loops over rows, and gradients through them, built with the names both packages have."""

from __future__ import annotations

import functools
from typing import Any

from tests.interop.building import Builder, Built, values

GRAPHS: list[Builder] = []


def graph(build: Builder) -> Builder:
    @functools.wraps(build)
    def with_nodes(tf: Any) -> Built:
        if hasattr(tf, "disable_control_flow_v2"):
            tf.disable_control_flow_v2()  # TensorFlow 2 would make functions of the bodies, and lists of the arrays
        return build(tf)

    GRAPHS.append(with_nodes)
    return with_nodes


def rows(tf: Any, *shape: int | None) -> tuple[Any, list[Any]]:
    """A placeholder and two feeds for it."""
    x = tf.placeholder(tf.float32, shape, name="x")
    feeds = [{x: values(seed, *[3 if size is None else size for size in shape])} for seed in (1, 2)]
    return x, feeds


def with_gradient(tf: Any, y: Any, x: Any) -> list[Any]:
    """A tensor, and the gradient of its weighted sum."""
    weights = tf.reshape(tf.cast(tf.range(1, tf.size(y) + 1), tf.float32), tf.shape(y))
    return [y, tf.gradients(tf.reduce_sum(y * weights), x)[0]]


@graph
def mapped_rows(tf: Any) -> Built:
    x, feeds = rows(tf, 4, 2)
    return Built(with_gradient(tf, tf.map_fn(lambda row: row * row + 1.0, x), x), feeds)


@graph
def mapped_rows_of_unknown_number(tf: Any) -> Built:
    x, feeds = rows(tf, None, 2)
    mapped = tf.map_fn(tf.reduce_prod, x)
    return Built(with_gradient(tf, mapped, x), [*feeds, {x: values(1, 1, 2)}, {x: values(1, 7, 2)}])


@graph
def no_rows_at_all(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    return Built([tf.map_fn(lambda row: row * 2.0, x)], [{x: values(1, 0, 2)}])


@graph
def mapped_structures(tf: Any) -> Built:
    x, feeds = rows(tf, 4, 2)
    total, which = tf.map_fn(
        lambda pair: (pair[0] + pair[1], tf.argmax(pair[0])), (x, x * x), dtype=(tf.float32, tf.int64)
    )
    return Built([*with_gradient(tf, total, x), which], feeds)


@graph
def a_map_in_a_map(tf: Any) -> Built:
    x, feeds = rows(tf, 3, 2)
    return Built([tf.map_fn(lambda row: tf.map_fn(lambda cell: cell * cell, row), x)], feeds)


@graph
def scanned(tf: Any) -> Built:
    x, feeds = rows(tf, 5)
    fetches = []
    for options in ({}, {"reverse": True}, {"initializer": 2.0}, {"initializer": 2.0, "reverse": True}):
        fetches += with_gradient(tf, tf.scan(lambda total, each: total * each + 1.0, x, **options), x)
    return Built(fetches, feeds)


@graph
def scanned_structures(tf: Any) -> Built:
    x, feeds = rows(tf, 5)
    sums, products = tf.scan(
        lambda state, each: (state[0] + each, state[1] * each), x, initializer=(0.0, 1.0)
    )
    return Built([sums, *with_gradient(tf, products, x)], feeds)


@graph
def folded(tf: Any) -> Built:
    x, feeds = rows(tf, 5)
    fetches = []
    for fold in (tf.foldl, tf.foldr):
        for options in ({}, {"initializer": 2.0}):
            fetches += with_gradient(tf, fold(lambda total, each: total * each - each, x, **options), x)
    return Built(fetches, feeds)


@graph
def an_array_written_by_a_loop(tf: Any) -> Built:
    x, feeds = rows(tf, 3)
    _, _, array = tf.while_loop(
        lambda i, total, array: i < 4,
        lambda i, total, array: (i + 1, total * x, array.write(i, total)),
        [0, tf.ones([3]), tf.TensorArray(tf.float32, 4)],
    )
    return Built(with_gradient(tf, array.stack(), x), feeds)


@graph
def an_array_that_grows(tf: Any) -> Built:
    x, feeds = rows(tf, 3)
    n = tf.placeholder(tf.int32, [], name="n")
    _, array = tf.while_loop(
        lambda i, array: i < n,
        lambda i, array: (i + 1, array.write(i, x * tf.cast(i, tf.float32))),
        [0, tf.TensorArray(tf.float32, 0, dynamic_size=True)],
    )
    return Built([*with_gradient(tf, array.concat(), x), array.size()], [{**feeds[0], n: k} for k in (1, 4)])


@graph
def an_array_written_by_a_branch(tf: Any) -> Built:
    x, feeds = rows(tf, 3)
    array = tf.cond(
        x[0] > 0,
        lambda: tf.TensorArray(tf.float32, 2).write(0, x).write(1, x * 2.0).stack(),
        lambda: tf.TensorArray(tf.float32, 2).write(1, x).write(0, x * 3.0).stack(),
    )
    return Built([array], feeds)


@graph
def elements_in_any_order(tf: Any) -> Built:
    x, feeds = rows(tf, 4, 2)
    array = tf.TensorArray(tf.float32, 6, clear_after_read=False).scatter([5, 0, 3, 1], x)
    picked = array.gather([3, 3, 5]) + tf.concat([array.read(0)[tf.newaxis], array.gather([0, 1])], 0)
    return Built(with_gradient(tf, picked, x), feeds)


@graph
def parts_of_different_lengths(tf: Any) -> Built:
    x, feeds = rows(tf, 5, 2)
    array = tf.TensorArray(tf.float32, 3, infer_shape=False).split(x, [1, 3, 1])
    squares = tf.TensorArray(tf.float32, 3, infer_shape=False)
    for k in range(3):
        squares = squares.write(k, tf.square(array.read(k)))
    return Built(with_gradient(tf, squares.concat(), x), feeds)


@graph
def a_recurrent_network(tf: Any) -> Built:
    """The loop of dynamic_rnn: rows are read from one array and written to another, the state is a loop variable."""
    x, feeds = rows(tf, 4, 2, 3)
    kernel = tf.constant(values(5, 5, 2), name="kernel")
    inputs = tf.TensorArray(tf.float32, 4).unstack(x)

    def step(i: Any, state: Any, outputs: Any) -> Any:
        state = tf.tanh(tf.matmul(tf.concat([inputs.read(i), state], 1), kernel))
        return i + 1, state, outputs.write(i, state)

    loop_vars = [0, tf.zeros([2, 2]), tf.TensorArray(tf.float32, 4)]
    _, _, outputs = tf.while_loop(lambda i, state, outputs: i < 4, step, loop_vars)
    y = outputs.stack()
    return Built([*with_gradient(tf, y, x), tf.gradients(y, kernel)[0]], feeds, tolerance=4.0)
