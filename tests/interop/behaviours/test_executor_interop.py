"""Results and errors of steps over graphs of various shapes, in both engines."""

import asyncio

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats
from tests.interop.behaviours.planned import as_built, partition_graphs

pytestmark = pytest.mark.interop

FOLDING = """
graph_options {
  optimizer_options { opt_level: L1 }
  rewrite_options { min_graph_nodes: -1 }
}
"""


@pytest.mark.behaviour(64)
async def test_one_tensor_is_both_inputs_of_a_node(agree):
    async def program(engine):
        tf = engine.tf
        x = value = tf.placeholder(tf.float32, [])
        for _ in range(10):
            value = value + value
        async with engine.session() as session:
            return await session.run(value, {x: 1.0})

    assert await agree(program) == 1024.0


@pytest.mark.behaviour(65)
async def test_a_random_tree_over_one_input_sums_it(agree):
    async def program(engine):
        tf = engine.tf
        random = np.random.default_rng(7)
        x = tf.placeholder(tf.float32, [])
        trees = [x] * 256
        while len(trees) > 1:
            first, second = (trees.pop(random.integers(len(trees))) for _ in range(2))
            trees.append(tf.add(first, second))
        async with engine.session() as session:
            return await session.run(trees[0], {x: 2.0})

    assert await agree(program) == 512.0


@pytest.mark.behaviour(66)
async def test_a_graph_without_edges_runs(agree):
    async def program(engine):
        tf = engine.tf
        nodes = [tf.no_op(), tf.no_op()]
        async with engine.session() as session:
            return await session.run(nodes), await session.run([])

    assert await agree(program) == ([None, None], [])


async def test_nothing_to_run_is_nothing_to_return(agree):
    async def program(engine):
        x = engine.tf.placeholder(engine.tf.float32, [])
        async with engine.session() as session:
            return await session.run({}), await session.run([[], ()], {x: 1.0})

    assert await agree(program) == ({}, [[], ()])


@pytest.mark.behaviour(32)
async def test_a_deep_chain_runs(agree):
    async def program(engine):
        tf = engine.tf
        x = value = tf.placeholder(tf.float32, [])
        for _ in range(1000):
            value = tf.negative(value)
        async with engine.session(**as_built(engine)) as session:
            return await session.run(value, {x: 3.0})

    assert await agree(program) == 3.0


@pytest.mark.behaviour(78)
async def test_wide_layers_joined_by_control_edges_alone_run(agree):
    async def program(engine):
        tf = engine.tf
        counter = tf.Variable(0, use_resource=True)
        before = tf.no_op()
        for _ in range(4):
            with tf.control_dependencies([before]):
                layer = [tf.no_op() for _ in range(64)] + [counter.assign_add(1, read_value=False)]
            before = tf.group(*layer)
        async with engine.session() as session:
            await session.run(counter.initializer)
            await session.run(before)
            return await session.run(counter)

    assert await agree(program) == 4


@pytest.mark.behaviour(33)
async def test_concurrent_steps_of_one_signature_are_independent(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [3])
        y = tf.reduce_sum(x * x) + 1.0
        async with engine.session() as session:

            async def caller(number):
                return [await session.run(y, {x: floats([number, n, 1])}) for n in range(25)]

            return await asyncio.gather(*(caller(number) for number in range(4)))

    expected = [[number**2 + n**2 + 2.0 for n in range(25)] for number in range(4)]
    np.testing.assert_array_equal(await agree(program), expected)


@pytest.mark.behaviour(67)
async def test_concurrent_additions_to_a_reference_lose_at_most_some(agree):
    async def program(engine):
        tf = engine.tf
        variable = tf.Variable(0.0, use_resource=False)
        adds = [tf.assign(variable, variable + 1.0, use_locking=False).op for _ in range(64)]
        async with engine.session() as session:
            await session.run(variable.initializer)
            await session.run(adds)
            return 1.0 <= await session.run(variable) <= 64.0

    assert await agree(program)


