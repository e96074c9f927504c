"""Graphs without gradients: elementwise programs, reductions, arrays, layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.building import Builder, Built, labels, values, whole

GRAPHS: list[Builder] = []


def graph(build: Builder) -> Builder:
    GRAPHS.append(build)
    return build


@graph
def arithmetic(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.float32, [5])
    total = x + y * 2.0 - x / (y + 3.0)
    spread = tf.squared_difference(x, y) + tf.square(x) * tf.sqrt(tf.abs(y)) - tf.negative(x)
    powers = tf.pow(tf.abs(x), y) + tf.rsqrt(tf.abs(x) + 1.0) + tf.reciprocal(tf.abs(y) + 0.5)
    bounds = tf.maximum(x, y) - tf.minimum(x, 0.25) + tf.sign(x) * tf.div_no_nan(x, y * tf.zeros_like(y))
    feeds = [{x: values(1, n, 5), y: values(2, 5)} for n in (3, 1, 8)]
    return Built([total, spread, powers, bounds, tf.add_n([total, spread, powers])], feeds)


@graph
def transcendental(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None])
    positive = tf.abs(x) + 0.1
    unit = tf.clip_by_value(x, -0.9, 0.9)
    results = [tf.exp(x), tf.log(positive), tf.log1p(positive), tf.expm1(x), tf.tanh(x), tf.sigmoid(x)]
    results += [tf.sin(x), tf.cos(x), tf.tan(unit), tf.asin(unit), tf.acos(unit), tf.atan(x)]
    results += [tf.sinh(x), tf.cosh(x), tf.erf(x), tf.math.erfc(x), tf.nn.softplus(x), tf.nn.softsign(x)]
    return Built([*results, tf.add_n(results)], [{x: values(n, n, low=-4, high=4)} for n in (1, 17, 64)])


@graph
def transcendental_in_double(tf: Any) -> Built:
    x = tf.placeholder(tf.float64, [4, 4])
    wave = tf.sin(x) * tf.cos(x) + tf.exp(-tf.square(x)) - tf.log(tf.square(x) + 1.0)
    squashed = tf.tanh(wave) + tf.sigmoid(wave) * tf.erf(x) + tf.atan(x / (1.0 + tf.square(wave)))
    return Built([wave, squashed], [{x: values(3, 4, 4, dtype="float64", low=-3, high=3)}])


@graph
def rounding_and_division(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [6]), tf.placeholder(tf.float32, [6])
    i, j = tf.placeholder(tf.int32, [6]), tf.placeholder(tf.int32, [6])
    rounded = [tf.floor(x), tf.ceil(x), tf.round(x), tf.rint(x)]
    divided = [tf.floordiv(x, y), tf.floormod(x, y), tf.floordiv(i, j), tf.floormod(i, j)]
    truncated = [tf.truncatediv(i, j), tf.truncatemod(i, j), tf.truediv(i, j), i // j, i % j]
    feed = {
        x: np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.7], np.float32),
        y: np.array([2, -2, 0.3, -0.3, 1, -4], np.float32),
        i: np.array([7, -7, 7, -7, 0, 5], np.int32),
        j: np.array([2, 2, -2, -2, 3, 5], np.int32),
    }
    return Built([*rounded, *divided, *truncated], [feed])


@graph
def comparison_and_logic(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 4])
    less, greater = tf.less(x, y), tf.greater(x, 0.0)
    equal = tf.equal(tf.round(x * 2.0), tf.round(y * 2.0))
    mixed = tf.logical_or(tf.logical_and(less, greater), tf.logical_not(tf.logical_xor(less, equal)))
    chosen = tf.where(mixed, x, y) + tf.where_v2(less, x, 0.0)
    others = [tf.less_equal(x, y), tf.greater_equal(x, y), tf.not_equal(x, y), tf.is_nan(x / (x - x))]
    counted = tf.reduce_sum(tf.cast(mixed, tf.int32), 1)
    feeds = [{x: values(n, n, 4), y: values(n + 1, n, 4)} for n in (5, 2)]
    return Built([less, greater, equal, mixed, chosen, *others, counted], feeds)


@graph
def nan_and_infinity(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [5])
    flags = [tf.is_nan(x), tf.is_inf(x), tf.is_finite(x)]
    results = [
        tf.maximum(x, 0.0),
        tf.nn.relu(x),
        tf.exp(x),
        tf.reduce_max(x),
        tf.where(flags[0], tf.ones_like(x), x),
    ]
    return Built([*flags, *results], [{x: np.array([np.nan, np.inf, -np.inf, 0.0, 1.5], np.float32)}])


@graph
def reductions(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 3, 4])
    b = tf.greater(x, 0.0)
    results = []
    for axis in (None, 0, 1, -1, [0, 2], [0, 1, 2]):
        results += [tf.reduce_sum(x, axis), tf.reduce_mean(x, axis, keepdims=True), tf.reduce_max(x, axis)]
        results += [
            tf.reduce_min(x, axis),
            tf.reduce_prod(x, axis),
            tf.reduce_any(b, axis),
            tf.reduce_all(b, axis),
        ]
    results += [tf.argmax(x, 1), tf.argmin(x, 2, output_type=tf.int32), tf.reduce_logsumexp(x, 2)]
    return Built(results, [{x: values(n, n, 3, 4)} for n in (2, 5)])


@graph
def whole_number_reductions(tf: Any) -> Built:
    x = tf.placeholder(tf.int64, [3, None])
    mean, variance = tf.nn.moments(tf.cast(x, tf.float64), [1])
    results = [tf.reduce_sum(x, 0), tf.reduce_max(x, 1), tf.reduce_prod(x), tf.argmax(x, 1), mean, variance]
    return Built(results, [{x: whole(n, 3, n, dtype="int64")} for n in (4, 7)])


@graph
def matrix_products(tf: Any) -> Built:
    a, b = tf.placeholder(tf.float32, [None, 4]), tf.constant(values(5, 4, 6))
    plain = tf.matmul(a, b)
    turned = tf.matmul(b, a, transpose_a=True, transpose_b=True)
    both = tf.matmul(plain, tf.transpose(turned), transpose_b=True)
    batched = tf.matmul(tf.stack([plain, -plain]), tf.stack([turned, turned * 2.0]))
    product = tf.tensordot(tf.reshape(plain, [-1, 2, 3]), tf.constant(values(6, 3, 5)), [[2], [0]])
    return Built([plain, turned, both, batched, product], [{a: values(n, n, 4)} for n in (1, 3, 9)])


@graph
def integer_and_double_products(tf: Any) -> Built:
    a, b = tf.placeholder(tf.int32, [3, 4]), tf.placeholder(tf.float64, [2, 3, 4])
    return Built(
        [
            tf.matmul(a, a, transpose_b=True),
            tf.matmul(b, b, transpose_a=True),
            tf.matmul(b, b, adjoint_b=True),
        ],
        [{a: whole(1, 3, 4), b: values(2, 2, 3, 4, dtype="float64")}],
    )


@graph
def broadcasting(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 1, 3]), tf.placeholder(tf.float32, [4, 1])
    results = [
        x + y,
        x * y,
        x - y,
        x / (y + 2.0),
        tf.maximum(x, y),
        tf.less(x, y),
        tf.squared_difference(x, y),
    ]
    folded = tf.reduce_sum(tf.broadcast_to(x, tf.shape(x + y)) * y, [1, 2])
    return Built([*results, folded], [{x: values(n, n, 1, 3), y: values(9, 4, 1)} for n in (2, 6)])


@graph
def array_surgery(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [2, 3, 4])
    turned = tf.transpose(x, [2, 0, 1])
    left, right = tf.split(turned, 2, axis=0)
    uneven = tf.split(x, [1, 3], axis=2)
    joined = tf.concat([left, right * 2.0, tf.expand_dims(x[:, :, 0], 0)], 0)
    rows = tf.unstack(x, axis=1)
    stacked = tf.stack(rows[::-1], axis=-1)
    tiled = tf.tile(x, [1, 2, 1])
    padded = tf.pad(x, [[0, 0], [1, 2], [0, 1]], constant_values=7.0)
    gathered = tf.gather(x, [2, 0, 0], axis=1)
    squeezed = tf.squeeze(tf.reshape(x, [1, 6, 1, 4]), [0, 2])
    return Built(
        [turned, joined, *uneven, stacked, tiled, padded, gathered, squeezed], [{x: values(4, 2, 3, 4)}]
    )


@graph
def slices_of_every_kind(tf: Any) -> Built:
    x = tf.placeholder(tf.int32, [4, 5, 6])
    plain = tf.slice(x, [1, 0, 2], [2, -1, 3])
    results = [
        x[1],
        x[:, -1],
        x[..., 2],
        x[1:3, ::2],
        x[::-1],
        x[:, 3:0:-1, tf.newaxis],
        x[2:, 1, ..., 0:4:3],
    ]
    begin = tf.reduce_min(x) - tf.reduce_min(x) + 1
    return Built([plain, *results, x[begin:, begin]], [{x: whole(5, 4, 5, 6)}])


@graph
def shape_arithmetic(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, None])
    shape = tf.shape(x)
    rows, columns = shape[0], shape[1]
    numbers = tf.reshape(tf.range(rows * columns), shape)
    grid = tf.fill(tf.stack([rows, 2]), 1.5) + tf.cast(tf.expand_dims(tf.range(rows), 1), tf.float32)
    flat = tf.reshape(x, [-1])
    marks = tf.one_hot(tf.argmax(x, 1), columns, on_value=2.0, off_value=-1.0)
    zeros, ones = tf.zeros_like(x), tf.ones(tf.concat([shape, [2]], 0))
    steps = tf.range(0.0, tf.cast(columns, tf.float32), 0.5)
    results = [numbers, grid, flat, marks, zeros, ones, steps, tf.size(x), tf.rank(x), shape]
    return Built(results, [{x: values(n, n, n + 2)} for n in (1, 4)])


@graph
def casts(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [6])
    kinds = [tf.float64, tf.int32, tf.int64, tf.int8, tf.bool, tf.float16, tf.bfloat16, tf.uint8]
    there = [tf.cast(tf.abs(x) if kind == tf.uint8 else x, kind) for kind in kinds]
    return Built(
        [tf.cast(each, tf.float32) for each in there] + there[:5], [{x: values(1, 6, low=-9, high=9)}]
    )


@graph
def activations(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 7])
    results = [tf.nn.relu(x), tf.nn.relu6(x * 4.0), tf.nn.elu(x), tf.nn.selu(x), tf.nn.leaky_relu(x, 0.1)]
    results += [tf.nn.softplus(x), tf.nn.softsign(x), tf.nn.sigmoid(x), tf.nn.tanh(x), tf.nn.softmax(x)]
    results += [tf.nn.log_softmax(x), tf.nn.bias_add(x, tf.constant(values(2, 7))), tf.nn.l2_loss(x)]
    return Built(results, [{x: values(n, n, 7, low=-3, high=3)} for n in (1, 6)])


@graph
def losses(tf: Any) -> Built:
    logits = tf.placeholder(tf.float32, [None, 5])
    dense, sparse = tf.placeholder(tf.float32, [None, 5]), tf.placeholder(tf.int32, [None])
    results = [
        tf.nn.softmax_cross_entropy_with_logits_v2(labels=dense, logits=logits),
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=sparse, logits=logits),
        tf.nn.sigmoid_cross_entropy_with_logits(labels=dense, logits=logits),
        tf.reduce_mean(tf.squared_difference(dense, tf.nn.softmax(logits))),
        tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), tf.argmax(dense, 1)), tf.float32)),
    ]
    feeds = [
        {logits: values(n, n, 5, low=-4, high=4), dense: labels(n, n, 5), sparse: whole(n, n, low=0, high=5)}
        for n in (1, 8)
    ]
    return Built(results, feeds)


@graph
def convolutions(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 9, 8, 3])
    kernel, point = tf.constant(values(1, 3, 3, 3, 4)), tf.constant(values(2, 1, 1, 3, 2))
    results = [
        tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME"),
        tf.nn.conv2d(x, kernel, [1, 2, 2, 1], "VALID"),
        tf.nn.conv2d(x, kernel, [1, 2, 1, 1], "SAME"),
        tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "VALID", dilations=[1, 2, 2, 1]),
        tf.nn.conv2d(x, point, [1, 1, 1, 1], "SAME"),
        tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
        tf.nn.max_pool(x, [1, 3, 3, 1], [1, 1, 1, 1], "VALID"),
        tf.nn.avg_pool(x, [1, 2, 3, 1], [1, 2, 1, 1], "SAME"),
        tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
    ]
    return Built(results, [{x: values(n, n, 9, 8, 3)} for n in (1, 3)])


@graph
def perceptron_of_four_layers(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 8])
    layer = x
    for i, (size, activation) in enumerate(
        [(16, tf.nn.relu), (12, tf.tanh), (9, tf.sigmoid), (4, tf.nn.softmax)]
    ):
        weights = tf.constant(values(i, int(layer.shape[1]), size))
        layer = activation(tf.nn.bias_add(tf.matmul(layer, weights), tf.constant(values(i + 9, size))))
    best = tf.argmax(layer, 1)
    return Built([layer, best], [{x: values(n, n, 8)} for n in (1, 32, 5)])


@graph
def convolutional_classifier(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 12, 12, 1])
    layer = x
    for i, channels in enumerate((4, 6)):
        kernel = tf.constant(values(i, 3, 3, int(layer.shape[3]), channels))
        layer = tf.nn.relu(
            tf.nn.bias_add(
                tf.nn.conv2d(layer, kernel, [1, 1, 1, 1], "SAME"), tf.constant(values(i, channels))
            )
        )
        layer = tf.nn.max_pool(layer, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    flat = tf.reshape(layer, [tf.shape(x)[0], 3 * 3 * 6])
    scores = tf.matmul(flat, tf.constant(values(7, 54, 10))) + tf.constant(values(8, 10))
    return Built(
        [tf.nn.softmax(scores), tf.argmax(scores, 1)], [{x: values(n, n, 12, 12, 1)} for n in (1, 4)]
    )


@graph
def attention(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [2, None, 8])
    length = tf.shape(x)[1]
    parts = []
    for i in range(3):
        projected = tf.reshape(
            tf.matmul(tf.reshape(x, [-1, 8]), tf.constant(values(i, 8, 8))), [2, length, 2, 4]
        )
        parts.append(tf.transpose(projected, [0, 2, 1, 3]))
    queries, keys, held = parts
    scores = tf.matmul(queries, keys, transpose_b=True) / tf.sqrt(4.0)
    future = tf.less(tf.expand_dims(tf.range(length), 1), tf.expand_dims(tf.range(length), 0))
    scores += tf.cast(future, tf.float32) * -1e9
    weights = tf.nn.softmax(scores)
    mixed = tf.reshape(tf.transpose(tf.matmul(weights, held), [0, 2, 1, 3]), [2, length, 8])
    return Built([weights, mixed], [{x: values(n, 2, n, 8)} for n in (3, 7)])


@graph
def normalised_residual_blocks(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 6])
    layer = x
    for i in range(4):
        mean = tf.reduce_mean(layer, -1, keepdims=True)
        variance = tf.reduce_mean(tf.squared_difference(layer, mean), -1, keepdims=True)
        normal = (layer - mean) * tf.rsqrt(variance + 1e-5) * values(i, 6) + values(i + 4, 6)
        layer += tf.matmul(
            tf.nn.relu(tf.matmul(normal, tf.constant(values(i, 6, 12)))), tf.constant(values(i, 12, 6))
        )
    return Built([layer], [{x: values(n, n, 6)} for n in (2, 5)])


@graph
def recurrent_cell_unrolled(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [10, None, 3])
    state = tf.zeros([tf.shape(x)[1], 5])
    inner, outer = tf.constant(values(1, 3, 5)), tf.constant(values(2, 5, 5))
    states = []
    for moment in tf.unstack(x):
        state = tf.tanh(tf.matmul(moment, inner) + tf.matmul(state, outer) + 0.1)
        states.append(state)
    return Built([state, tf.stack(states, 1)], [{x: values(n, 10, n, 3)} for n in (1, 4)])


@graph
def long_short_term_memory_unrolled(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [6, 2, 3])
    output = cell = tf.zeros([2, 4])
    weights = tf.constant(values(3, 7, 16))
    for moment in range(6):
        gates = tf.nn.bias_add(
            tf.matmul(tf.concat([x[moment], output], 1), weights), tf.constant(values(4, 16))
        )
        enter, update, forget, leave = tf.split(gates, 4, 1)
        cell = cell * tf.sigmoid(forget + 1.0) + tf.sigmoid(enter) * tf.tanh(update)
        output = tf.tanh(cell) * tf.sigmoid(leave)
    return Built([output, cell], [{x: values(5, 6, 2, 3)}])


@graph
def polynomials_by_horner(tf: Any) -> Built:
    results, feed = [], {}
    for dtype, x_value in (
        ("int32", whole(1, 9)),
        ("int64", whole(2, 9, dtype="int64")),
        ("float64", values(3, 9, dtype="float64")),
    ):
        x = tf.placeholder(dtype, [9])
        feed[x] = x_value
        result = tf.zeros_like(x)
        for coefficient in range(1, 9):
            result = result * x + coefficient
        results.append(result)
    return Built(results, [feed])


@graph
def tree_of_sums(tf: Any) -> Built:
    leaves = [tf.placeholder(tf.float32, [3]) for _ in range(32)]
    level = [tf.sin(leaf) * float(i) for i, leaf in enumerate(leaves)]
    while len(level) > 1:
        level = [a + b for a, b in zip(level[::2], level[1::2], strict=True)]
    return Built([level[0], tf.add_n(leaves)], [{leaf: values(i, 3) for i, leaf in enumerate(leaves)}])


@graph
def escape_times(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float64, [6, 1]), tf.placeholder(tf.float64, [1, 8])
    real, imaginary = tf.zeros_like(x + y), tf.zeros_like(x + y)
    counts = tf.zeros([6, 8], tf.int32)
    for _ in range(12):
        inside = tf.less(real * real + imaginary * imaginary, 4.0)
        new_real = real * real - imaginary * imaginary + x
        imaginary = tf.where(inside, 2.0 * real * imaginary + y, imaginary)
        real = tf.where(inside, new_real, real)
        counts += tf.cast(inside, tf.int32)
    feed = {x: np.linspace(-2, 0.5, 6).reshape(6, 1), y: np.linspace(-1.2, 1.2, 8).reshape(1, 8)}
    return Built([counts], [feed])


@graph
def nearest_centres(tf: Any) -> Built:
    points = tf.placeholder(tf.float32, [None, 2])
    centres = tf.constant(values(1, 3, 2))
    for _ in range(3):
        distance = tf.reduce_sum(tf.squared_difference(tf.expand_dims(points, 1), centres), 2)
        member = tf.one_hot(tf.argmin(distance, 1), 3)
        sums = tf.matmul(member, points, transpose_a=True)
        centres = sums / tf.maximum(tf.expand_dims(tf.reduce_sum(member, 0), 1), 1.0)
    return Built([centres, member], [{points: values(n, n, 2)} for n in (12, 30)])


@graph
def cellular_automaton(tf: Any) -> Built:
    board = tf.placeholder(tf.bool, [8, 8])
    cells = tf.cast(board, tf.float32)
    kernel = tf.constant(np.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], np.float32).reshape(3, 3, 1, 1))
    for _ in range(4):
        near = tf.squeeze(tf.nn.conv2d(tf.reshape(cells, [1, 8, 8, 1]), kernel, [1, 1, 1, 1], "SAME"), [0, 3])
        alive = tf.greater(cells, 0.5)
        stays = tf.logical_and(alive, tf.logical_or(tf.equal(near, 2.0), tf.equal(near, 3.0)))
        cells = tf.cast(
            tf.logical_or(stays, tf.logical_and(tf.logical_not(alive), tf.equal(near, 3.0))), tf.float32
        )
    return Built([cells], [{board: values(6, 8, 8) > 0.2}])


@graph
def image_preparation(tf: Any) -> Built:
    image = tf.placeholder(tf.uint8, [None, 6, 6, 3])
    scaled = tf.cast(image, tf.float32) / 255.0
    mirrored = scaled[:, :, ::-1, :]
    padded = tf.pad(mirrored, [[0, 0], [2, 2], [2, 2], [0, 0]], "CONSTANT")
    cropped = padded[:, 1:7, 2:8, :]
    grey = tf.reduce_sum(cropped * tf.constant([0.3, 0.59, 0.11]), 3, keepdims=True)
    coloured = tf.concat([cropped, tf.tile(grey, [1, 1, 1, 2])], 3)
    mean = tf.reduce_mean(coloured, [1, 2], keepdims=True)
    return Built(
        [coloured - mean, grey],
        [{image: whole(n, n, 6, 6, 3, low=0, high=256, dtype="uint8")} for n in (1, 2)],
    )
