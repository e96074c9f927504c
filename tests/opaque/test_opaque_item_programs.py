"""Programs of an opaque device: the work of an item is recorded once, and given to the device as a whole."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import dtypes
from aioexec.errors import InternalError, InvalidArgumentError, ResourceExhaustedError, UnavailableError
from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.sessions.random_programs import Program
from tests.tiers import constant, feed, graph, op, read, resource, session_on


@pytest.fixture
def programs(opaque: OpaqueDeviceFactory) -> OpaqueDeviceFactory:
    """Devices with programs."""
    opaque.has_programs = True
    return opaque


async def launches_of(programs: OpaqueDeviceFactory, run: Any) -> int:
    """How much work the device was given by a step; 0 before there is one."""
    before = programs.made[0].launches if programs.made else 0
    await run
    return programs.made[0].launches - before


@pytest.mark.parametrize(
    ("jit", "expected"), [("off", [2, 2, 2]), ("background", [2, 1, 1]), ("eager", [1, 1, 1])]
)
async def test_a_program_is_one_piece_of_work(programs: OpaqueDeviceFactory, jit: str, expected: list[int]):
    with graph() as g:
        x = feed([2])
        y = op("Neg", op("Add", x, constant([1.0, 2.0])))
    async with session_on(g, jit) as session:
        found = [await launches_of(programs, session.run(y, {x: [k, 1]})) for k in range(3)]
        assert found == expected
        np.testing.assert_array_equal(await session.run(y, {x: [5, 1]}), [-6, -3])


async def test_nodes_with_any_feeds_are_one_program(programs: OpaqueDeviceFactory):
    with graph() as g:
        v, x, y = resource([2]), feed([2]), feed([2])
        init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        alone = op("Neg", read(v))
        both = op("Add", op("Add", alone, x), op("Neg", y))
    async with session_on(g, "eager") as session:
        await session.run(init)
        assert await launches_of(programs, session.run(both, {x: [1, 1], y: [2, 2]})) == 1
        np.testing.assert_array_equal(await session.run(both, {x: [1, 1], y: [2, 2]}), [-2, -3])
        np.testing.assert_array_equal(await session.run([alone, x], {x: [1, 1]}), [[-1, -2], [1, 1]])


async def test_each_shape_has_a_program(programs: OpaqueDeviceFactory):
    with graph() as g:
        x = feed()
        y = op("Neg", op("Neg", x))
    async with session_on(g, "background") as session:
        for count, expected in [(2, 2), (3, 2), (2, 1), (3, 1), (2, 1)]:
            assert await launches_of(programs, session.run(y, {x: [1] * count})) == expected


@pytest.mark.parametrize("seed", range(10))
async def test_variables_are_read_and_written(programs: OpaqueDeviceFactory, seed: int):
    """A value that was read before the update keeps it; two variables exchange their contents."""
    programs.seed = seed
    with graph() as g:
        v, w, x = resource([2]), resource([2]), feed([2])
        init = [
            op("AssignVariableOp", v, constant([1.0, 2.0])),
            op("AssignVariableOp", w, constant([5.0, 6.0])),
        ]
        old = [read(v), read(w)]
        with g.control_dependencies([each.op for each in old]):
            add = op("AssignAddVariableOp", v, x)
            scatter = op(
                "ResourceScatterAdd", w, constant([1], "int32"), constant([1.0]), dtype=dtypes.float32
            )
            exchange = [op("AssignVariableOp", v, old[1]), op("AssignVariableOp", w, old[0])]
        with g.control_dependencies([add, scatter]):
            new = [read(v), read(w)]
    async with session_on(g, "eager") as session:
        await session.run(init)
        for k in range(3):
            found = await session.run([*old, *new], {x: [1, 1]})
            np.testing.assert_array_equal(found, [[1 + k, 2 + k], [5, 6 + k], [2 + k, 3 + k], [5, 7 + k]])
        await session.run(exchange)
        np.testing.assert_array_equal(await session.run(old), [[5, 9], [4, 5]])


async def test_steps_share_a_program_and_come_one_after_the_other(programs: OpaqueDeviceFactory):
    with graph() as g:
        v, x = resource([2]), feed([2])
        init = op("AssignVariableOp", v, constant([0.0, 0.0]))
        add = op("AssignAddVariableOp", v, op("Neg", op("Neg", x)))
        value = read(v)
    async with session_on(g, "eager") as session:
        await session.run(init)
        await asyncio.gather(*(session.run(add, {x: [k, 1]}) for k in range(10)))
        np.testing.assert_array_equal(await session.run(value), [45, 10])


async def test_content_in_main_memory_is_part_of_the_key(programs: OpaqueDeviceFactory):
    with graph() as g:
        x, n = feed([6]), feed([2], "int32")
        y = op("Neg", op("Reshape", op("Neg", x), n))
    async with session_on(g, "background") as session:
        for shape, expected in [((2, 3), 3), ((3, 2), 3), ((2, 3), 2), ((3, 2), 2)]:
            given = {x: np.arange(6), n: shape}
            assert await launches_of(programs, session.run(y, given)) == expected
        np.testing.assert_array_equal(await session.run(y, given), np.arange(6).reshape(3, 2))


async def test_kernels_with_a_state_are_called_between_programs(programs: OpaqueDeviceFactory):
    """As the processor, the device draws other numbers in each step, of a shape that the program before has."""
    with ax.Graph().as_default() as g:
        x = ax.placeholder(ax.float32, [None])
        before = ax.negative(ax.negative(x))
        noise = ax.random_uniform(ax.shape(before), seed=3)
        y = ax.negative(ax.add(before, noise))
    found = {}
    for device in ("/device:CPU:0", "/device:OPAQUE:0"):
        config = ax.ConfigProto(allow_soft_placement=True, device_count={"OPAQUE": int("OPAQUE" in device)})
        config.aioexec.jit = "eager"
        async with ax.Session(graph=g, config=config) as session:
            found[device] = [await session.run(y, {x: [1, 2, 3]}) for _ in range(3)]
    assert not np.array_equal(found[device][0], found[device][1])
    np.testing.assert_array_equal(found["/device:OPAQUE:0"], found["/device:CPU:0"])


async def test_a_variable_may_get_another_shape(programs: OpaqueDeviceFactory):
    with ax.Graph().as_default() as g:
        x = ax.placeholder(ax.float32, [None])
        v = ax.Variable([1.0], validate_shape=False, use_resource=False)
        assign, init = (
            ax.assign(v, ax.negative(ax.negative(x)), validate_shape=False),
            ax.global_variables_initializer(),
        )
    async with session_on(g, "eager") as session:
        await session.run(init)
        for count in (1, 2, 2, 3, 1):
            np.testing.assert_array_equal(await session.run(assign, {x: [1] * count}), [1] * count)


async def test_a_traced_step_records_each_node(programs: OpaqueDeviceFactory):
    with ax.Graph().as_default() as g:
        x = ax.placeholder(ax.float32, [2])
        y = ax.negative(ax.exp(x, name="first"), name="second")
    metadata = ax.RunMetadata()
    async with session_on(g, "eager") as session:
        await session.run(y, {x: [0, 0]})
        options = ax.RunOptions(trace_level=ax.RunOptions.FULL_TRACE)
        await session.run(y, {x: [0, 0]}, options=options, run_metadata=metadata)
    names = {node.node_name for device in metadata.step_stats.dev_stats for node in device.node_stats}
    assert {"first", "second"} <= names


@pytest.mark.parametrize("first", [0, 40, 160])
async def test_every_order_gives_the_same_values(programs: OpaqueDeviceFactory, first: int):
    """Random programs, each seed with an order of its own."""
    for seed in range(first, first + 20):
        random = Random(seed)
        programs.seed = seed
        with ax.Graph().as_default() as g:
            program = Program(random)
        config = ax.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
        config.aioexec.jit = "eager"
        async with ax.Session(graph=g, config=config) as session:
            for _ in range(2):
                given = [random.randrange(-5, 6) for _ in program.feeds]
                tensors = [tensor for tensor, _ in program.outputs]
                found = await session.run(tensors, dict(zip(program.feeds, given, strict=True)))
                wanted = [meaning(dict(enumerate(given))) for _, meaning in program.outputs]
                assert [int(each) for each in found] == wanted, seed


# What goes wrong


class Update:
    """A variable to which a step adds a value; on the current default graph."""

    def __init__(self) -> None:
        v, self.x = resource([2]), feed([2])
        self.init = op("AssignVariableOp", v, constant([0.0, 0.0]))
        self.add = op("AssignAddVariableOp", v, op("Neg", op("Neg", self.x), name="first"))
        self.value = read(v)
        self.feeds = {self.x: [1, 1]}


async def test_a_program_that_fails_leaves_its_variables_and_is_made_anew(programs: OpaqueDeviceFactory):
    with graph() as g:
        update = Update()
    async with session_on(g, "eager") as session:
        await session.run(update.init)
        await session.run(update.add, update.feeds)
        (device,) = programs.made
        device.fails_at = device.launches + 1
        with pytest.raises(InternalError, match=r"Neg 'Neg.*' on .*OPAQUE:0.*aborted"):
            await session.run(update.add, update.feeds)
        np.testing.assert_array_equal(await session.run(update.value), [1, 1])
        await session.run(update.add, update.feeds)
        np.testing.assert_array_equal(await session.run(update.value), [2, 2])


async def test_the_error_of_a_program_names_the_node_that_failed(programs: OpaqueDeviceFactory):
    with graph() as g:
        x, rows = feed([3]), feed([2], "int32")
        taken = op("GatherV2", op("Neg", x, name="first"), rows, constant(0, "int32"), name="taken")
        y = op("Neg", taken, name="last")
    async with session_on(g, "eager") as session:
        for _ in range(2):
            np.testing.assert_array_equal(await session.run(y, {x: [1, 2, 3], rows: [2, 0]}), [3, 1])
            with pytest.raises(InvalidArgumentError, match=r"GatherV2 'taken' on .*OPAQUE:0"):
                await session.run(y, {x: [1, 2, 3], rows: [2, 9]})


async def test_nodes_run_one_by_one_where_memory_is_too_short_for_a_program(programs: OpaqueDeviceFactory):
    with graph() as g:
        update = Update()
    async with session_on(g, "eager") as session:
        await session.run(update.init)
        await session.run(update.add, update.feeds)
        (device,) = programs.made
        before = device.used
        device.refuses_at = device.allocations + 2  # after the feed
        assert await launches_of(programs, session.run(update.add, update.feeds)) == 3
        device.refuses_at = None
        np.testing.assert_array_equal(await session.run(update.value), [2, 2])
        assert device.used == before
        device.limit = device.used + 4
        with pytest.raises(ResourceExhaustedError):
            await session.run(update.add, update.feeds)
        assert device.used == before


async def test_a_lost_device_fails_its_programs(programs: OpaqueDeviceFactory):
    with graph() as g:
        update = Update()
    async with session_on(g, "eager") as session:
        await session.run(update.init)
        await session.run(update.add, update.feeds)
        (device,) = programs.made
        device.fails_from = device.launches + 1
        for _ in range(2):
            with pytest.raises(UnavailableError, match=r"OPAQUE:0 was lost"):
                await session.run(update.add, update.feeds)


@pytest.mark.parametrize("turns", range(0, 16, 3))
async def test_a_cancelled_step_ends_when_its_program_has(programs: OpaqueDeviceFactory, turns: int):
    with graph() as g:
        update = Update()
    async with session_on(g, "eager") as session:
        await session.run(update.init)
        await session.run(update.add, update.feeds)
        (device,) = programs.made
        before = device.used
        task = asyncio.create_task(session.run(update.add, update.feeds))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert device.used == before
        assert not any(device._streams.values())
        assert (await session.run(update.value)).tolist() in ([1, 1], [2, 2])
