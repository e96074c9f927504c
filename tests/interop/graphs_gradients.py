"""Graphs with tf.gradients through matrix products and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.building import Builder, Built, labels, values, whole

GRAPHS: list[Builder] = []


def graph(build: Builder) -> Builder:
    GRAPHS.append(build)
    return build


def dense(tf: Any, x: Any, seed: int, size: int, weights: list[Any], dtype: str = "float32") -> Any:
    """x W + b; W and b are constants, added to `weights`."""
    kernel = tf.constant(values(seed, int(x.shape[-1]), size, dtype=dtype))
    bias = tf.constant(values(seed + 50, size, dtype=dtype))
    weights += [kernel, bias]
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def softmax_loss(tf: Any, logits: Any, wanted: Any) -> Any:
    return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=wanted, logits=logits))


@graph
def linear_regression(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None])
    w, b = tf.constant(values(1, 3, 1)), tf.constant(0.5)
    error = tf.squeeze(tf.matmul(x, w), 1) + b - y
    loss = tf.reduce_mean(tf.square(error))
    return Built(
        [loss, *tf.gradients(loss, [w, b, x])], [{x: values(n, n, 3), y: values(n, n)} for n in (4, 9)]
    )


@graph
def logistic_regression(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [8, 3]), tf.placeholder(tf.float32, [8, 1])
    w, b = tf.constant(values(2, 3, 1)), tf.constant(values(3, 1))
    p = tf.sigmoid(tf.matmul(x, w) + b)
    loss = -tf.reduce_mean(y * tf.log(p) + (1.0 - y) * tf.log(1.0 - p))
    return Built(
        [loss, *tf.gradients(loss, [w, b, x])], [{x: values(4, 8, 3), y: whole(5, 8, 1, low=0, high=2)}]
    )


@graph
def softmax_regression(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.int32, [None])
    weights: list[Any] = []
    logits = dense(tf, x, 1, 4, weights)
    loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    feeds = [{x: values(n, n, 5), y: whole(n, n, low=0, high=4)} for n in (3, 10)]
    return Built([loss, *tf.gradients(loss, [*weights, x])], feeds)


def perceptron(tf: Any, activation: Any, sizes: list[int], dtype: str = "float32") -> Built:
    x, y = tf.placeholder(dtype, [None, 6]), tf.placeholder(dtype, [None, sizes[-1]])
    weights: list[Any] = []
    layer = x
    for i, size in enumerate(sizes[:-1]):
        layer = activation(dense(tf, layer, i, size, weights, dtype))
    loss = softmax_loss(tf, dense(tf, layer, 9, sizes[-1], weights, dtype), y)
    feeds = [{x: values(n, n, 6, dtype=dtype), y: labels(n, n, sizes[-1])} for n in (2, 16)]
    return Built([loss, *tf.gradients(loss, [*weights, x])], feeds)


@graph
def perceptron_relu(tf: Any) -> Built:
    return perceptron(tf, tf.nn.relu, [16, 8, 3])


@graph
def perceptron_tanh(tf: Any) -> Built:
    return perceptron(tf, tf.tanh, [10, 10, 10, 4])


@graph
def perceptron_of_smooth_units_in_double(tf: Any) -> Built:
    return perceptron(tf, lambda x: tf.sigmoid(x) * tf.nn.softplus(x), [7, 5], "float64")


@graph
def perceptron_of_exponential_units(tf: Any) -> Built:
    return perceptron(tf, lambda x: tf.nn.elu(x) + tf.nn.selu(-x) * 0.5 + tf.nn.leaky_relu(x, 0.3), [9, 3])


@graph
def perceptron_of_bounded_units(tf: Any) -> Built:
    return perceptron(
        tf, lambda x: tf.nn.relu6(x * 3.0) - tf.nn.softsign(x) * tf.clip_by_value(x, -0.5, 0.5), [9, 3]
    )


@graph
def autoencoder_with_tied_weights(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 8])
    w, b = tf.constant(values(1, 8, 3)), tf.constant(values(2, 8))
    code = tf.nn.relu(tf.matmul(x, w))
    loss = tf.reduce_sum(tf.squared_difference(tf.matmul(code, w, transpose_b=True) + b, x)) / 8.0
    return Built([code, loss, *tf.gradients(loss, [w, b])], [{x: values(n, n, 8)} for n in (1, 5)])


@graph
def products_with_every_transposition(tf: Any) -> Built:
    a, b = tf.placeholder(tf.float32, [3, 4]), tf.placeholder(tf.float32, [4, 3])
    products = [
        tf.matmul(a, b),
        tf.matmul(a, a, transpose_a=True),
        tf.matmul(b, b, transpose_b=True),
        tf.matmul(a, b, transpose_a=True, transpose_b=True),
    ]
    loss = tf.add_n([tf.reduce_sum(tf.sin(product)) for product in products])
    return Built([loss, *tf.gradients(loss, [a, b])], [{a: values(1, 3, 4), b: values(2, 4, 3)}])


@graph
def batched_attention(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [2, None, 4])
    projections = [tf.constant(values(i, 4, 4)) for i in range(3)]
    flat = tf.reshape(x, [-1, 4])
    queries, keys, held = (tf.reshape(tf.matmul(flat, each), tf.shape(x)) for each in projections)
    weights = tf.nn.softmax(tf.matmul(queries, keys, transpose_b=True) * 0.5)
    loss = tf.reduce_mean(tf.square(tf.matmul(weights, held)))
    return Built([loss, *tf.gradients(loss, [*projections, x])], [{x: values(n, 2, n, 4)} for n in (2, 5)])


def convolved(tf: Any, strides: int, padding: str, dilation: int = 1) -> Built:
    x = tf.placeholder(tf.float32, [None, 8, 7, 2])
    kernel, bias = tf.constant(values(1, 3, 3, 2, 4)), tf.constant(values(2, 4))
    layer = tf.nn.conv2d(x, kernel, [1, strides, strides, 1], padding, dilations=[1, dilation, dilation, 1])
    loss = tf.reduce_mean(tf.square(tf.nn.relu(tf.nn.bias_add(layer, bias))))
    return Built([loss, *tf.gradients(loss, [kernel, bias, x])], [{x: values(n, n, 8, 7, 2)} for n in (1, 3)])


@graph
def convolution_same(tf: Any) -> Built:
    return convolved(tf, 1, "SAME")


@graph
def convolution_valid_with_strides(tf: Any) -> Built:
    return convolved(tf, 2, "VALID")


@graph
def convolution_same_with_strides(tf: Any) -> Built:
    return convolved(tf, 2, "SAME")


@graph
def convolution_of_a_point(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [2, 5, 5, 3])
    kernel = tf.constant(values(3, 1, 1, 3, 4))
    loss = tf.reduce_sum(tf.tanh(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "VALID")))
    return Built([loss, *tf.gradients(loss, [kernel, x])], [{x: values(4, 2, 5, 5, 3)}])


def convolutional(tf: Any, pool: Any, padding: str) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.float32, [None, 3])
    kernels = [tf.constant(values(1, 3, 3, 1, 4)), tf.constant(values(2, 3, 3, 4, 5))]
    layer = x
    for kernel in kernels:
        layer = pool(
            tf.nn.relu(tf.nn.conv2d(layer, kernel, [1, 1, 1, 1], "SAME")), [1, 2, 2, 1], [1, 2, 2, 1], padding
        )
    weights: list[Any] = []
    logits = dense(tf, tf.reshape(layer, [-1, 2 * 2 * 5]), 3, 3, weights)
    loss = softmax_loss(tf, logits, y)
    feeds = [{x: values(n, n, 8, 8, 1), y: labels(n, n, 3)} for n in (1, 6)]
    return Built([loss, *tf.gradients(loss, [*kernels, *weights])], feeds)


@graph
def convolutions_and_max_pools(tf: Any) -> Built:
    return convolutional(tf, tf.nn.max_pool, "VALID")


@graph
def convolutions_and_average_pools(tf: Any) -> Built:
    return convolutional(tf, tf.nn.avg_pool, "SAME")


@graph
def overlapping_pools(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [2, 7, 7, 2])
    kernel = tf.constant(values(1, 2, 2, 2, 3))
    layer = tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME")
    pools = [
        tf.nn.max_pool(layer, [1, 3, 3, 1], [1, 2, 2, 1], "SAME"),
        tf.nn.avg_pool(layer, [1, 3, 3, 1], [1, 1, 1, 1], "VALID"),
    ]
    loss = tf.add_n([tf.nn.l2_loss(each) for each in pools])
    return Built([loss, *tf.gradients(loss, [kernel, x])], [{x: values(5, 2, 7, 7, 2)}])


@graph
def recurrent_cell(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [5, None, 3])
    inner, outer = tf.constant(values(1, 3, 4)), tf.constant(values(2, 4, 4))
    state = tf.zeros(tf.stack([tf.shape(x)[1], 4]))
    for moment in tf.unstack(x):
        state = tf.tanh(tf.matmul(moment, inner) + tf.matmul(state, outer))
    loss = tf.reduce_mean(state)
    return Built([loss, *tf.gradients(loss, [inner, outer, x])], [{x: values(n, 5, n, 3)} for n in (1, 4)])


@graph
def long_short_term_memory(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [4, 2, 3])
    weights, bias = tf.constant(values(1, 7, 16)), tf.constant(values(2, 16))
    output = cell = tf.zeros([2, 4])
    for moment in range(4):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x[moment], output], 1), weights), bias)
        enter, update, forget, leave = tf.split(gates, 4, 1)
        cell = cell * tf.sigmoid(forget + 1.0) + tf.sigmoid(enter) * tf.tanh(update)
        output = tf.tanh(cell) * tf.sigmoid(leave)
    loss = tf.reduce_sum(output * output)
    return Built([loss, *tf.gradients(loss, [weights, bias, x])], [{x: values(3, 4, 2, 3)}])


@graph
def gated_recurrent_unit(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 4, 3])
    gates, candidate = tf.constant(values(1, 8, 10)), tf.constant(values(2, 8, 5))
    state = tf.zeros_like(x[:, 0, :1]) * tf.ones([1, 5])
    for moment in range(4):
        both = tf.sigmoid(tf.matmul(tf.concat([x[:, moment], state], 1), gates))
        reset, update = both[:, :5], both[:, 5:]
        proposed = tf.tanh(tf.matmul(tf.concat([x[:, moment], reset * state], 1), candidate))
        state = update * state + (1.0 - update) * proposed
    loss = tf.reduce_mean(tf.square(state))
    return Built(
        [loss, *tf.gradients(loss, [gates, candidate, x])], [{x: values(n, n, 4, 3)} for n in (2, 3)]
    )


@graph
def layer_normalisation(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 6])
    weights: list[Any] = []
    layer = dense(tf, x, 1, 8, weights)
    mean, variance = tf.nn.moments(layer, [1], keep_dims=True)
    layer = (layer - mean) * tf.rsqrt(variance + 1e-3) * tf.constant(values(3, 8))
    loss = tf.reduce_sum(tf.square(dense(tf, layer, 2, 3, weights)))
    return Built(
        [loss, *tf.gradients(loss, [*weights, x])], [{x: values(n, n, 6)} for n in (3, 7)], tolerance=4
    )


@graph
def batch_normalisation(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 5])
    weights: list[Any] = []
    layer = dense(tf, x, 1, 6, weights)
    mean, variance = tf.nn.moments(layer, [0])
    scale, offset = tf.constant(values(4, 6)), tf.constant(values(5, 6))
    layer = tf.nn.relu(tf.nn.batch_normalization(layer, mean, variance, offset, scale, 1e-3))
    loss = tf.reduce_mean(dense(tf, layer, 2, 2, weights))
    feeds = [{x: values(n, n, 5)} for n in (4, 12)]
    del weights[1]  # the bias before the normalisation has no influence: its gradient is rounding
    return Built([loss, *tf.gradients(loss, [*weights, scale, offset, x])], feeds, tolerance=4)


@graph
def residual_layers(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 5])
    weights: list[Any] = []
    layer = x
    for i in range(4):
        layer += 0.5 * tf.nn.relu(dense(tf, layer, i, 5, weights))
    loss = tf.reduce_mean(tf.abs(layer)) + tf.reduce_max(layer)
    return Built([loss, *tf.gradients(loss, [*weights, x])], [{x: values(n, n, 5)} for n in (2, 6)])


@graph
def gradients_weighted_from_outside(tf: Any) -> Built:
    a, m, seed = (tf.placeholder(tf.float32, shape) for shape in ([None, 3], [3, 4], [None, 4]))
    product = tf.matmul(a, m)
    gradients = tf.gradients([product, tf.square(product)], [a, m], grad_ys=[seed, seed * 2.0])
    feeds = [{a: values(n, n, 3), m: values(9, 3, 4), seed: values(n + 1, n, 4)} for n in (1, 4)]
    return Built([product, *gradients], feeds)


@graph
def stopped_gradients(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [3, 4])
    w, v = tf.constant(values(1, 4, 4)), tf.constant(values(2, 4, 4))
    hidden = tf.matmul(x, w)
    out = tf.matmul(tf.tanh(hidden), v) * tf.stop_gradient(tf.matmul(hidden, v)) + tf.matmul(x, v)
    through = tf.gradients(out, [w, v, x])
    held = tf.gradients(out, [v, x], stop_gradients=[hidden])
    return Built([out, *through, *held], [{x: values(3, 3, 4)}])


@graph
def product_with_the_second_derivative(tf: Any) -> Built:
    x, direction = tf.placeholder(tf.float32, [4, 3]), tf.placeholder(tf.float32, [3, 3])
    w = tf.constant(values(1, 3, 3))
    loss = tf.reduce_sum(tf.tanh(tf.matmul(tf.square(tf.matmul(x, w)), w)))
    (gradient,) = tf.gradients(loss, w)
    (product,) = tf.gradients(tf.reduce_sum(gradient * direction), w)
    return Built([loss, gradient, product], [{x: values(2, 4, 3), direction: values(3, 3, 3)}], tolerance=4)


@graph
def embedding_rows(tf: Any) -> Built:
    words = tf.placeholder(tf.int32, [None, 3])
    table = tf.constant(values(1, 7, 4))
    weights: list[Any] = []
    joined = tf.reshape(tf.gather(table, words), [-1, 12])
    loss = tf.nn.l2_loss(dense(tf, joined, 2, 3, weights))
    table_gradient = tf.convert_to_tensor(tf.gradients(loss, table)[0])
    feeds = [{words: whole(n, n, 3, low=0, high=7)} for n in (2, 5)]
    return Built([loss, table_gradient, *tf.gradients(loss, weights)], feeds)


@graph
def highway_layers(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 4])
    weights: list[Any] = []
    layer = x
    for i in range(3):
        gate = tf.sigmoid(dense(tf, layer, i, 4, weights) - 1.0)
        layer = gate * tf.tanh(dense(tf, layer, i + 5, 4, weights)) + (1.0 - gate) * layer
    loss = tf.reduce_sum(tf.exp(layer * 0.3))
    return Built([loss, *tf.gradients(loss, [*weights, x])], [{x: values(n, n, 4)} for n in (1, 3)])


@graph
def two_tasks_and_shared_parts(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [5, 6])
    weights: list[Any] = []
    left, right = tf.split(x, 2, 1)
    middle = tf.concat([dense(tf, left, 1, 4, weights), dense(tf, right, 2, 4, weights)], 1)
    pieces = tf.unstack(tf.transpose(tf.pad(middle, [[0, 0], [1, 1]])), axis=0)
    mixed = tf.stack(pieces[::2] + pieces[1::3], axis=1)
    tiled = tf.tile(tf.slice(mixed, [0, 1], [5, 4]), [1, 2])
    loss = tf.reduce_mean(tf.square(dense(tf, tiled, 3, 2, weights))) + tf.reduce_sum(mixed[::-1, 1:3])
    return Built([loss, *tf.gradients(loss, [*weights, x])], [{x: values(7, 5, 6)}])


@graph
def mixture_of_experts(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 4])
    weights: list[Any] = []
    gate = tf.expand_dims(tf.nn.softmax(dense(tf, x, 0, 3, weights)), 2)
    experts = tf.stack([tf.tanh(dense(tf, x, i, 2, weights)) for i in (1, 2, 3)], axis=1)
    mixed = tf.reduce_sum(gate * experts, 1)
    loss = tf.reduce_mean(tf.squared_difference(mixed, 0.3)) - tf.reduce_mean(tf.log(gate))
    return Built([mixed, loss, *tf.gradients(loss, weights)], [{x: values(n, n, 4)} for n in (2, 5)])


@graph
def siamese_branches(tf: Any) -> Built:
    one, two, same = (tf.placeholder(tf.float32, shape) for shape in ([None, 5], [None, 5], [None]))
    weights: list[Any] = []
    kernel = tf.constant(values(3, 5, 4))
    codes = [tf.nn.relu(tf.matmul(branch, kernel)) for branch in (one, two)]
    squared = tf.reduce_sum(tf.squared_difference(*codes), 1) + 1e-3
    margin = tf.maximum(0.0, 1.0 - tf.sqrt(squared))
    loss = tf.reduce_mean(same * squared + (1.0 - same) * tf.square(margin))
    weights.append(kernel)
    feeds = [
        {one: values(n, n, 5), two: values(n + 9, n, 5), same: whole(n, n, low=0, high=2)} for n in (3, 8)
    ]
    return Built([loss, *tf.gradients(loss, [*weights, one, two])], feeds)


@graph
def chosen_branches(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [4, 3])
    w = tf.constant(values(1, 3, 3))
    product = tf.matmul(x, w)
    chosen = tf.where(tf.greater(product, 0.0), tf.sqrt(tf.abs(product) + 1.0), tf.sin(product))
    floor = tf.minimum(chosen, 0.8) + tf.maximum(chosen, 0.1) + tf.where_v2(tf.less(x, 0.0), product, 0.5)
    loss = tf.reduce_prod(tf.reduce_sum(floor, 1)) + tf.reduce_min(product) + tf.reduce_logsumexp(product)
    return Built([loss, *tf.gradients(loss, [w, x])], [{x: values(2, 4, 3)}])


@graph
def linear_algebra_in_double(tf: Any) -> Built:
    a = tf.placeholder(tf.float64, [2, 3, 3])
    b = tf.constant(values(1, 2, 3, 3, dtype="float64"))
    power = tf.matmul(tf.matmul(a, b), a, adjoint_b=True)
    loss = tf.reduce_sum(tf.pow(power, 2.0) / (1.0 + tf.exp(-power))) - tf.reduce_mean(tf.matmul(b, power))
    return Built([loss, *tf.gradients(loss, [a, b])], [{a: values(2, 2, 3, 3, dtype="float64")}])


@graph
def summed_squares_over_a_grid(tf: Any) -> Built:
    image = tf.placeholder(tf.float32, [1, 6, 6, 1])
    across = tf.constant(np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]], np.float32).reshape(3, 3, 1, 1))
    edges = [
        tf.nn.conv2d(image, kernel, [1, 1, 1, 1], "SAME")
        for kernel in (across, tf.transpose(across, [1, 0, 2, 3]))
    ]
    strength = tf.sqrt(tf.add_n([tf.square(edge) for edge in edges]) + 1e-2)
    loss = tf.reduce_sum(strength[:, 1:-1, 1:-1, :])
    return Built([strength, *tf.gradients(loss, [image, across])], [{image: values(3, 1, 6, 6, 1)}])
