"""Programs with conditionals and loops, differentiated with respect to a vector of two elements.

They use the names this package shares with TensorFlow, so that either can build them. Each is smooth where it is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Program = Callable[[Any, Any], Any]
"""(package, x) to a tensor or a list of tensors."""


PROGRAMS: list[Program] = []
"""Programs of switches, merges and frames."""


def program(build: Program) -> Program:
    PROGRAMS.append(build)
    return build


@program
def power(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * x), [0, tf.ones_like(x)])[1]


@program
def squares(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda a: tf.reduce_sum(a) < 100.0, lambda a: a * 1.3 + a * a, [x])


@program
def zero_trips(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * x), [0, x])[1]


@program
def matrices(tf: Any, x: Any) -> Any:
    w = tf.reshape(tf.concat([x, tf.sin(x)], 0), [2, 2])
    return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w) + x)), [0, w])[1]


@program
def swapped(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b * b, a * x), [0, x, 2 * x])[1:]


@program
def unchanged_variable(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a * tf.sin(b), b), [0, x, x * x])[1:]


@program
def dropped_variable(tf: Any, x: Any) -> Any:
    return tf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, tf.sin(x) + b, b * b), [0, x, x * x])[
        1:
    ]


@program
def maximum(tf: Any, x: Any) -> Any:
    return tf.while_loop(
        lambda a: tf.reduce_sum(a) < 1000.0, lambda a: a * 1.3 + a * a, [x], maximum_iterations=2
    )


@program
def nested(tf: Any, x: Any) -> Any:
    def outer(i, a):
        _, b = tf.while_loop(lambda j, b: j < i + 1, lambda j, b: (j + 1, b * x * tf.sin(b)), [0, a])
        return i + 1, b

    return tf.while_loop(lambda i, a: i < 3, outer, [0, x])[1]


@program
def nested_with_outer_value(tf: Any, x: Any) -> Any:
    def outer(i, a):
        c = tf.exp(a)
        _, b = tf.while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, b * c * tf.sin(b)), [0, a])
        return i + 1, b / c

    return tf.while_loop(lambda i, a: i < 3, outer, [0, x])[1]


@program
def thrice_nested(tf: Any, x: Any) -> Any:
    def inner(j, b):
        return j + 1, tf.while_loop(lambda k, c: k < 2, lambda k, c: (k + 1, tf.sin(c) * b), [0, b])[1]

    def outer(i, a):
        return i + 1, tf.while_loop(lambda j, b: j < 2, inner, [0, a])[1]

    return tf.while_loop(lambda i, a: i < 2, outer, [0, x])[1]


@program
def cond_in_loop(tf: Any, x: Any) -> Any:
    def body(i, a):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a * a * x, lambda: tf.sin(a) + x)

    return tf.while_loop(lambda i, a: i < 4, body, [0, x])[1]


@program
def cond_by_value_in_loop(tf: Any, x: Any) -> Any:
    def body(i, a):
        return i + 1, tf.cond(tf.reduce_sum(a) > 2.0, lambda: tf.sin(a) * x, lambda: a * a + x)

    return tf.while_loop(lambda i, a: i < 4, body, [0, x])[1]


@program
def nested_cond_in_loop(tf: Any, x: Any) -> Any:
    def body(i, a):
        return i + 1, tf.cond(
            i > 1, lambda: tf.cond(i > 2, lambda: tf.exp(tf.sin(a)) * x, lambda: tf.sin(a)), lambda: a * a + x
        )

    return tf.while_loop(lambda i, a: i < 4, body, [0, x])[1]


@program
def loop_in_cond(tf: Any, x: Any) -> Any:
    def w():
        return tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, x])[1]

    return tf.cond(tf.reduce_sum(x) > 1.0, w, lambda: x) + tf.cond(tf.reduce_sum(x) < 1.0, w, lambda: x * 3)


@program
def loop_in_cond_in_loop(tf: Any, x: Any) -> Any:
    def body(i, a):
        def w():
            return tf.while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, tf.sin(b) * x * a), [0, a])[1]

        return i + 1, tf.cond(tf.equal(i % 2, 0), w, lambda: a * x)

    return tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]


@program
def conds(tf: Any, x: Any) -> Any:
    p = tf.reduce_sum(x) > 1.0
    a = tf.cond(p, lambda: x * x, lambda: x * 5.0)
    b = tf.cond(p, lambda: tf.cond(tf.reduce_sum(a) > 0, lambda: tf.sin(a) * x, lambda: x), lambda: a)
    c = tf.cond(tf.logical_not(p), lambda: x * a, lambda: tf.constant([1.0, 1.0], x.dtype))
    return a * b + c


@program
def two_loops(tf: Any, x: Any) -> Any:
    a = tf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * tf.sin(x)), [0, x])[1]
    return tf.while_loop(lambda i, b: i < 2, lambda i, b: (i + 1, b * a * tf.cos(b)), [0, x + a])[1]


@program
def gathered(tf: Any, x: Any) -> Any:
    def body(i, a):
        return i + 1, a + tf.gather(x, [i, 0]) * a

    return tf.while_loop(lambda i, a: i < 2, body, [0, tf.ones_like(x)])[1]


@program
def gathered_in_cond(tf: Any, x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 1.0, lambda: tf.gather(x, [1, 1]) * x, lambda: x) * tf.cond(
        tf.reduce_sum(x) > 100.0, lambda: tf.gather(x, [1]), lambda: x[:1]
    )


@program
def unknown_shapes(tf: Any, x: Any) -> Any:
    y = tf.placeholder_with_default(x, None)

    def body(i, a):
        return i + 1, tf.sin(a) * y + tf.reduce_sum(a) + a

    return tf.while_loop(
        lambda i, a: i < 3, body, [0, y], shape_invariants=[tf.TensorShape([]), tf.TensorShape(None)]
    )[1]


@program
def growing(tf: Any, x: Any) -> Any:
    def body(i, a):
        return i + 1, tf.concat([a, tf.sin(a[-2:]) * x], 0)

    return tf.while_loop(
        lambda i, a: i < 3, body, [0, x], shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])]
    )[1]


@program
def used_condition_value(tf: Any, x: Any) -> Any:
    seen = []

    def cond(i, a):
        seen.append(a * x)
        return tf.reduce_sum(seen[0]) < 20.0

    return tf.while_loop(cond, lambda i, a: (i + 1, seen[0] * tf.sin(a) + a * 2.0), [0, x])[1]


@program
def grads_in_body(tf: Any, x: Any) -> Any:
    def body(i, a):
        b = tf.sin(a) * x
        (g,) = tf.gradients(b, [a])
        (h,) = tf.gradients(b, [x])
        return i + 1, g + h * x

    return tf.while_loop(lambda i, a: i < 3, body, [0, 0.5 * tf.ones_like(x)])[1]


@program
def grads_of_loop_in_body(tf: Any, x: Any) -> Any:
    def body(i, a):
        b = tf.while_loop(lambda j, b: j < 2, lambda j, b: (j + 1, tf.sin(b) * x), [0, a])[1]
        (g,) = tf.gradients(b, [a])
        return i + 1, g * x

    return tf.while_loop(lambda i, a: i < 2, body, [0, x])[1]


@program
def cumulated(tf: Any, x: Any) -> Any:
    def body(i, a, s):
        return i + 1, a * tf.sigmoid(x * a), s + a

    return tf.while_loop(lambda i, a, s: i < 4, body, [0, x, tf.zeros_like(x)])[2]


@program
def case_in_loop(tf: Any, x: Any) -> Any:
    def body(i, a):
        return i + 1, tf.case(
            [(tf.equal(i, 0), lambda: a * x), (tf.equal(i, 1), lambda: tf.sin(a))], default=lambda: a * a * x
        )

    return tf.while_loop(lambda i, a: i < 4, body, [0, x])[1]


@program
def split_in_loop(tf: Any, x: Any) -> Any:
    def body(i, a):
        p, q = tf.split(a, 2)
        return i + 1, tf.concat([tf.sin(p) * x[:1], tf.ones_like(q)], 0)

    return tf.while_loop(lambda i, a: i < 3, body, [0, x])[1]


@program
def written_array(tf: Any, x: Any) -> Any:
    array = tf.TensorArray(x.dtype, 3)

    def body(i, a, array):
        return i + 1, tf.sin(a) * x, array.write(i, a * x)

    return tf.while_loop(lambda i, *_: i < 3, body, [0, x, array])[2].stack()


@program
def read_array(tf: Any, x: Any) -> Any:
    array = tf.TensorArray(x.dtype, 2).unstack(tf.stack([x * x, tf.sin(x)]))
    return tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, tf.sin(a) * array.read(i)), [0, x])[1]


@program
def mapped(tf: Any, x: Any) -> Any:
    return tf.map_fn(lambda a: tf.sin(a) * a * x[0], x)


@program
def scanned(tf: Any, x: Any) -> Any:
    return tf.scan(lambda a, b: tf.sin(a) * b * x[0], x)


@program
def folded(tf: Any, x: Any) -> Any:
    left = tf.foldl(lambda a, b: tf.sin(a) * b * x[0], x)
    return left + tf.foldr(lambda a, b: tf.cos(a) * b * x[0], x)
