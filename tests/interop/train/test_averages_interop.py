"""Moving averages over several steps, their names and variables_to_restore, against TensorFlow's."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder
from tests.interop.train.engines import Measured, compare, table

pytestmark = pytest.mark.interop

ROWS, add = table()
STEPS = [np.float32(1.5), np.float32(-2.0), np.float32(4.0), np.float32(0.25)]


def moving_averages(tf: Any) -> Any:
    """The module of the functions that are not public."""
    package = "aioexec.train.optimizers" if tf.__name__ == "aioexec" else "tensorflow.python.training"
    return importlib.import_module(f"{package}.moving_averages")


def averaged(dtype: str = "float32", decay: Any = 0.9, updates: bool = False, **options: Any) -> Builder:
    """Two variables that change, and their averages after each step."""

    def build(tf: Any) -> Measured:
        x = tf.placeholder(tf.float32, [])
        one = tf.get_variable("one", initializer=np.full((2, 3), 10.0, dtype))
        other = tf.get_variable("other", initializer=np.zeros(2, dtype))
        count = tf.get_variable("count", initializer=0, trainable=False) if updates else None
        averages = tf.train.ExponentialMovingAverage(decay, count, **options)
        step = tf.cast(x, dtype)
        with tf.control_dependencies(
            [one.assign_add(step * tf.ones_like(one)).op, other.assign_sub(step * tf.ones_like(other)).op]
        ):
            train = averages.apply()
        if count is not None:
            with tf.control_dependencies([train]):
                train = tf.assign_add(count, 1).op
        with tf.control_dependencies([train]):
            now = [tf.identity(averages.average(var).read_value()) for var in (one, other)]
        names = [averages.average_name(var) for var in (one, other)]
        restored = averages.variables_to_restore()
        tf.constant(
            0,
            name="_".join(
                [*names, *sorted(f"{name}.{var.op.name}" for name, var in restored.items())]
            ).replace("/", "."),
        )
        return Measured(
            now, [{x: value} for value in STEPS], tf.global_variables_initializer(), after=[one, other]
        )

    return build


for dtype in ("float32", "float64", "float16"):
    add(f"variables of {dtype}", averaged(dtype))
add("variables with a count", averaged(updates=True))
add("variables with a small decay and a count", averaged(decay=0.05, updates=True))
add("variables under another name", averaged(name="mean"))
add("variables with zero_debias", averaged(zero_debias=True))


def of_tensors(zero_debias: bool) -> Builder:
    def build(tf: Any) -> Measured:
        x = tf.placeholder(tf.float32, [])
        value = tf.identity(x * tf.constant([1.0, 2.0]), name="value")
        averages = tf.train.ExponentialMovingAverage(0.8, zero_debias=zero_debias)
        with tf.control_dependencies([averages.apply([value])]):
            now = tf.identity(averages.average(value).read_value())
        variables = tf.global_variables()
        return Measured(
            [now], [{x: step} for step in STEPS], tf.global_variables_initializer(), after=variables
        )

    return build


add("tensors", of_tensors(False))
add("tensors with zero_debias", of_tensors(True))


def twice(tf: Any) -> Measured:
    """A second `apply` uses the existing averages; a second object makes its own."""
    v, w = tf.get_variable("v", initializer=1.0), tf.get_variable("w", initializer=2.0)
    averages, others = (tf.train.ExponentialMovingAverage(0.5) for _ in range(2))
    assert averages.average(v) is None
    first = averages.apply([v])
    assert averages.average(w) is None
    second = averages.apply([v, w])
    third = others.apply([v])
    init = tf.global_variables_initializer()
    with tf.control_dependencies([first]), tf.control_dependencies([v.assign_add(1.0).op]):
        pass
    return Measured([], [{}], init, tf.group(first, second, third), after=tf.global_variables())


add("applied twice", twice)


def not_initialized(tf: Any) -> Measured:
    """An average begins as what its variable would be, or is if it is there already."""
    v = tf.get_variable("v", initializer=3.0)
    averages = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies(None):
        averages.apply([v])
    average = averages.average(v)
    with tf.control_dependencies([v.initializer]), tf.control_dependencies([v.assign(7.0).op]):
        late = tf.identity(v.read_value())
    return Measured([late], [{}], average.initializer, after=[average])


add("initialized first", not_initialized)


def assigned(zero_debias: bool, dtype: str = "float32", **options: Any) -> Builder:
    def build(tf: Any) -> Measured:
        x = tf.placeholder(tf.float32, [])
        start = np.zeros(2, dtype) if zero_debias else np.array([1.0, -1.0], dtype)
        v = tf.get_variable("v", initializer=start)
        value = tf.cast(x, dtype) * tf.ones_like(v)
        after = moving_averages(tf).assign_moving_average(v, value, 0.7, zero_debias, **options)
        return Measured(
            [tf.convert_to_tensor(after)],
            [{x: step} for step in STEPS],
            tf.global_variables_initializer(),
            after=tf.global_variables(),
        )

    return build


add("assign_moving_average", assigned(False))
add("assign_moving_average with zero_debias", assigned(True))
add("assign_moving_average named", assigned(False, name="mine"))
add("assign_moving_average of float64", assigned(True, "float64"))


def debiased_twice(tf: Any) -> Measured:
    v = tf.get_variable("v", initializer=np.zeros(2, np.float32))
    for value in (1.0, 2.0):
        moving_averages(tf).assign_moving_average(v, value, 0.5)
    return Measured([], [], tf.global_variables_initializer(), after=tf.global_variables())


add("assign_moving_average with zero_debias twice", debiased_twice)


def weighted(**options: Any) -> Builder:
    def build(tf: Any) -> Measured:
        x = tf.placeholder(tf.float32, [])
        value, weight = x * tf.constant([1.0, 3.0]), tf.abs(x) + tf.constant([0.0, 0.5])
        mean = moving_averages(tf).weighted_moving_average(value, 0.6, weight, **options)
        return Measured(
            [mean],
            [{x: step} for step in STEPS],
            tf.global_variables_initializer(),
            after=tf.global_variables(),
        )

    return build


add("weighted_moving_average", weighted())
add("weighted_moving_average named", weighted(name="mine", truediv=False))
add("weighted_moving_average elsewhere", weighted(collections=["variables", "others"]))


def of_integers(tf: Any) -> Measured:
    return Measured([tf.train.ExponentialMovingAverage(0.5).apply([tf.Variable(1)])])


add("integers", of_integers)
add("nothing", lambda tf: Measured([], [{}], train=tf.train.ExponentialMovingAverage(0.5).apply([])))


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("name", ROWS)
async def test_averages_are_tensorflows(tf: Any, name: str, resource: bool):
    assert await compare(tf, ROWS[name], resource=resource) == []
