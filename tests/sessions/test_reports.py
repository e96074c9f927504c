"""Reports on a step: times of its nodes, its partitions, its costs; and the counters of the process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.errors import GraphTypeError, InvalidArgumentError, ResourceExhaustedError
from aioexec.formats.protos import ConfigProto, RunMetadata, RunOptions
from aioexec.observability import metrics
from aioexec.sessions.session import Session
from tests.sessions.direct_sessions import direct
from tests.tiers import Ops, Tier, constant, feed, graph, op, session_on

FULL = RunOptions(trace_level=RunOptions.FULL_TRACE)


def config(**fields: Any) -> ConfigProto:
    made = ConfigProto(**fields)
    made.aioexec.jit = "off"
    return made


@pytest.mark.behaviour(38, 77)
async def test_a_traced_step_tells_when_each_node_ran(tier: Tier):
    with graph() as g:
        x = feed([4], name="x")
        y = op("Neg", op("Mul", x, x, name="square"), name="y")
    metadata = RunMetadata()

    async with tier.session(g) as session:
        for _ in range(3):
            result = await session.run(y, {x: np.arange(4, dtype=np.float32)}, FULL, metadata)

    np.testing.assert_array_equal(result, [0, -1, -4, -9])
    (device,) = metadata.step_stats.dev_stats
    assert device.device == "/job:localhost/replica:0/task:0/device:CPU:0"
    nodes = {node.node_name: node for node in device.node_stats}
    assert {"square", "y"} <= set(nodes)
    for node in nodes.values():
        assert 0 < node.scheduled_nanos <= node.all_start_nanos
        assert node.all_end_rel_nanos >= 0


async def test_a_step_that_is_not_traced_tells_nothing_of_its_nodes():
    with graph() as g:
        a = constant(1.0)
    metadata = RunMetadata()

    async with session_on(g, "off") as session:
        await session.run(a, options=RunOptions(), run_metadata=metadata)
        assert await session.run(a, options=FULL) == 1

    assert metadata == RunMetadata()


@pytest.mark.behaviour(39)
async def test_the_partitions_that_ran_are_told_unless_the_session_forbids_it():
    with graph() as g:
        x = feed([], name="x")
        y = op("Neg", x, name="y")
    options, metadata = RunOptions(output_partition_graphs=True), RunMetadata()
    forbidding = config()
    forbidding.experimental.disable_output_partition_graphs = True

    async with session_on(g, "off") as session:
        await session.run(y, {x: 1}, options, metadata)
    async with Session(graph=g, config=forbidding) as session:
        with pytest.raises(InvalidArgumentError, match="disable_output_partition_graphs"):
            await session.run(y, {x: 1}, options, RunMetadata())

    (partition,) = metadata.partition_graphs
    assert "y" in [node.name for node in partition.node]


async def test_costs_are_learned_from_the_steps_that_are_asked_for():
    with graph() as g:
        op("Neg", feed([], name="x"), name="y")
    learning = config()
    learning.graph_options.build_cost_model = 2
    learning.graph_options.build_cost_model_after = 1
    has_costs = []

    async with direct(learning, g) as session:
        assert not session.runs_nowait
        for _ in range(5):
            metadata = RunMetadata()
            await session.run(None, [("x:0", 1.0)], ["y:0"], [], metadata)
            has_costs.append([node.name for node in metadata.cost_graph.node if node.name == "y"] == ["y"])
        (model,) = session.export_cost_models()
        (executor,) = session._by_asked.values()
        assert executor.step_count == 5

    assert has_costs == [False, False, True, False, True]
    assert model.steps == 2
    assert model.nodes["y"].count == 2


async def test_memory_that_ran_out_is_told_by_tensor_where_that_is_asked_for(ops: Ops):
    def exhaust(x: Any) -> Any:
        raise ResourceExhaustedError("OOM: too much")

    ops.broken("TestExhausts", exhaust)
    with graph() as g:
        x = feed([1000], name="x")
        y = op("TestExhausts", op("Neg", x, name="large"), name="y")
    options = RunOptions(report_tensor_allocations_upon_oom=True)

    async with session_on(g, "off") as session:
        with pytest.raises(
            ResourceExhaustedError, match=r"(?s)'y'.*OOM: too much.*3.91KiB from large"
        ) as raised:
            await session.run(y, {x: np.zeros(1000)}, options)
        assert raised.value.node == "y"
        with pytest.raises(ResourceExhaustedError) as raised:
            await session.run(y, {x: np.zeros(1000)})
    assert "large" not in str(raised.value)


async def test_what_is_no_metadata_is_refused():
    with graph() as g:
        a = constant(1.0)

    async with session_on(g, "off") as session:
        with pytest.raises(GraphTypeError, match="RunMetadata"):
            await session.run(a, run_metadata=RunOptions())


async def test_sessions_steps_errors_and_bytes_are_counted():
    with graph() as g:
        x, n = feed([8], name="x"), feed([], "int32", name="n")
        y, bad = op("Neg", x), op("FloorDiv", constant(1, "int32"), n)
    before: Any = metrics.snapshot()

    async with session_on(g, "off") as session:
        await session.run(y, {x: np.zeros(8, np.float32)})
        with pytest.raises(InvalidArgumentError):
            await session.run(bad, {n: 0})
        while_open: Any = metrics.snapshot()
    after: Any = metrics.snapshot()

    def grown(name: str) -> int:
        return after[f"aioexec_{name}"] - before[f"aioexec_{name}"]

    assert grown("sessions_total") == 1
    assert while_open["aioexec_sessions_open"] == before["aioexec_sessions_open"] + 1
    assert grown("sessions_open") == 0
    assert grown("steps_total") == 2
    assert grown("fed_bytes_total") == grown("fetched_bytes_total") == 32
    errors = [each["aioexec_step_errors_total"].get("INVALID_ARGUMENT", 0) for each in (before, after)]
    assert errors[1] - errors[0] == 1


async def test_steps_that_never_suspend_are_counted_too():
    with graph() as g:
        x = feed([8])
        y = op("Mul", x, x)
    array = np.ones(8, np.float32)

    async with session_on(g, "eager") as session:
        before: Any = metrics.snapshot()
        for _ in range(10):
            await session.run(y, {x: array})
        after: Any = metrics.snapshot()

    assert after["aioexec_steps_total"] - before["aioexec_steps_total"] == 10
