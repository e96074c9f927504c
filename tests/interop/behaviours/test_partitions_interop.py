"""Steps over two devices: transfers between them, and equal results, in both engines."""

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, floats
from tests.interop.behaviours.planned import FIRST, SECOND, as_built, partition_graphs, transfers

pytestmark = pytest.mark.interop


@pytest.mark.behaviour(63)
async def test_two_received_values_are_added_and_sent_on(agree):
    async def program(engine):
        tf = engine.tf
        with tf.device("/cpu:1"):
            one, other = tf.constant(1.0), tf.constant(1.0)
        with tf.device("/cpu:0"):
            total = one + other
        with tf.device("/cpu:1"):
            back = tf.identity(total)
        async with engine.session(**as_built(engine)) as session:
            return await session.run(back)

    assert await agree(program) == 2.0


@pytest.mark.behaviour(94)
async def test_a_tensor_is_sent_once_to_a_device_for_all_its_consumers_there(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [2])
        with tf.device("/cpu:1"):
            source = x + x
        with tf.device("/cpu:0"):
            users = [tf.negative(source), tf.exp(source), source * source]
            total = tf.add_n(users)
        feed = {x: floats([0.5, 1.0])}
        async with engine.session(**as_built(engine)) as session:
            return sorted((await transfers(engine, session, total, feed)).items()), await session.run(
                total, feed
            )

    sent, value = await agree(program)

    assert sent == [((FIRST, SECOND), 1), ((SECOND, FIRST), 1)]  # the feed there, the source back
    np.testing.assert_allclose(value, np.exp([1.0, 2.0]) + [0.0, 2.0], rtol=1e-6)


@pytest.mark.behaviour(95)
async def test_a_control_edge_crosses_as_a_constant_that_is_sent(agree):
    async def program(engine):
        tf = engine.tf
        with tf.device("/cpu:0"):
            variable = tf.Variable(1.0, use_resource=True)
            add = variable.assign_add(1.0, read_value=False)
        with tf.control_dependencies([add]), tf.device("/cpu:1"):
            after = [tf.no_op(), tf.no_op()]
        both = tf.group(*after)
        async with engine.session(**as_built(engine)) as session:
            await session.run(variable.initializer)
            graphs = await partition_graphs(engine, session, after)
            (sender,) = [graph for graph in graphs if any(node.op == "_Send" for node in graph.node)]
            sends = [node for node in sender.node if node.op == "_Send"]
            by_name = {node.name: node for node in sender.node}
            dummies = [by_name[send.input[0].split(":")[0]] for send in sends]
            (receiver,) = [graph for graph in graphs if graph is not sender]
            await session.run(both)
            return (
                [(dummy.op, [edge[0] for edge in dummy.input]) for dummy in dummies],
                sorted(node.op for node in receiver.node if node.op != "NoOp"),
                await session.run(variable),
            )

    assert await agree(program) == ([("Const", ["^"])], ["Identity", "_Recv"], 3.0)


@pytest.mark.behaviour(96)
async def test_data_and_control_go_from_one_node_to_another_device(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        with tf.device("/cpu:1"):
            source = x * 2.0
        with tf.device("/cpu:0"), tf.control_dependencies([source]):
            target = tf.add(source, 1.0)
        async with engine.session(**as_built(engine)) as session:
            sent = await transfers(engine, session, target, {x: 3.0})
            return sent[SECOND, FIRST] in (1, 2), await session.run(target, {x: 3.0})

    assert await agree(program) == (True, 7.0)


@pytest.mark.behaviour(101)
async def test_transfers_carry_the_incarnation_of_the_sending_device(differ):
    """TensorFlow's direct session uses 1 for every device, since they do not change during its life; here they are real."""

    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        with tf.device("/cpu:1"):
            source = tf.negative(x)
        async with engine.session(**as_built(engine)) as session:
            devices = {each.name: each.incarnation for each in await session.list_devices()}
            incarnations = {
                node.attr["send_device_incarnation"].i
                for graph in await partition_graphs(engine, session, source.op, {x: 1.0})
                for node in graph.node
                if node.op in ("_Send", "_Recv")
            }
            return incarnations, devices[FIRST]

    (ours, incarnation), (theirs, _) = await differ(program)

    assert {number % 2**64 for number in ours} == {incarnation}
    assert theirs == {1}


@pytest.mark.behaviour(103)
async def test_steps_over_parts_of_one_graph_do_not_confuse_their_transfers(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        with tf.device("/cpu:1"):
            a = x + 1.0
        with tf.device("/cpu:0"):
            b, c = a * 10.0, a * 100.0
        async with engine.session(**as_built(engine)) as session:
            return [
                await session.run(fetches, {x: float(n)})
                for n, fetches in enumerate([b, c, [c, b], b, [b, c]])
            ]

    assert await agree(program) == [10.0, 200.0, [300.0, 30.0], 40.0, [50.0, 500.0]]


@pytest.mark.behaviour(75)
async def test_an_error_on_one_device_ends_the_step_on_all(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        with tf.device("/cpu:1"):
            fails = tf.check_numerics(x, "the first error", name="checked")
        with tf.device("/cpu:0"):
            waits = queue.dequeue() + fails
        put = queue.enqueue(1.0)
        async with engine.session(**as_built(engine)) as session:
            error = await failure(lambda: session.run(waits, {x: np.nan}), "the first error", "checked")
            await session.run(put)
            return error, await session.run(waits, {x: 2.0})

    assert (await agree(program))[1] == 3.0


@pytest.mark.behaviour(68)
@pytest.mark.parametrize("taken", [True, False])
async def test_the_branch_that_is_not_taken_is_dead_on_the_other_device_too(taken, agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        predicate = tf.placeholder(tf.bool, [])
        counter = tf.Variable(0.0, use_resource=True)

        def branch(device, amount):
            def build():
                with tf.device(device), tf.control_dependencies([tf.assign_add(counter, amount)]):
                    return x * amount

            return build

        y = tf.cond(predicate, branch("/cpu:1", 10.0), branch("/cpu:0", 100.0))
        async with engine.session(**as_built(engine)) as session:
            await session.run(counter.initializer)
            return await session.run(y, {x: 2.0, predicate: taken}), await session.run(counter)

    assert await agree(program) == ((20.0, 10.0) if taken else (200.0, 100.0))


@pytest.mark.behaviour(97)
async def test_a_loop_spans_both_devices(agree):
    async def program(engine):
        tf = engine.tf
        start = tf.placeholder(tf.float32, [2])

        def body(count, value):
            with tf.device("/cpu:1"):
                doubled = value * 2.0
            with tf.device("/cpu:0"):
                return count + 1, doubled + 1.0

        _, value = tf.while_loop(lambda count, _: count < 5, body, [tf.constant(0), start])
        async with engine.session(**as_built(engine)) as session:
            first = await session.run(value, {start: floats([0, 1])})
            graphs = await partition_graphs(engine, session, value, {start: floats([0, 1])})
            loops = sorted(
                sum(node.op == op for node in graph.node) > 0
                for graph in graphs
                for op in ("LoopCond", "Merge")
            )
            controlled = all(
                any(edge.startswith("^") for edge in node.input)
                for graph in graphs
                for node in graph.node
                if node.op == "_Recv" and graph.node[0].device == SECOND and "_arg" not in node.name
            )
            return first, len(graphs), loops, controlled

    value, count, loops, controlled = await agree(program)

    np.testing.assert_array_equal(value, [31.0, 63.0])
    assert controlled
    assert (count, loops) == (2, [False, True, True, True])  # only one of them decides when to leave
