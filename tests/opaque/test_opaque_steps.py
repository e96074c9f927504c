"""Steps whose nodes run on a device with memory that the processor cannot read."""

from __future__ import annotations

import numpy as np

import aioexec as ax
from aioexec.formats.protos import RunMetadata, RunOptions
from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.tiers import constant, feed, graph, op, read, resource, session_on


async def test_values_go_in_and_come_out(opaque: OpaqueDeviceFactory):
    with graph() as g:
        x = feed([2, 2])
        y = op("Add", op("MatMul", x, constant([[1.0, 2.0], [3.0, 4.0]])), constant(1.0))

    async with session_on(g, "off") as session:
        for _ in range(3):
            found = await session.run(y, {x: np.eye(2)})
            np.testing.assert_array_equal(found, [[2, 3], [4, 5]])
        (device,) = opaque.made
        assert device.launches == 6


async def test_variables_are_read_and_written(opaque: OpaqueDeviceFactory):
    with graph() as g:
        v = resource([2])
        init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        add = op("AssignAddVariableOp", v, constant([1.0, 1.0]))
        value = read(v)

    async with session_on(g, "off") as session:
        await session.run(init)
        for _ in range(3):
            await session.run(add)
        np.testing.assert_array_equal(await session.run(value), [4, 5])


async def test_a_trace_has_every_node_with_its_device_until_its_work_has_ended(opaque: OpaqueDeviceFactory):
    with graph() as g:
        v, x = resource([2], name="v"), feed([2], name="x")
        init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        y = op("Mul", op("Exp", x, name="exp"), constant([2.0, 2.0]), name="mul")
        with g.control_dependencies([op("AssignAddVariableOp", v, y, name="add")]):
            value = op("Neg", read(v), name="neg")
        with g.device("/device:CPU:0"):
            here = op("Neg", value, name="here")
    options, metadata = RunOptions(trace_level=RunOptions.FULL_TRACE), RunMetadata()

    async with session_on(g, "off") as session:
        await session.run(init)
        await session.run(here, {x: [0, 0]}, options=options, run_metadata=metadata)

    found = {
        stats.device.rpartition("device:")[2]: stats.node_stats for stats in metadata.step_stats.dev_stats
    }
    there = {stats.node_name: stats for stats in found["OPAQUE:0"]}
    assert {"v", "exp", "mul", "add", "ReadVariableOp", "neg"} <= set(there)
    assert [name for name in there if name.startswith(("x/", "neg/"))]  # the transfers
    assert "here" in {stats.node_name for stats in found["CPU:0"]}
    ends = {name: stats.all_start_nanos + stats.all_end_rel_nanos for name, stats in there.items()}
    assert ends["exp"] < ends["mul"] < ends["add"] < ends["neg"]
    assert there["exp"].all_end_rel_nanos > 0
    (output,) = there["exp"].output
    assert [dim.size for dim in output.tensor_description.shape.dim] == [2]
    assert there["exp"].memory[0].total_bytes == 8


async def test_a_trace_of_a_loop_has_each_iteration(opaque: OpaqueDeviceFactory):
    with graph() as g:
        _, y = ax.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, op("Exp", y, name="exp")), [0, constant([0.0])]
        )
    options, metadata = RunOptions(trace_level=RunOptions.FULL_TRACE), RunMetadata()

    async with session_on(g, "off") as session:
        await session.run(y, options=options, run_metadata=metadata)

    nodes = [stats for each in metadata.step_stats.dev_stats for stats in each.node_stats]
    assert [stats.node_name for stats in nodes].count("while/exp") == 3
