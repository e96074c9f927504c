"""Partial runs, in both engines."""

import asyncio

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats, outcome

pytestmark = pytest.mark.interop


def small_graph(tf):
    """sum = a + b, product = sum * c."""
    a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
    total = tf.add(a, b, name="total")
    return a, b, c, total, tf.multiply(total, c, name="product")


@pytest.mark.behaviour(51)
async def test_feeds_and_fetches_come_in_parts(agree):
    async def program(engine):
        a, b, c, total, product = small_graph(engine.tf)
        double = a * 2.0
        async with engine.session() as session:
            handle = await session.partial_run_setup([double, total, product], [a, b, c])
            return (
                await session.partial_run(handle, double, {a: 1.0}),
                await session.partial_run(handle, total, {b: 17.0}),
                await session.partial_run(handle, [product], {c: 2.0}),
            )

    assert await agree(program) == (2.0, 18.0, [36.0])


@pytest.mark.behaviour(51)
async def test_two_partial_runs_do_not_see_one_another(agree):
    async def program(engine):
        a, b, c, total, product = small_graph(engine.tf)
        async with engine.session() as session:
            first, second = [await session.partial_run_setup([total, product], [a, b, c]) for _ in range(2)]
            return first != second, [
                await session.partial_run(first, total, {a: 1.0, b: 2.0}),
                await session.partial_run(second, total, {a: 10.0, b: 20.0}),
                await session.partial_run(second, product, {c: 2.0}),
                await session.partial_run(first, product, {c: 3.0}),
                await session.run(product, {a: 0.5, b: 0.5, c: 7.0}),
            ]

    assert await agree(program) == (True, [3.0, 30.0, 60.0, 9.0, 7.0])


@pytest.mark.behaviour(51)
async def test_state_that_a_partial_run_changes_is_changed_once(agree):
    async def program(engine):
        tf = engine.tf
        a = tf.placeholder(tf.float32, [])
        variable = tf.Variable(1.0, use_resource=True)
        added = tf.assign_add(variable, a)
        with tf.control_dependencies([added]):
            later = tf.identity(a * 10.0)
        async with engine.session() as session:
            await session.run(variable.initializer)
            handle = await session.partial_run_setup([later, a * 3.0], [a])
            await session.partial_run(handle, later, {a: 2.0})
            return await session.run(variable)

    assert await agree(program) == 3.0


@pytest.mark.behaviour(52)
async def test_a_fetch_whose_feeds_are_missing_is_refused_and_the_run_stays_open(agree):
    async def program(engine):
        a, b, c, total, product = small_graph(engine.tf)
        async with engine.session() as session:
            handle = await session.partial_run_setup([total, product], [a, b, c])
            early = await failure(
                lambda: session.partial_run(handle, product, {a: 1.0, b: 2.0}),
                "can't be computed from the feeds that have been fed so far",
            )
            return early, await outcome(lambda: session.partial_run(handle, total, {a: 1.0, b: 2.0}))

    assert (await agree(program))[1] == 3.0


@pytest.mark.behaviour(53)
async def test_one_output_of_many_is_fed(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [4])
        low, high = tf.split(x, 2)
        total = low + high
        async with engine.session() as session:
            handle = await session.partial_run_setup([low, total], [x, high])
            first = await session.partial_run(handle, low, {x: floats([1, 2, 3, 4])})
            return first, await session.partial_run(handle, total, {high: floats([10, 20])})

    np.testing.assert_array_equal((await agree(program))[1], [11.0, 22.0])


@pytest.mark.behaviour(53)
async def test_one_output_of_a_switch_is_fed(agree):
    async def program(engine):
        tf = engine.tf
        graph = engine.proto(
            "GraphDef",
            """
            node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
            node { name: "p" op: "Placeholder" attr { key: "dtype" value { type: DT_BOOL } } }
            node { name: "switch" op: "Switch" input: "x" input: "p" attr { key: "T" value { type: DT_FLOAT } } }
            node { name: "low" op: "Neg" input: "switch" attr { key: "T" value { type: DT_FLOAT } } }
            node { name: "high" op: "Neg" input: "switch:1" attr { key: "T" value { type: DT_FLOAT } } }
            """,
        )
        tf.import_graph_def(graph, name="")
        async with engine.session() as session:
            handle = await session.partial_run_setup(["low:0", "high:0"], ["x:0", "p:0", "switch:1"])
            low = await session.partial_run(handle, "low:0", {"x:0": 5.0, "p:0": False})
            return low, await session.partial_run(handle, "high:0", {"switch:1": 3.0})

    assert await agree(program) == (-5.0, -3.0)


