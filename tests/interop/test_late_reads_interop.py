"""Reads of reference variables through an Identity that waits for a write yield the values of TensorFlow's Identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.comparing import imported, session_here
from tests.interop.test_semantics_interop import exported
from tests.interop.train.engines import first_control_flow, kind_of_variables

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("jit", ["off", "eager"])]
Program = Callable[[Any, Any], list[Any]]
"""Builds with the module `tensorflow.compat.v1` and a variable of initial value 1.0; returns the fetches."""
PROGRAMS: list[Program] = []


def program(build: Program) -> Program:
    PROGRAMS.append(build)
    return build


def raised(tf: Any, v: Any) -> Any:
    """A scope with control dependencies on an addition of 1."""
    return tf.control_dependencies([tf.assign_add(v, 1.0)])


@program
def who_waits_for_the_addition(tf, v):
    with raised(tf, v):
        return [tf.fill([2], v), tf.identity(v), v + 0.5]


@program
def who_waits_for_an_assignment_or_a_group(tf, v):
    with tf.control_dependencies([tf.group(tf.assign(v, 10.0))]):
        return [v * 2.0]


@program
def who_takes_the_result_of_the_write(tf, v):
    raised = tf.assign_add(v, 1.0)
    return [raised * v, raised - v]


@program
def identities_of_identities(tf, v):
    read = tf.stop_gradient(tf.identity(tf.identity(v)))
    with raised(tf, v):
        return [read + 0.5]


@program
def what_was_computed_before_by_its_place(tf, v):
    before = tf.stack([v, v])
    with tf.control_dependencies([before]):
        add = tf.assign_add(v, 1.0)
    with tf.control_dependencies([add]):
        return [before + 0.5, v + 0.5]


@program
def after_the_second_of_two_writes(tf, v):
    first = tf.assign_add(v, 1.0)
    with tf.control_dependencies([first]):
        second = tf.assign_add(v, 10.0)
    with tf.control_dependencies([second]):
        return [v + 0.5, first + 0.0, tf.identity(first)]


@program
def a_write_of_what_is_read(tf, v):
    with raised(tf, v):
        return [tf.assign_add(v, v)]


@program
def elements_of_a_queue(tf, v):
    queue = tf.FIFOQueue(10, [tf.float32], shapes=[[]])
    with raised(tf, v):
        put = queue.enqueue_many((tf.fill([1], v),))
    with tf.control_dependencies([put]):
        put = queue.enqueue(v)
    with tf.control_dependencies([put]):
        return [tf.reduce_sum(queue.dequeue_many(2))]


@program
def weights_after_training(tf, v):
    train = tf.train.GradientDescentOptimizer(0.25).minimize(tf.square(v))
    average = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([train]):
        averaged = average.apply([v])
    with tf.control_dependencies([averaged]):
        return [v * 1.0, average.average(v) * 1.0]


def in_a_branch(is_taken: bool) -> Program:
    def build(tf: Any, v: Any) -> list[Any]:
        def branch() -> Any:
            with raised(tf, v):
                return tf.identity(v)

        condition = tf.placeholder_with_default(is_taken, [])
        return [tf.cond(condition, branch, lambda: tf.identity(v) + 0.25)]

    return build


program(in_a_branch(True))
program(in_a_branch(False))


@program
def a_branch_inside_of_a_branch(tf, v):
    def inner():
        with raised(tf, v):
            return v + 0.5

    def outer():
        return tf.cond(tf.placeholder_with_default(True, []), inner, lambda: tf.constant(0.0))

    return [tf.cond(tf.placeholder_with_default(True, []), outer, lambda: tf.constant(0.0))]


@program
def behind_a_branch_that_writes(tf, v):
    condition = tf.placeholder_with_default(True, [])
    written = tf.cond(condition, lambda: tf.identity(tf.assign_add(v, 1.0)), lambda: tf.constant(0.0))
    with tf.control_dependencies([written]):
        return [v * 2.0]


@program
def a_branch_behind_a_write(tf, v):
    with raised(tf, v):
        condition = tf.placeholder_with_default(True, [])
        return [tf.cond(condition, lambda: v * 1.0, lambda: tf.constant(0.0))]


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
async def test_a_read_that_waits_for_a_write_gives_what_was_written(build: Program, jit: str, tf: Any):
    with tf.Graph().as_default() as graph, kind_of_variables(tf, False), first_control_flow(tf):
        variable = tf.Variable(1.0, name="v")
        fetches = build(tf, variable)
        names = [fetch.name for fetch in fetches]
        init = tf.global_variables_initializer().name
        with tf.Session() as session:
            session.run(init)
            expected = [session.run(names) for _ in range(3)]

    async with session_here(imported(exported(graph)), jit) as ours:
        await ours.run(init)
        found = [await ours.run(names) for _ in range(3)]

    assert [[value.tolist() for value in each] for each in found] == [
        [value.tolist() for value in each] for each in expected
    ]