@pytest.mark.behaviour(75)
async def test_the_first_error_is_raised_with_the_name_of_its_node(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [None], name="x")
        ids = tf.placeholder(tf.int32, [None], name="ids")
        async with engine.session() as session:
            return [
                await failure(
                    lambda: session.run(tf.gather(x, ids, name="gathered"), {x: floats([1, 2]), ids: [5]}),
                    "gathered",
                ),
                await failure(
                    lambda: session.run(tf.reshape(x, [3], name="shaped"), {x: floats([1, 2])}), "shaped"
                ),
                await failure(
                    lambda: session.run(tf.matmul([x], [x], name="product"), {x: floats([1, 2])}), "product"
                ),
                await failure(
                    lambda: session.run(tf.check_numerics(x, "oh no", name="checked"), {x: [np.nan]}), "oh no"
                ),
                await failure(
                    lambda: session.run(tf.Assert(x[0] > 5.0, [x], name="claim"), {x: [1.0]}),
                    "assertion failed",
                ),
                await session.run(x + 1.0, {x: [1.0]}),
            ]

    errors = (await agree(program))[:5]

    assert {error.classes[0] for error in errors} == {"InvalidArgumentError"}


@pytest.mark.behaviour(30)
async def test_an_uninitialised_variable_is_named(agree):
    async def program(engine):
        tf = engine.tf
        kinds = [tf.Variable(1.0, use_resource=resource, name=f"v{resource}") for resource in (True, False)]
        async with engine.session() as session:
            return [
                await failure(lambda: session.run(kinds[0]), "vTrue"),
                await failure(lambda: session.run(kinds[1]), "vFalse"),
                await session.run(tf.report_uninitialized_variables(kinds)),
            ]

    result = await agree(program)

    assert [error.classes[0] for error in result[:2]] == ["FailedPreconditionError"] * 2


@pytest.mark.behaviour(158)
async def test_constant_subgraphs_are_folded_before_the_run(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [2], name="x")
        table = tf.reduce_sum(tf.exp(tf.constant(floats([[1, 2], [3, 4]]))) * 2.0, 0, name="table")
        total = tf.add(x, table, name="total")
        async with engine.session(text=FOLDING) as session:
            graphs = await partition_graphs(engine, session, total, {x: [0.0, 1.0]})
            ops = {node.op for graph in graphs for node in graph.node}
            return ops & {"Exp", "Sum", "Mul"}, await session.run(total, {x: [0.0, 1.0]})

    folded, value = await agree(program)

    assert folded == set()
    np.testing.assert_allclose(value, 2.0 * np.exp([[1, 2], [3, 4]]).sum(0) + [0, 1], rtol=1e-6)


@pytest.mark.behaviour(158, 160)
async def test_what_is_stateful_or_fed_is_not_folded(agree):
    async def program(engine):
        tf = engine.tf
        a = tf.constant(2.0, name="a")
        doubled = tf.multiply(a, 10.0, name="doubled")
        drawn = tf.random_uniform([4])
        async with engine.session(text=FOLDING) as session:
            draws = [await session.run(drawn) for _ in range(2)]
            return [
                await session.run(doubled),
                await session.run([a, doubled], {a: 3.0}),
                await session.run([doubled * 1.0], {doubled: 7.0}),
                not np.array_equal(*draws),
            ]

    assert await agree(program) == [20.0, [3.0, 30.0], [7.0], True]


@pytest.mark.behaviour(158)
async def test_folding_keeps_what_constants_wait_for(agree):
    async def program(engine):
        tf = engine.tf
        counter = tf.Variable(0, use_resource=True)
        with tf.control_dependencies([counter.assign_add(1, read_value=False)]):
            waits = tf.constant(2.0) * 3.0
        async with engine.session(text=FOLDING) as session:
            await session.run(counter.initializer)
            return [await session.run(waits) for _ in range(2)], await session.run(counter)

    assert await agree(program) == ([6.0, 6.0], 2)


@pytest.mark.behaviour(159, 160)
async def test_identical_pure_nodes_are_merged_and_keep_their_names(agree):
    async def program(engine):
        tf = engine.tf
        x, y = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.float32, [], name="y")
        same = [tf.sqrt(tf.add(x, y)), tf.sqrt(tf.add(y, x)), tf.sqrt(tf.add(x, y))]
        drawn = [tf.random_uniform([2], seed=1, name=name) for name in ("one", "two")]
        async with engine.session(text=FOLDING) as session:
            feed = {x: 4.0, y: 5.0}
            graphs = await partition_graphs(engine, session, tf.add_n(same), feed)
            roots = sum(node.op == "Sqrt" for graph in graphs for node in graph.node)
            graphs = await partition_graphs(engine, session, drawn)
            generators = sum(node.op == "RandomUniform" for graph in graphs for node in graph.node)
            return (
                roots,
                generators,
                await session.run(same, feed),
                await session.run(same[1], {x: 4.0, y: 0.0}),
            )

    assert await agree(program) == (1, 2, [3.0, 3.0, 3.0], 2.0)
