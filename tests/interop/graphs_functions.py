"""Graphs with functions in them: TensorFlow's own, and conditionals and loops as TensorFlow 2 builds them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.interop.building import Builder, Built, values


def of_functions(build: Builder) -> Builder:
    """Let a builder's conditionals and loops have functions for bodies."""

    @functools.wraps(build)
    def wrapped(tf: Any) -> Built:
        was_enabled = tf.control_flow_v2_enabled()
        tf.enable_control_flow_v2()
        try:
            return build(tf)
        finally:
            if not was_enabled:
                tf.disable_control_flow_v2()

    return wrapped


@of_functions
def conditional(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None])
    chosen = tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * 2.0, lambda: x - 1.0)
    (gradient,) = tf.gradients(tf.cond(x[0] > 0.0, lambda: x * x, lambda: 3.0 * x), x)
    return Built(
        [chosen, gradient], [{x: values(1, 4)}, {x: -np.abs(values(2, 3))}, {x: np.ones(2, np.float32)}]
    )


@of_functions
def loop(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 3])
    count = tf.placeholder(tf.int32, [])
    w = tf.constant(values(1, 3, 3))
    steps, after = tf.while_loop(
        lambda i, y: i < count, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))), [0, x]
    )
    (gradient,) = tf.gradients(after, x)
    (second,) = tf.gradients(tf.reduce_sum(gradient * gradient), x)
    feeds = [{x: values(seed, 2, 3), count: seed} for seed in (0, 1, 4)]
    return Built([steps, after, gradient, second], feeds, tolerance=4)


@of_functions
def nested(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [3])
    index = tf.placeholder(tf.int32, [])
    first = tf.switch_case(index, [lambda: x, lambda: x * 2.0, lambda: tf.zeros([3])], default=lambda: -x)

    def body(i: Any, y: Any) -> Any:
        inner = functools.partial(tf.while_loop, lambda j, z: j < i, lambda j, z: (j + 1, z * 1.5), [0, y])
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y + x, lambda: inner()[1])

    _, after = tf.while_loop(lambda i, y: i < 6, body, [tf.constant(0), first])
    (gradient,) = tf.gradients(after, x)
    return Built([first, after, gradient], [{x: values(k + 2, 3), index: k} for k in range(-1, 5)])


@of_functions
def arrays(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None])
    array = tf.TensorArray(tf.float32, 4)
    _, array = tf.while_loop(
        lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float32))), [0, array]
    )
    mapped = tf.map_fn(lambda y: y * y + 1.0, x)
    summed = tf.scan(lambda a, y: a + y, x)
    folded = tf.foldl(lambda a, y: a * y, x)
    gradients = tf.gradients([mapped, summed, folded], x)
    return Built([array.stack(), mapped, summed, folded, *gradients], [{x: values(1, 5)}, {x: values(2, 1)}])


def functions(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [None, 3])

    @tf.function
    def inner(a: Any, b: Any) -> Any:
        return tf.matmul(a, b, transpose_b=True), a + b

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def outer(a: Any) -> Any:
        product, total = inner(a, a + 1.0)
        return product @ total

    result = outer(x)
    return Built(
        [result, inner(x, x)[1], *tf.gradients(result, x)],
        [{x: values(n, n, 3)} for n in (1, 2, 4)],
        tolerance=4,
    )


def training(tf: Any) -> Built:
    x, y = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None])
    w = tf.Variable(values(1, 3), use_resource=True)
    count = tf.Variable(0, use_resource=True)

    @tf.function
    def loss(a: Any, b: Any) -> Any:
        count.assign_add(1)
        error = tf.reduce_sum(a * w, axis=1) - b
        if tf.reduce_mean(error) > 0.0:
            return tf.reduce_mean(error * error)
        return tf.reduce_mean(tf.abs(error))

    found = loss(x, y)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(found, var_list=[w])
    with tf.control_dependencies([found]):
        counted = count.read_value()
    feeds = [{x: values(n, 4, 3), y: values(n + 50, 4)} for n in range(10)]
    return Built([found, counted], feeds, tf.global_variables_initializer(), train)


def definitions(tf: Any) -> Built:
    from tensorflow.python.framework.function import Defun
    from tensorflow.python.ops import functional_ops

    k = tf.constant([1.0, 2.0])

    @Defun(tf.float32, func_name="inner", out_names=["first", "second"])
    def inner(a: Any) -> Any:
        return a * k, tf.exp(a)

    @Defun(tf.float32, tf.float32, func_name="outer")
    def outer(a: Any, b: Any) -> Any:
        first, second = inner(a)
        return first + second * b

    x = tf.placeholder(tf.float32, [2])
    called = outer(x, x)
    (gradient,) = tf.gradients(called, x)
    symbolic = functional_ops.Gradient([x, x, k, tf.ones([2])], outer)
    then, other = (Defun(tf.float32)(body) for body in (lambda a: a + 1.0, lambda a: a * a))
    chosen = functional_ops.If(tf.reduce_sum(x) > 0.0, [x], then, other)
    below = Defun(tf.float32)(lambda a: tf.reduce_sum(a) < 10.0)
    looped = functional_ops.While([tf.abs(x) + 1.0], below, Defun(tf.float32)(lambda a: a * 2.0))
    return Built(
        [called, gradient, *symbolic, *chosen, *looped], [{x: values(1, 2)}, {x: -np.abs(values(2, 2))}]
    )


GRAPHS: list[Builder] = [conditional, loop, nested, arrays, functions, training, definitions]
