"""Semantics of variables and fetched values are TensorFlow's, also under native programs."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from aioexec.formats.protos import GraphDef
from tests.interop.comparing import imported, session_here

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("jit", ["off", "eager"])]
RUNS = 200


def exported(graph: Any) -> GraphDef:
    return GraphDef.FromString(graph.as_graph_def().SerializeToString())


def counting(tf: Any, resource: bool) -> Any:
    with tf.Graph().as_default() as graph:
        counter = tf.Variable(np.zeros(3, np.float32), use_resource=resource, name="counter")
        step = tf.placeholder(tf.float32, [3], name="step")
        tf.group(tf.assign_add(counter, step * 2.0 - step, use_locking=True).op, name="count")
        tf.identity(counter.read_value(), name="now")
        tf.group(counter.initializer, name="init")
    return graph


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
async def test_of_concurrent_additions_all_count(resource, jit, tf):
    graph = counting(tf, resource)
    steps = [np.array([1, 2, n], np.float32) for n in range(RUNS)]
    with tf.Session(graph=graph) as theirs:
        theirs.run("init")
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda step: theirs.run("count", {"step:0": step}), steps))
        expected = theirs.run("now:0")

    async with session_here(imported(exported(graph)), jit) as ours:
        await ours.run("init")
        await asyncio.gather(*(ours.run("count", {"step:0": step}) for step in steps))
        got = await ours.run("now:0")

    np.testing.assert_array_equal(expected, np.sum(steps, 0))
    np.testing.assert_array_equal(got, expected)


async def test_what_was_read_before_an_assignment_keeps_its_value_after_it(jit, tf):
    with tf.Graph().as_default() as graph:
        variable = tf.Variable(values := np.arange(6, dtype=np.float32), use_resource=True)
        before = variable.read_value()
        with tf.control_dependencies([before]):
            assign = variable.assign_add(values + 1.0, read_value=False)
        with tf.control_dependencies([assign]):
            used = tf.identity(before * 1.0 + 0.0, name="used")
            tf.identity(variable.read_value() - used, name="moved")
        tf.group(variable.initializer, name="init")
    fetches = ["used:0", "moved:0"]
    with tf.Session(graph=graph) as theirs:
        theirs.run("init")
        expected = [theirs.run(fetches) for _ in range(3)]

    async with session_here(imported(exported(graph)), jit) as ours:
        await ours.run("init")
        got = [await ours.run(fetches) for _ in range(3)]

    np.testing.assert_array_equal(expected[0][0], values)
    np.testing.assert_array_equal(got, expected)


async def test_a_swap_reads_both_variables_before_it_writes_either(jit, tf):
    with tf.Graph().as_default() as graph:
        one = tf.Variable(np.full(4, 1.0), use_resource=True)
        two = tf.Variable(np.full(4, 2.0), use_resource=True)
        read = [one.read_value(), two.read_value()]
        with tf.control_dependencies(read):
            swap = [one.assign(read[1], read_value=False), two.assign(read[0] * 10.0, read_value=False)]
        with tf.control_dependencies(swap):
            tf.stack([one.read_value(), two.read_value(), *read], name="seen")
        tf.group(one.initializer, two.initializer, name="init")
    with tf.Session(graph=graph) as theirs:
        theirs.run("init")
        expected = [theirs.run("seen:0") for _ in range(4)]

    async with session_here(imported(exported(graph)), jit) as ours:
        await ours.run("init")
        got = [await ours.run("seen:0") for _ in range(4)]

    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
async def test_a_fetched_array_never_changes_afterwards(resource, jit, tf):
    graph = counting(tf, resource)
    feed = {"step:0": np.ones(3, np.float32)}

    async def fetched(run: Any) -> list[Any]:
        await run("init")
        kept = []
        for _ in range(4):
            kept.append(await run("now:0"))
            await run("count", feed)
        return kept

    with tf.Session(graph=graph) as theirs:

        async def run_there(*arguments: Any) -> Any:
            return theirs.run(*arguments)

        expected = await fetched(run_there)
    async with session_here(imported(exported(graph)), jit) as ours:
        got = await fetched(ours.run)

    np.testing.assert_array_equal(expected, np.repeat([[0], [1], [2], [3]], 3, 1))
    np.testing.assert_array_equal(got, expected)


async def test_a_fed_array_may_change_after_the_run(jit, tf):
    graph = counting(tf, resource=True)
    fed = np.ones(3, np.float32)

    async with session_here(imported(exported(graph)), jit) as ours:
        await ours.run("init")
        await ours.run("count", {"step:0": fed})
        fed[:] = 100.0
        got = await ours.run("now:0")

    np.testing.assert_array_equal(got, np.ones(3))


async def test_batches_that_change_from_run_to_run_give_right_results(jit, tf):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        weights = tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4))
        tf.reduce_mean(tf.nn.relu(tf.matmul(x, weights) - 3.0), 0, name="y")
    batches = [np.full((1 + n * 7 % 23, 3), n / 10, np.float32) for n in range(30)]
    with tf.Session(graph=graph) as theirs:
        expected = [theirs.run("y:0", {"x:0": batch}) for batch in batches]

    async with session_here(imported(exported(graph)), jit) as ours:
        got = [await ours.run("y:0", {"x:0": batch}) for batch in batches]

    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-6)
