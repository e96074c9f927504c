"""Options of sessions and of runs, deadlines and metadata, in both engines."""

import asyncio

import numpy as np
import pytest

from tests.interop.behaviours.both import failure, outcome

pytestmark = pytest.mark.interop

FULL_TRACE = 3


@pytest.mark.behaviour(1)
async def test_a_target_that_no_factory_accepts_is_refused(agree):
    async def program(engine):
        async def opened():
            async with engine.session("nosuch://somewhere"):
                pass

        return await failure(
            opened, "No session factory registered for the given session options", "DIRECT_SESSION"
        )

    await agree(program)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of TensorFlow's half-made sessions
async def test_arguments_of_a_wrong_type_are_refused(agree):
    async def program(engine):
        tf = engine.tf
        return [
            await failure(lambda: tf.Session(3), "target"),
            await failure(lambda: tf.Session(graph=3), "graph"),
            await failure(lambda: tf.Session(config=3), "config"),
        ]

    await agree(program)


@pytest.mark.behaviour(9)
async def test_a_name_and_version_belong_to_one_session_at_a_time(agree):
    async def program(engine):
        a = engine.tf.constant(1.0)

        def config(version):
            return f'experimental {{ session_metadata {{ name: "interop" version: {version} }} }}'

        async def one_run(version):
            async with engine.session(text=config(version)) as session:
                return await session.run(a)

        async with engine.session(text=config(1)) as session:
            await session.run(a)
            taken = await failure(lambda: one_run(1), "same name and version")
            other = await one_run(2)
        return taken, other, await one_run(1), await failure(lambda: one_run(-1), "negative")

    assert (await agree(program))[1:3] == (1.0, 1.0)


@pytest.mark.behaviour(7, 8)
async def test_the_devices_of_a_session_are_listed(agree):
    async def program(engine):
        async with engine.session(device_count={"CPU": 3}) as session:
            devices = await session.list_devices()
            return [(each.name, each.device_type, each.memory_limit_bytes) for each in devices], len(
                {each.incarnation for each in devices if each.incarnation}
            )

    found, incarnations = await agree(program)

    assert [name for name, _, _ in found] == [
        f"/job:localhost/replica:0/task:0/device:CPU:{n}" for n in range(3)
    ]
    assert incarnations == 3


