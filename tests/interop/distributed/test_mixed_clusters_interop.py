"""Steps over a task of TensorFlow's and one of ours, with either as master: the results of two of TensorFlow's."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.interop.behaviours.both import Engine, failure, floats
from tests.interop.distributed.mixed import TASK_0, TASK_1

pytestmark = pytest.mark.interop

DTYPES = ["float32", "float64", "int32", "int64", "bool", "uint8", "complex64", "float16", "string"]


@pytest.mark.parametrize("there_and_back", [(TASK_0, TASK_1), (TASK_1, TASK_0)], ids=["0-1-0", "1-0-1"])
async def test_values_of_every_kind_cross_both_ways(agree_mixed, there_and_back):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        first, second = there_and_back
        fetches, feeds = [], {}
        for name in DTYPES:
            dtype = getattr(tf, name)
            with tf.device(first):
                given = tf.placeholder(dtype, [None], name=f"given_{name}")
                one = tf.identity(given)
            with tf.device(second):
                two = tf.concat([one, one], 0)
            with tf.device(first):
                fetches += [tf.reverse(two, [0]), two]
            feeds[given] = [b"a", b"", b"\xff\x00"] if name == "string" else np.arange(3).astype(name)
        async with engine.session() as session:
            empty = {
                given: np.zeros(0, fed.dtype if hasattr(fed, "dtype") else object)
                for given, fed in feeds.items()
            }
            return await session.run(fetches, feeds), await session.run(fetches, empty)

    await agree_mixed(program)


async def test_scalars_large_tensors_and_control_edges_cross(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        with tf.device(TASK_1):
            large = tf.reshape(tf.range(3_000_000.0), [1000, 3000])
            scalar = tf.constant(2.0) * tf.placeholder_with_default(3.0, [])
        with tf.device(TASK_0):
            total = tf.reduce_max(large) * scalar
            counter = tf.Variable(0.0, use_resource=True)
        with tf.device(TASK_1), tf.control_dependencies([counter.assign_add(1.0)]):
            after = scalar + 1.0
        async with engine.session() as session:
            await session.run(counter.initializer)
            return [await session.run([total, after]) for _ in range(2)], await session.run(counter.value())

    await agree_mixed(program)


@pytest.mark.parametrize("use_resource", [True, False])
async def test_variables_live_on_either_task_and_sessions_share_them(agree_mixed, use_resource):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        variables = []
        for task in (TASK_0, TASK_1):
            with tf.device(task):
                variables.append(tf.Variable([1.0, 2.0], use_resource=use_resource, name=f"v{task[-1]}"))
        first, second = variables
        with tf.device(TASK_0):
            update = second.assign_add(first.read_value() * 2.0)
        with tf.device(TASK_1):
            back = first.assign_sub(second.read_value())
        results = []
        async with engine.session() as session:
            results.append(await failure(lambda: session.run(second.read_value()), "ninitialized"))
            await session.run([each.initializer for each in variables])
            for each in (update, back, update):
                await session.run(each.op)
                results.append(await session.run([variable.read_value() for variable in variables]))
        async with engine.session() as session:
            results.append(await session.run([variable.read_value() for variable in variables]))
        return results

    await agree_mixed(program)


async def test_isolated_sessions_have_variables_of_their_own(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        with tf.device(TASK_1):
            there = tf.Variable(1.0, use_resource=False, name="there")
        with tf.device(TASK_0):
            here = tf.Variable(2.0, use_resource=True, name="here")
        async with engine.session() as session:
            await session.run([there.initializer, here.initializer])
            async with engine.session(isolate_session_state=True) as alone:
                results = [await failure(partial(alone.run, each.read_value())) for each in (there, here)]
                await alone.run([there.initializer, here.initializer])
                await alone.run([there.assign_add(5.0).op, here.assign_add(5.0).op])
                results += await alone.run([there.read_value(), here.read_value()])
            return results, await session.run([there.read_value(), here.read_value()])

    await agree_mixed(program)


@pytest.mark.parametrize("taken", [True, False])
async def test_conditionals_have_branches_on_either_task(agree_mixed, taken):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        pred = tf.placeholder(tf.bool, [])
        x = tf.placeholder(tf.float32, [2])

        def one() -> Any:
            with tf.device(TASK_1):
                return x * 10.0

        def other() -> Any:
            with tf.device(TASK_0):
                inner = x - 1.0
            with tf.device(TASK_1):
                return inner * inner

        result = tf.cond(pred, one, other)
        async with engine.session() as session:
            return await session.run(result, {pred: taken, x: [1.0, 2.0]})

    await agree_mixed(program)


def loop_over_tasks(tf: Any, condition_on: str, body_on: str) -> Any:
    """4 rounds, in each of which a value goes to the other task and back."""
    with tf.device(condition_on):
        start = tf.constant(0), tf.placeholder_with_default(1.5, [])

    def condition(i: Any, a: Any) -> Any:
        with tf.device(condition_on):
            return i < 4

    def body(i: Any, a: Any) -> Any:
        with tf.device(body_on):
            there = a * 1.5
        with tf.device(condition_on):
            return i + 1, there + 1.0

    return tf.while_loop(condition, body, start, name="rounds")


@pytest.mark.parametrize(("condition_on", "body_on"), [(TASK_0, TASK_1), (TASK_1, TASK_0)])
async def test_loops_go_round_over_both_tasks(agree_mixed, condition_on, body_on):
    async def program(engine: Engine) -> Any:
        results = loop_over_tasks(engine.tf, condition_on, body_on)
        async with engine.session() as session:
            return [await session.run(list(results)) for _ in range(2)]

    await agree_mixed(program)


async def test_loops_within_loops_go_round_over_both_tasks(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf

        def inner(j: Any, b: Any) -> Any:
            with tf.device(TASK_1):
                return j + 1, b * 1.25

        def outer(i: Any, a: Any) -> Any:
            with tf.device(TASK_1):
                a = a + 1.0
            _, a = tf.while_loop(lambda j, b: j < 3, inner, [tf.constant(0), a])
            with tf.device(TASK_0):
                return i + 1, a * 2.0

        with tf.device(TASK_0):
            start = [tf.constant(0), tf.constant(1.0)]
        result = tf.while_loop(lambda i, a: i < 3, outer, start)
        async with engine.session() as session:
            return await session.run(list(result))

    await agree_mixed(program)


async def test_gradients_go_back_through_loops_over_both_tasks(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        with tf.device(TASK_1):
            weight = tf.Variable(2.0, use_resource=True)

        def body(i: Any, a: Any) -> Any:
            with tf.device(TASK_1):
                return i + 1, a * weight.read_value() * 1.5

        with tf.device(TASK_0):
            result = tf.while_loop(lambda i, a: i < 4, body, [tf.constant(0), tf.constant(2.0)])[1]
            gradient = tf.gradients(result, weight.handle)[0]
        async with engine.session() as session:
            await session.run(weight.initializer)
            return await session.run([result, gradient])

    await agree_mixed(program)


@pytest.mark.parametrize("fails_on", [TASK_0, TASK_1])
async def test_an_error_on_either_task_fails_the_step_and_the_session_goes_on(agree_mixed, fails_on):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        x = tf.placeholder(tf.float32, [None])
        with tf.device(fails_on):
            reshaped = tf.reshape(x * 2.0, [3], name="reshaped_here")
        results = []
        for task in (TASK_0, TASK_1):
            with tf.device(task):
                results.append(reshaped + 1.0)
        async with engine.session() as session:
            failed = await failure(lambda: session.run(results, {x: [1.0, 2.0]}), "reshaped_here")
            return failed, await session.run(results, {x: [1.0, 2.0, 3.0]})

    await agree_mixed(program)


@pytest.mark.parametrize("fails_on", [TASK_0, TASK_1])
async def test_a_step_that_fails_gives_up_what_waits_on_the_other_task(agree_mixed, fails_on):
    other = TASK_1 if fails_on == TASK_0 else TASK_0

    async def program(engine: Engine) -> Any:
        tf = engine.tf
        with tf.device(fails_on):
            failing = tf.Assert(tf.placeholder_with_default(False, []), ["no more"], name="check")
        with tf.device(other):
            queue = tf.FIFOQueue(3, [tf.float32], shapes=[[]])
            waiting = queue.dequeue()
            put = queue.enqueue_many([[7.0, 7.0]])  # TensorFlow may give one to the step that has failed
        async with engine.session() as session:
            failed = await failure(lambda: session.run([failing, waiting]), "no more")
            await session.run(put)
            return failed, await session.run(waiting)

    await agree_mixed(program)


@pytest.mark.parametrize("queue_on", [TASK_0, TASK_1])
async def test_the_deadline_of_a_step_ends_it_on_both_tasks(agree_mixed, queue_on):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        with tf.device(queue_on):
            queue = tf.FIFOQueue(3, [tf.float32], shapes=[[]])
            taken = queue.dequeue()
            put = queue.enqueue(7.0)
            size = queue.size()
        with tf.device(TASK_0 if queue_on == TASK_1 else TASK_1):
            beyond = taken + 1.0
        options = engine.proto("RunOptions", timeout_in_ms=300)
        async with engine.session() as session:
            failed = await failure(lambda: session.run(beyond, options=options))
            await session.run(put)
            return failed, await session.run(size), await session.run(beyond), await session.run(size)

    await agree_mixed(program)


@pytest.mark.parametrize("queue_on", [TASK_0, TASK_1])
async def test_queues_on_either_task_join_steps(agree_mixed, queue_on):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        with tf.device(queue_on):
            queue = tf.FIFOQueue(3, [tf.float32, tf.string], shapes=[[2], []])
            taken = queue.dequeue()
            closed = queue.close()
        x = tf.placeholder(tf.float32, [2])
        with tf.device(TASK_1 if queue_on == TASK_0 else TASK_0):
            put = queue.enqueue([x * 2.0, tf.strings.as_string(x[0])])
        async with engine.session() as session:
            waiting = asyncio.create_task(session.run(taken))
            await session.run(put, {x: [1.0, 2.0]})
            first = await waiting
            await session.run(put, {x: [3.0, 4.0]})
            await session.run(closed)
            return first, await session.run(taken), await failure(lambda: session.run(taken), "closed")

    await agree_mixed(program)


async def test_partial_runs_go_on_over_both_tasks(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
        with tf.device(TASK_1):
            first = tf.add(a, b, name="first")
        with tf.device(TASK_0):
            doubled = first * 2.0
        with tf.device(TASK_1):
            second = tf.multiply(doubled, c, name="second")
        results = []
        async with engine.session() as session:
            for _ in range(2):
                handle = await session.partial_run_setup([first, second], [a, b, c])
                results.append(await session.partial_run(handle, first, {a: 1.0, b: 2.0}))
                results.append(await session.partial_run(handle, second, {c: 10.0}))
            handle = await session.partial_run_setup([first, second], [a, b, c])
            await session.partial_run(handle, first, {a: 1.0, b: 2.0})  # and no call continues it
        return results

    await agree_mixed(program)


async def test_functions_and_random_ops_run_where_they_are_put(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        tf.set_random_seed(7)
        drawn = []
        for task in (TASK_0, TASK_1):
            with tf.device(task):
                drawn.append(tf.random.uniform([4], seed=3))
                drawn.append(tf.random.stateless_normal([4], seed=[1, 2]))
        with tf.device(TASK_1):
            mapped = tf.map_fn(lambda each: each * each + 1.0, tf.constant([1.0, 2.0, 3.0]))
        async with engine.session() as session:
            return await session.run([*drawn, mapped]), await session.run(drawn)

    await agree_mixed(program)


async def test_a_session_sees_the_devices_of_both_tasks(agree_mixed):
    async def program(engine: Engine) -> Any:
        async with engine.session() as session:
            devices = await session.list_devices()
            return sorted(device.name for device in devices if device.device_type == "CPU")

    found = await agree_mixed(program)

    assert found == [f"/job:worker/replica:0/task:{task}/device:CPU:0" for task in (0, 1)]


async def test_a_reset_forgets_the_state_of_both_tasks(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        variables = []
        for task in (TASK_0, TASK_1):
            with tf.device(task):
                variables.append(tf.Variable(1.0, use_resource=True, name=f"v{task[-1]}"))
        with contextlib.suppress(engine.tf.errors.AbortedError):  # to close it is too late as well
            async with engine.session() as session:
                await session.run([each.initializer for each in variables])
                await engine.reset()
                closed = await failure(lambda: session.run(variables[0].read_value()))
        async with engine.session() as session:
            found = [await failure(partial(session.run, each.read_value())) for each in variables]
        return closed, found

    await agree_mixed(program)


async def test_a_traced_step_reports_both_tasks(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        x = tf.placeholder(tf.float32, [])
        with tf.device(TASK_0):
            first = tf.multiply(x, 2.0, name="first")
        with tf.device(TASK_1):
            second = tf.add(first, 1.0, name="second")
        with tf.device(TASK_0):
            third = tf.add(second, 1.0, name="third")
        options = engine.proto("RunOptions", "trace_level: FULL_TRACE output_partition_graphs: true")
        metadata = engine.proto("RunMetadata")
        async with engine.session() as session:
            result = await session.run(third, {x: 3.0}, options=options, run_metadata=metadata)
        traced = {
            node.node_name
            for device in metadata.step_stats.dev_stats
            for node in device.node_stats
            if node.node_name in ("first", "second", "third")
        }
        graphs = {node.name for graph in metadata.partition_graphs for node in graph.node}
        return result, sorted(traced), sorted(graphs & {"first", "second", "third"})

    await agree_mixed(program)


async def test_fetched_shapes_survive(agree_mixed):
    async def program(engine: Engine) -> Any:
        tf = engine.tf
        with tf.device(TASK_1):
            results = [tf.zeros(shape) for shape in ([], [0], [0, 3], [1, 1, 1], [2, 0, 3])]
        with tf.device(TASK_0):
            doubled = [each * 2.0 for each in results]
        async with engine.session() as session:
            return await session.run([*results, *doubled]), await session.run(floats(0) + doubled[0])

    await agree_mixed(program)
