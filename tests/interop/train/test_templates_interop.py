"""Templates: names of their scopes and variables, sharing, and errors, against TensorFlow's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.train.engines import Measured, compare, table

pytestmark = pytest.mark.interop

ROWS, add = table()


def scaled(tf: Any, x: Any, factor: float = 2.0) -> Any:
    return x * factor * tf.get_variable("v", [2], initializer=tf.ones_initializer()) + tf.constant(
        1.0, name="one"
    )


def shown(tf: Any, tensors: list[Any], templates: list[Any]) -> Measured:
    for made in templates:
        for kind in (
            "variables",
            "trainable_variables",
            "non_trainable_variables",
            "local_variables",
            "weights",
        ):
            for variable in getattr(made, kind):
                tf.add_to_collection(kind + "_", variable)
        tf.add_to_collection(
            "tensors", tf.constant(0, name=(made.variable_scope_name or "none").replace("/", "."))
        )
    for tensor in tensors:
        tf.add_to_collection("tensors", tensor)
    return Measured(tensors, init=tf.global_variables_initializer())


def shared(tf: Any) -> Measured:
    made = tf.make_template("scale", lambda x: scaled(tf, x))
    assert made.variables == []
    return shown(tf, [made(tf.constant([1.0, 2.0])), made(3.0)], [made])


def two_of_a_name(tf: Any) -> Measured:
    made = [tf.make_template("scale", lambda x: scaled(tf, x)) for _ in range(2)]
    return shown(tf, [each(1.0) for each in made], made)


def with_arguments(tf: Any) -> Measured:
    made = tf.make_template("scale", lambda x, factor: scaled(tf, x, factor), factor=5.0)
    return shown(tf, [made(1.0), made(x=2.0)], [made])


def taken_now(tf: Any) -> Measured:
    with tf.variable_scope("outer"):
        now = tf.make_template("scale", lambda x: scaled(tf, x), create_scope_now_=True)
        later = tf.make_template("scale", lambda x: scaled(tf, x))
    with tf.variable_scope("elsewhere"):
        return shown(tf, [now(1.0), later(1.0), now(2.0), later(2.0)], [now, later])


def of_unique_name(tf: Any) -> Measured:
    made = tf.make_template("scale", lambda x: scaled(tf, x), unique_name_="just")
    return shown(tf, [made(1.0), made(2.0)], [made])


def clash(tf: Any) -> Measured:
    made = [tf.make_template("scale", lambda x: scaled(tf, x), unique_name_="just") for _ in range(2)]
    return shown(tf, [each(1.0) for each in made], made)


def nested(tf: Any) -> Measured:
    inner = tf.make_template("inner", lambda x: scaled(tf, x))
    outer = tf.make_template("outer", lambda x: inner(x) + inner(scaled(tf, x)))
    return shown(tf, [outer(1.0), outer(2.0), inner(3.0)], [inner, outer])


def with_getter(tf: Any) -> Measured:
    def tripled(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return getter(name, *args, **kwargs) * 3.0

    made = tf.make_template("scale", lambda x: scaled(tf, x), custom_getter_=tripled)
    return shown(tf, [made(1.0), made(2.0)], [made])


def failing_at_first(tf: Any) -> Measured:
    """A first call that fails is none."""
    calls = []

    def fail(x: Any) -> Any:
        calls.append(x)
        if len(calls) == 1:
            raise KeyError("no")
        return scaled(tf, x)

    made = tf.make_template("scale", fail)
    with pytest.raises(KeyError, match="no"):
        made(1.0)
    return shown(tf, [made(1.0), made(2.0)], [made])


def new_variables(tf: Any) -> Measured:
    made = tf.make_template("scale", lambda x: tf.Variable(x) + scaled(tf, x))
    return shown(tf, [made(1.0), made(2.0)], [made])


def new_untrainable_variables(tf: Any) -> Measured:
    made = tf.make_template("scale", lambda x: tf.Variable(x, trainable=False) + scaled(tf, x))
    return shown(tf, [made(1.0), made(2.0)], [made])


for build in (
    shared,
    two_of_a_name,
    with_arguments,
    taken_now,
    of_unique_name,
    clash,
    nested,
    with_getter,
    failing_at_first,
    new_variables,
    new_untrainable_variables,
):
    add(build.__name__.replace("_", " "), build)
add("no name", lambda tf: shown(tf, [], [tf.make_template(None, lambda: None)]))


@pytest.mark.parametrize("name", ROWS)
async def test_templates_are_tensorflows(tf: Any, name: str):
    assert await compare(tf, ROWS[name]) == []
