"""Graphs with conditionals and loops, built with names that both packages have, so either can build them."""

from __future__ import annotations

import functools
from typing import Any

from tests.interop.building import Builder, Built, values

GRAPHS: list[Builder] = []


def graph(build: Builder) -> Builder:
    @functools.wraps(build)
    def with_nodes(tf: Any) -> Built:
        if hasattr(tf, "disable_control_flow_v2"):
            tf.disable_control_flow_v2()  # TensorFlow 2 would make functions of the branches
        return build(tf)

    GRAPHS.append(with_nodes)
    return with_nodes


def booleans(*preds: Any) -> list[dict[Any, Any]]:
    """A feed for every combination of the predicates."""
    return [{pred: bool(n >> k & 1) for k, pred in enumerate(preds)} for n in range(2 ** len(preds))]


@graph
def conditional(tf: Any) -> Built:
    pred, x = tf.placeholder(tf.bool, [], name="pred"), tf.constant(values(1, 3), name="x")
    chosen = tf.cond(pred, lambda: tf.exp(x) + 1.0, lambda: x)
    pair = tf.cond(pred, lambda: [x, tf.constant(1)], lambda: [x * x, tf.constant(2)])
    return Built([chosen, *pair], booleans(pred))


@graph
def operations_as_results(tf: Any) -> Built:
    pred = tf.placeholder(tf.bool, [], name="pred")
    return Built([tf.cond(pred, lambda: tf.no_op(name="a"), lambda: tf.no_op(name="b"))], booleans(pred))


@graph
def nested_conditionals(tf: Any) -> Built:
    a, b = tf.placeholder(tf.bool, [], name="a"), tf.placeholder(tf.bool, [], name="b")
    y, z = tf.constant(5, name="y"), tf.constant(6, name="z")
    result = tf.cond(
        a,
        lambda: tf.cond(b, lambda: y + 1, lambda: z),
        lambda: tf.cond(b, lambda: z + y, lambda: y, name="other"),
    )
    return Built([result], booleans(a, b))


@graph
def cases(tf: Any) -> Built:
    a, b = tf.placeholder(tf.bool, [], name="a"), tf.placeholder(tf.bool, [], name="b")
    x = tf.constant(values(2, 4), name="x")
    return Built([tf.case([(a, lambda: x), (b, lambda: x * 2.0)], default=lambda: x * 3.0)], booleans(a, b))


@graph
def counting(tf: Any) -> Built:
    limit = tf.placeholder(tf.int32, [], name="limit")
    result = tf.while_loop(
        lambda i, x: i < limit, lambda i, x: (i + 1, x * 2.0), [0, tf.constant(1.0, name="x")]
    )
    return Built(list(result), [{limit: n} for n in (0, 1, 7)])


@graph
def bounded_loop(tf: Any) -> Built:
    one = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], maximum_iterations=5)
    two = tf.while_loop(lambda i, j: i < 9, lambda i, j: [i + 1, j + i], [0, 1], maximum_iterations=5)
    return Built([one, *two])


@graph
def newton(tf: Any) -> Built:
    x = tf.placeholder(tf.float64, [], name="x")
    start = (tf.constant(1.0, tf.float64, name="guess"), tf.constant(0, name="rounds"))
    root, rounds = tf.while_loop(
        lambda guess, rounds: tf.abs(guess * guess - x) > 1e-9,
        lambda guess, rounds: ((guess + x / guess) / 2.0, rounds + 1),
        start,
        parallel_iterations=3,
    )
    return Built([root, rounds], [{x: value} for value in (2.0, 1.0, 144.0)])


@graph
def loops_in_loops(tf: Any) -> Built:
    y = tf.constant(5, name="y")

    def body(i: Any) -> Any:
        def inner(j: Any) -> Any:
            return j + tf.cond(j > 2, lambda: y, lambda: i)

        return tf.while_loop(lambda j: j < y, inner, [y], name="inner")

    return Built([tf.while_loop(lambda i: i < y, body, [0])])


@graph
def table(tf: Any) -> Built:
    n = tf.constant(4, name="n")

    def row(i: Any, total: Any) -> Any:
        _, part = tf.while_loop(lambda j, s: j < n, lambda j, s: (j + 1, s + i * j), [0, 0])
        return i + 1, total + part

    return Built([tf.while_loop(lambda i, total: i < n, row, [0, 0])[1]])


@graph
def loop_in_a_branch(tf: Any) -> Built:
    pred, y = tf.placeholder(tf.bool, [], name="pred"), tf.constant(5, name="y")
    result = tf.cond(pred, lambda: tf.while_loop(lambda j: j < y, lambda j: j + y, [0]), lambda: y)
    return Built([result], booleans(pred))


@graph
def loop_in_a_branch_of_a_loop(tf: Any) -> Built:
    def body(i: Any, x: Any) -> Any:
        def inner() -> Any:
            return tf.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y + j * i), [0, x])[1]

        return i + 1, tf.cond(i > 2, inner, lambda: x - 1)

    return Built(list(tf.while_loop(lambda i, x: i < 7, body, [0, 1])))


@graph
def growing(tf: Any) -> Built:
    x = tf.placeholder(tf.float32, [2], name="x")
    result = tf.while_loop(
        lambda i, x: i < 3,
        lambda i, x: (i + 1, tf.concat([x, -x], 0)),
        [0, x],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    return Built(list(result), [{x: values(3, 2)}])


@graph
def dependencies_from_outside(tf: Any) -> Built:
    a, seven = tf.constant(1, name="a"), tf.constant(7, name="seven")

    def body(i: Any) -> Any:
        with tf.control_dependencies([a]):
            return i + tf.constant(1, name="one")

    with tf.control_dependencies([seven]):
        looped = tf.while_loop(lambda i: i < 3, body, [tf.constant(0, name="zero")])
        chosen = tf.cond(looped > 2, lambda: 1, lambda: a + 1)
    return Built([looped, chosen])


@graph
def devices(tf: Any) -> Built:
    with tf.device("/cpu:0"):
        n = tf.constant(4, name="n")
    with tf.device("/device:CPU:0"):
        return Built([tf.while_loop(lambda i: i < n, lambda i: i + n, [0])])


@graph
def slices(tf: Any) -> Built:
    pred = tf.placeholder(tf.bool, [], name="pred")

    def rows(k: int) -> Any:
        return tf.IndexedSlices(tf.constant([1.0 * k]), tf.constant([k]))

    result = tf.cond(pred, lambda: rows(1), lambda: rows(2))
    return Built([result.values, result.indices], booleans(pred))


def variable_graph(tf: Any, use_resource: bool) -> Built:
    pred = tf.placeholder(tf.bool, [], name="pred")
    variable = tf.Variable(1.0, name="v", use_resource=use_resource)
    # an Identity of a reference is the variable's own memory in TensorFlow, and shows what is assigned later; products do not
    changed = tf.cond(
        pred, lambda: tf.assign_add(variable, 1.0) * 1.0, lambda: tf.assign(variable, 5.0) * 1.0
    )

    def body(i: Any) -> Any:
        return i + tf.cast(tf.assign_add(variable, 1.0) * 1.0, tf.int32)

    with tf.control_dependencies([changed]):
        looped = tf.while_loop(lambda i: i < 20, body, [tf.constant(0, name="zero")])
    return Built([changed, looped], booleans(pred) * 2, init=tf.global_variables_initializer())


@graph
def reference_variables(tf: Any) -> Built:
    return variable_graph(tf, use_resource=False)


@graph
def resource_variables(tf: Any) -> Built:
    return variable_graph(tf, use_resource=True)
