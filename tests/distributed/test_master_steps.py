"""Sessions of a master with graphs on several tasks: the results of a session in one process."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.master.remote_sessions import RemoteSessions
from aioexec.ops.functions.defun import Defun
from aioexec.planning.export import subgraph_to_graph_def
from aioexec.planning.prune import prune
from aioexec.planning.subgraph import Signature
from aioexec.testing.cluster import InMemoryCluster

TASKS = ["/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2"]


def on(task: int) -> Any:
    return ax.device(TASKS[task])


@pytest.fixture
async def cluster():
    async with InMemoryCluster({"worker": 3}) as made:
        yield made


@pytest.mark.behaviour(141)
@pytest.mark.behaviour(142)
@pytest.mark.parametrize("master", [0, 1])
@pytest.mark.parametrize(("a_on", "b_on", "c_on"), [*itertools.product(range(3), repeat=3)])
async def test_wherever_nodes_are_the_result_is_the_same(cluster, master, a_on, b_on, c_on):
    graph = ax.Graph()
    with graph.as_default():
        with on(a_on):
            a = ax.constant([[1.0, 2.0], [3.0, 4.0]], name="a")
        with on(b_on):
            b = ax.placeholder(ax.float32, [2, 2], name="b")
        with on(c_on):
            c = ax.matmul(a, b, name="c")

    async with cluster.session("worker", master, graph) as session:
        fed = np.array([[1.0, 0.0], [1.0, 1.0]], np.float32)
        results = await session.run([c, a, c, b], {b: fed})

    expected = np.array([[3.0, 2.0], [7.0, 4.0]])
    for result, wanted in zip(results, [expected, [[1, 2], [3, 4]], expected, fed], strict=True):
        np.testing.assert_array_equal(result, wanted)


async def test_control_edges_strings_and_variables_cross_tasks(cluster):
    graph = ax.Graph()
    with graph.as_default():
        with on(1):
            counter = ax.Variable(10.0, use_resource=False, name="counter")
            total = ax.Variable(1.0, use_resource=True, name="total")
            grown = counter.assign_add(5.0)
        with on(2), ax.control_dependencies([grown]):
            text = ax.string_join([ax.constant("a"), ax.as_string(ax.constant(7))], name="text")
            read = counter.read_value() if hasattr(counter, "read_value") else counter
            summed = ax.add(read, total, name="summed")
        init = ax.global_variables_initializer()

    async with cluster.session("worker", 0, graph) as session:
        await session.run(init)
        said, sum_of_both = await session.run([text, summed])

        assert said == b"a7"
        assert sum_of_both == 16.0
        assert await session.run(counter) == 15.0


async def test_a_loop_runs_on_two_tasks(cluster):
    graph = ax.Graph()
    with graph.as_default():
        limit = ax.placeholder(ax.int32, [], name="limit")

        def body(i, x):
            with on(1):
                doubled = ax.multiply(x, 2.0)
            with on(2):
                return i + 1, ax.add(doubled, 1.0)

        with on(0):
            _, x = ax.while_loop(lambda i, x: ax.less(i, limit), body, [0, 1.0])

    async with cluster.session("worker", 0, graph) as session:
        for rounds in (0, 1, 5):
            assert await session.run(x, {limit: rounds}) == 2.0 ** (rounds + 1) - 1


@pytest.mark.parametrize("is_true", [True, False])
async def test_a_conditional_has_its_branches_on_other_tasks(cluster, is_true):
    graph = ax.Graph()
    with graph.as_default():
        wanted = ax.placeholder(ax.bool, [], name="wanted")
        with on(1):
            x = ax.constant(3.0)

        def double():
            with on(2):
                return ax.multiply(x, 2.0)

        def negative():
            with on(0):
                return ax.negative(x)

        chosen = ax.cond(wanted, double, negative)

    async with cluster.session("worker", 1, graph) as session:
        assert await session.run(chosen, {wanted: is_true}) == (6.0 if is_true else -3.0)


@pytest.mark.behaviour(157)
async def test_an_iteration_outside_the_graph_converges(cluster):
    matrix = np.array([[3.0, 2.0], [-1.0, 0.0]], np.float32)
    graph = ax.Graph()
    with graph.as_default():
        x = ax.placeholder(ax.float32, [2, 1], name="x")
        with on(1):
            product = ax.matmul(ax.constant(matrix), x)
        with on(2):
            normalised = ax.divide(product, ax.sqrt(ax.reduce_sum(ax.square(product))))

    async with cluster.session("worker", 0, graph) as session:
        vector = np.array([[1.0], [0.5]], np.float32)
        for _ in range(100):
            vector = await session.run(normalised, {x: vector})

    assert vector[0, 0] / vector[1, 0] == pytest.approx(-2.0, rel=1e-5)


async def test_partial_runs_and_callables_span_tasks(cluster):
    graph = ax.Graph()
    with graph.as_default():
        with on(0):
            a = ax.placeholder(ax.float32, [], name="a")
            b = ax.placeholder(ax.float32, [], name="b")
        with on(1):
            doubled = ax.multiply(a, 2.0, name="doubled")
        with on(2):
            summed = ax.add(doubled, b, name="summed")

    async with cluster.session("worker", 0, graph) as session:
        run = await session.partial_run_setup([doubled, summed], [a, b])
        assert await session.partial_run(run, doubled, {a: 2.0}) == 4.0
        assert await session.partial_run(run, summed, {b: 1.0}) == 5.0

        add = session.make_callable(summed, [a, b])
        assert await add(3.0, 4.0) == 10.0


@pytest.mark.behaviour(100)
def test_only_the_functions_a_part_reaches_go_with_it():
    graph = ax.Graph()
    with graph.as_default():

        @Defun(ax.float32, func_name="inner")
        def inner(x):
            return ax.square(x)

        @Defun(ax.float32, func_name="outer")
        def outer(x):
            return inner(x)

        @Defun(ax.float32, func_name="unused")
        def unused(x):
            return ax.negative(x)

        unused.add_to_graph(graph)
        called = outer(ax.constant(3.0))

    part = subgraph_to_graph_def(prune(Signature((), (called,), ())), functions=graph.functions)

    assert set(graph.functions) == {"inner", "outer", "unused"}
    assert {function.signature.name for function in part.library.function} == {"inner", "outer"}


async def test_a_traced_step_reports_all_tasks(cluster):
    graph = ax.Graph()
    with graph.as_default():
        with on(1):
            x = ax.placeholder(ax.float32, [])
            twice = ax.add(ax.random_uniform([]), x, name="sum")
        with on(2):
            y = ax.multiply(twice, 3.0, name="product")
    metadata = ax.RunMetadata()
    options = ax.RunOptions(trace_level=ax.RunOptions.FULL_TRACE, output_partition_graphs=True)

    async with cluster.session("worker", 0, graph) as session:
        await session.run(y, {x: 1.0}, options=options, run_metadata=metadata)

    nodes = {
        device.device: [n.node_name for n in device.node_stats] for device in metadata.step_stats.dev_stats
    }
    assert "product" in nodes["/job:worker/replica:0/task:2/device:CPU:0"]
    assert "sum" in nodes["/job:worker/replica:0/task:1/device:CPU:0"]
    assert len(metadata.partition_graphs) == 3


async def test_a_task_that_has_nothing_left_of_a_step_gets_no_cleanup_call(cluster, monkeypatch):
    sent: list[str] = []
    send = RemoteSessions.send

    def noting(self, task, name, **fields):
        sent.append(name)
        send(self, task, name, **fields)

    monkeypatch.setattr(RemoteSessions, "send", noting)
    graph = ax.Graph()
    with graph.as_default():
        x = ax.placeholder(ax.float32, [], name="x")
        with on(1):
            doubled = ax.multiply(x, 2.0)
            failing = ax.check_numerics(doubled, "no number")
        with on(2):
            result = ax.add(doubled, 1.0)

    async with cluster.session("worker", 0, graph) as session:
        for _ in range(20):
            assert await session.run(result, {x: 3.0}) == 7.0
        assert len(sent) < 20  # of the 40 there may be
        assert [len(server.worker.steps) for server in cluster.servers] == [0, 0, 0]

        sent.clear()
        with pytest.raises(ax.errors.InvalidArgumentError):
            await session.run(failing, {x: np.nan})
        assert "CleanupGraph" in sent