@pytest.mark.behaviour(52)
async def test_what_stands_above_a_fed_tensor_is_not_waited_for_here_only(differ):
    """TensorFlow's check of a fetch continues above tensors that are fed, though the step needs no node there."""

    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        middle = x * 2.0
        high, low = middle + 1.0, x + 1.0
        async with engine.session() as session:
            handle = await session.partial_run_setup([high, low], [x, middle])
            first = await outcome(lambda: session.partial_run(handle, high, {middle: 10.0}))
            return first, await outcome(lambda: session.partial_run(handle, low, {x: 1.0}))

    ours, theirs = await differ(program)

    assert ours == (11.0, 2.0)
    assert "can't be computed from the feeds" in theirs[0].message


@pytest.mark.behaviour(54)
async def test_what_was_not_announced_or_comes_again_is_refused(agree):
    async def program(engine):
        a, b, c, total, product = small_graph(engine.tf)
        async with engine.session() as session:
            handle = await session.partial_run_setup([total, product], [a, b, c])
            return [
                await failure(lambda: session.partial_run(handle, a * 1.0, {a: 1.0}), "was not specified"),
                await failure(lambda: session.partial_run(handle, total, {total: 1.0})),
                await session.partial_run(handle, total, {a: 1.0, b: 2.0}),
                await failure(lambda: session.partial_run(handle, product, {a: 1.0}), "has already been fed"),
                await failure(lambda: session.partial_run(handle, total), "has already been fetched"),
                await session.partial_run(handle, product, {c: 2.0}),
                await failure(lambda: session.partial_run(handle, product), "Must run"),
                await failure(lambda: session.partial_run("no such handle", product), "Must run"),
                await failure(lambda: session.partial_run_setup([], [a]), "at least one target"),
                await failure(lambda: session.partial_run_setup(["zz:0"], [a])),
            ]

    await agree(program)


@pytest.mark.behaviour(55, 58)
async def test_partial_runs_of_a_closed_session_are_refused(agree):
    async def program(engine):
        a, b, _, total, _ = small_graph(engine.tf)
        async with engine.session() as session:
            handle = await session.partial_run_setup([total], [a, b])
            await session.close()
            return [
                await failure(lambda: session.partial_run(handle, total, {a: 1.0, b: 1.0})),
                await failure(lambda: session.partial_run_setup([total], [a, b])),
            ]

    await agree(program)


@pytest.mark.behaviour(51)
async def test_operations_are_fetched_in_parts_here_only(differ):
    """TensorFlow's Python layer refuses operations; here one that is announced has run when `partial_run` returns."""

    async def program(engine):
        a, b, c, total, product = small_graph(engine.tf)
        async with engine.session() as session:
            handle = await session.partial_run_setup([total.op, product], [a, b, c])
            first = await outcome(lambda: session.partial_run(handle, total.op, {a: 1.0, b: 1.0}))
            return first, await outcome(lambda: session.partial_run(handle, product, {c: 1.0}))

    ours, theirs = await differ(program)

    assert ours == (None, 2.0)
    assert theirs[0].classes[0] == "RuntimeError"


@pytest.mark.behaviour(75)
async def test_an_error_in_one_part_ends_the_run(agree):
    async def program(engine):
        tf = engine.tf
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        checked = tf.check_numerics(a, "part one")
        async with engine.session() as session:
            handle = await session.partial_run_setup([checked, b * 2.0], [a, b])
            return await failure(lambda: session.partial_run(handle, checked, {a: np.inf}), "part one")

    await agree(program)


@pytest.mark.behaviour(51)
async def test_one_part_waits_while_another_feeds(agree):
    async def program(engine):
        tf = engine.tf
        a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        taken = queue.dequeue() + a
        put = queue.enqueue(b)
        done = tf.identity(b)
        with tf.control_dependencies([put]):
            done = tf.identity(b)
        async with engine.session() as session:
            handle = await session.partial_run_setup([taken, done], [a, b])
            waiting = asyncio.create_task(session.partial_run(handle, taken, {a: 1.0}))
            fed = await session.partial_run(handle, done, {b: 5.0})
            return fed, await waiting

    assert await agree(program) == (5.0, 6.0)