@pytest.mark.behaviour(34)
@pytest.mark.parametrize(
    "options",
    [
        {"use_per_session_threads": True},
        {"inter_op_parallelism_threads": 3, "intra_op_parallelism_threads": 1},
        {"inter_op_parallelism_threads": -1},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_threads_change_no_result(options, agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [8, 8])
        branches = [tf.matmul(x, x * float(n)) for n in range(6)]
        total = tf.add_n(branches)
        async with engine.session(**options) as one, engine.session(**options) as two:
            feed = {x: np.eye(8, dtype=np.float32) * 2.0}
            return await asyncio.gather(
                *(session.run(total, feed) for session in (one, two) for _ in range(3))
            )

    for value in await agree(program):
        np.testing.assert_array_equal(value, np.eye(8) * 60.0)


@pytest.mark.behaviour(35)
async def test_a_run_chooses_its_pool(agree):
    async def program(engine):
        a = engine.tf.constant(1.0) + 1.0
        pools = [engine.proto("ThreadPoolOptionProto", num_threads=1) for _ in range(2)]

        def options(pool):
            return engine.proto("RunOptions", inter_op_thread_pool=pool)

        async with engine.session(session_inter_op_thread_pool=pools) as session:
            return (
                [await session.run(a, options=options(pool)) for pool in (0, 1)],
                await failure(lambda: session.run(a, options=options(2)), "Invalid inter_op_thread_pool: 2"),
                await failure(
                    lambda: session.run(a, options=options(-2)), "Invalid inter_op_thread_pool: -2"
                ),
            )

    assert (await agree(program))[0] == [2.0, 2.0]


@pytest.mark.behaviour(35)
async def test_a_step_that_waits_in_one_pool_does_not_stop_the_other(agree):
    async def program(engine):
        tf = engine.tf
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        taken, put = queue.dequeue() * 2.0, queue.enqueue(4.0)
        pools = [engine.proto("ThreadPoolOptionProto", num_threads=1) for _ in range(2)]
        async with engine.session(session_inter_op_thread_pool=pools) as session:
            waiting = asyncio.create_task(session.run(taken))
            await session.run(put, options=engine.proto("RunOptions", inter_op_thread_pool=1))
            return await waiting

    assert await agree(program) == 8.0


@pytest.mark.behaviour(36)
async def test_a_named_pool_keeps_its_number_of_threads(differ):
    """TensorFlow notes the error while it makes the session, but its C interface, which Python uses, never looks at it."""

    async def program(engine):
        a = engine.tf.constant(1.0)

        async def one_run(threads):
            pool = engine.proto("ThreadPoolOptionProto", num_threads=threads, global_name="of this test")
            async with engine.session(session_inter_op_thread_pool=[pool]) as session:
                return await session.run(a)

        return await one_run(2), await outcome(lambda: one_run(3)), await one_run(2)

    ours, theirs = await differ(program)

    assert (ours[0], ours[2]) == (1.0, 1.0)
    assert "of this test" in ours[1].message
    assert "InvalidArgumentError" in ours[1].classes
    assert theirs == (1.0, 1.0, 1.0)


@pytest.mark.behaviour(37)
async def test_a_step_may_be_kept_off_the_pools(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [2])
        y = tf.reduce_sum(tf.sqrt(x) * 3.0)
        options = engine.proto("RunOptions", inter_op_thread_pool=-1)
        async with engine.session() as session:
            return await session.run(y, {x: [4.0, 9.0]}, options)

    assert await agree(program) == 15.0


@pytest.mark.behaviour(38, 77)
async def test_a_traced_run_reports_when_its_nodes_ran(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [4])
        tf.reduce_sum(tf.sqrt(x, name="root"), name="total")
        metadata = engine.proto("RunMetadata")
        async with engine.session() as session:
            await session.run(
                "total:0", {x: np.ones(4)}, engine.proto("RunOptions", trace_level=FULL_TRACE), metadata
            )
        (device,) = metadata.step_stats.dev_stats
        nodes = {node.node_name: node for node in device.node_stats}
        ordered = all(
            node.scheduled_micros <= node.all_start_micros
            and 0 <= node.op_start_rel_micros <= node.op_end_rel_micros <= node.all_end_rel_micros
            for node in nodes.values()
        )
        return (
            device.device,
            {"root", "total"} <= nodes.keys(),
            ordered,
            nodes["root"].timeline_label.split("(")[0],
        )

    device, are_there, ordered, label = await agree(program)

    assert (device, are_there, ordered) == ("/job:localhost/replica:0/task:0/device:CPU:0", True, True)
    assert label == "root = Sqrt"


@pytest.mark.behaviour(38)
async def test_metadata_stays_empty_unless_it_is_asked_for(agree):
    async def program(engine):
        a = engine.tf.constant(1.0) * 2.0
        metadata = engine.proto("RunMetadata")
        async with engine.session() as session:
            value = await session.run(a, None, engine.proto("RunOptions"), metadata)
        return value, len(metadata.step_stats.dev_stats), len(metadata.partition_graphs)

    assert await agree(program) == (2.0, 0, 0)


@pytest.mark.behaviour(39, 93)
async def test_partition_graphs_come_when_they_are_asked_for(agree):
    async def program(engine):
        tf = engine.tf
        x = tf.placeholder(tf.float32, [], name="x")
        tf.multiply(x, x, name="square")
        tf.negative(x, name="unused")
        metadata = engine.proto("RunMetadata")
        options = engine.proto("RunOptions", output_partition_graphs=True)
        async with engine.session() as session:
            await session.run("square:0", {x: 2.0}, options, metadata)
        (graph,) = metadata.partition_graphs
        return sorted((node.name, node.op, node.device) for node in graph.node)

    nodes = await agree(program)

    assert ("square", "Mul", "/job:localhost/replica:0/task:0/device:CPU:0") in nodes
    assert not any(name == "unused" for name, _, _ in nodes)


@pytest.mark.behaviour(39)
async def test_partition_graphs_are_refused_where_they_are_disabled(agree):
    async def program(engine):
        a = engine.tf.constant(1.0)
        options = engine.proto("RunOptions", output_partition_graphs=True)
        async with engine.session(text="experimental { disable_output_partition_graphs: true }") as session:
            return await session.run(a), await failure(
                lambda: session.run(a, None, options, engine.proto("RunMetadata")),
                "disable_output_partition_graphs",
            )

    assert (await agree(program))[0] == 1.0


@pytest.mark.behaviour(40, 41)
@pytest.mark.parametrize("whose", ["session", "run"])
async def test_a_blocked_step_ends_at_its_deadline(whose, agree):
    async def program(engine):
        tf = engine.tf
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
        taken, put, size = queue.dequeue(), queue.enqueue(1.0), queue.size()
        config = {"operation_timeout_in_ms": 30} if whose == "session" else {}
        options = engine.proto("RunOptions", timeout_in_ms=30 if whose == "run" else 0)
        async with engine.session(**config) as session:
            late = await failure(lambda: session.run(taken, options=options))
            await session.run(put)
            left = await session.run(size)
            return late, left, await session.run(taken, options=options)

    late, *others = await agree(program)

    assert late.classes[0] == "DeadlineExceededError"
    assert others == [1, 1.0]


@pytest.mark.behaviour(42)
async def test_a_static_graph_is_not_extended_after_its_first_run(differ):
    """TensorFlow's Python layer turns the option off, whatever it was."""

    async def program(engine):
        tf = engine.tf
        a = tf.constant(1.0)
        async with engine.session(text="experimental { optimize_for_static_graph: true }") as session:
            first = await session.run(a)
            later = tf.constant(2.0)
            return first, await outcome(lambda: session.run(later)), await session.run(a)

    ours, theirs = await differ(program)

    assert (ours[0], ours[1].classes[0], ours[2]) == (1.0, "FailedPreconditionError", 1.0)
    assert theirs == (1.0, 2.0, 1.0)
