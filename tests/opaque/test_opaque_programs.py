"""Whole programs on an opaque device: control flow, training, queues, partial runs, checkpoints; in many orders of its work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.sessions.random_programs import Program


async def test_conditionals_take_their_branch(opaque: OpaqueDeviceFactory):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        y = ax.cond(ax.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0)
    async with ax.Session(graph=graph) as session:
        np.testing.assert_array_equal(await session.run(y, {x: [1, 2]}), [2, 4])
        np.testing.assert_array_equal(await session.run(y, {x: [-1, 0]}), [-2, -1])


async def test_loops_and_their_gradients(opaque: OpaqueDeviceFactory):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        _, y = ax.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * x), [0, ax.ones([2])])
        (slope,) = ax.gradients(y, [x])
    async with ax.Session(graph=graph) as session:
        value, found = await session.run([y, slope], {x: [2, 3]})
    np.testing.assert_allclose(value, [8, 27])
    np.testing.assert_allclose(found, [12, 27])


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", ["GradientDescentOptimizer", "AdamOptimizer", "MomentumOptimizer"])
async def test_training_is_that_of_the_processor(
    opaque: OpaqueDeviceFactory, optimizer: str, use_resource: bool
):
    arguments: dict[str, Any] = {"momentum": 0.9} if optimizer == "MomentumOptimizer" else {}
    generator = np.random.default_rng(3)
    inputs = generator.normal(size=(16, 4)).astype(np.float32)
    labels = generator.integers(0, 3, 16)
    losses: dict[str, list[float]] = {}
    for device in ("/device:CPU:0", "/device:OPAQUE:0"):
        with ax.Graph().as_default() as graph, graph.device(device):
            x, y = ax.placeholder(ax.float32, [None, 4]), ax.placeholder(ax.int64, [None])
            start = np.linspace(-0.5, 0.5, 12, dtype=np.float32).reshape(4, 3)
            weights = ax.Variable(start, use_resource=use_resource)
            bias = ax.Variable(np.zeros(3, np.float32), use_resource=use_resource)
            logits = ax.matmul(x, weights) + bias
            loss = ax.reduce_mean(ax.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
            step = getattr(ax.train, optimizer)(0.1, **arguments).minimize(loss)
            init = ax.global_variables_initializer()
        config = ax.ConfigProto(allow_soft_placement=True)
        async with ax.Session(graph=graph, config=config) as session:
            await session.run(init)
            losses[device] = [(await session.run([loss, step], {x: inputs, y: labels}))[0] for _ in range(10)]
    np.testing.assert_allclose(losses["/device:OPAQUE:0"], losses["/device:CPU:0"], rtol=1e-5)
    assert losses["/device:OPAQUE:0"][-1] < losses["/device:OPAQUE:0"][0]


async def test_queues_take_and_give_values_of_the_device(opaque: OpaqueDeviceFactory):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        queue = ax.FIFOQueue(3, [ax.float32], [[2]])
        enqueue, dequeued = queue.enqueue(x * 2.0), queue.dequeue() + 1.0
    async with ax.Session(graph=graph, config=ax.ConfigProto(allow_soft_placement=True)) as session:
        await session.run(enqueue, {x: [1, 2]})
        np.testing.assert_array_equal(await session.run(dequeued), [3, 5])


async def test_partial_runs(opaque: OpaqueDeviceFactory):
    with ax.Graph().as_default() as graph:
        a, b = ax.placeholder(ax.float32, []), ax.placeholder(ax.float32, [])
        first = a + 1.0
        second = first * b
    async with ax.Session(graph=graph) as session:
        handle = await session.partial_run_setup([first, second], [a, b])
        assert await session.partial_run(handle, first, {a: 1}) == 2
        assert await session.partial_run(handle, second, {b: 5}) == 10


async def test_checkpoints(opaque: OpaqueDeviceFactory, tmp_path: Path):
    with ax.Graph().as_default() as graph:
        variable = ax.Variable([1.0, 2.0], name="v")
        double = variable.assign(variable * 2.0)
        saver, init = ax.train.Saver(), ax.global_variables_initializer()
    config = ax.ConfigProto(allow_soft_placement=True)
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(init)
        await session.run(double)
        path = await saver.save(session, str(tmp_path / "model"))
        await session.run(double)
        np.testing.assert_array_equal(await session.run(variable), [4, 8])
        await saver.restore(session, path)
        np.testing.assert_array_equal(await session.run(variable), [2, 4])


async def test_values_go_from_one_device_to_another(opaque: OpaqueDeviceFactory):
    opaque.count = 2
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        with graph.device("/device:OPAQUE:0"):
            there = x * 2.0
        with graph.device("/device:OPAQUE:1"):
            back = there + 1.0
        with graph.device("/device:OPAQUE:0"):
            end = back * there
    async with ax.Session(graph=graph) as session:
        np.testing.assert_array_equal(await session.run(end, {x: [1, 2]}), [6, 20])


@pytest.mark.parametrize("first", [0, 20, 160, 1260])
async def test_every_order_gives_the_same_values(opaque: OpaqueDeviceFactory, first: int):
    """Random programs with loops, conditionals and two devices, each seed with an order of its own.

    Seed 172 has a conditional in one of three partitions, in each of which a part of its conditions is known; seed 1275 a loop
    that keeps a variable, inside of a loop that is not entered.
    """
    await check_orders(opaque, range(first, first + 20))


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(k, marks=pytest.mark.sweep) for k in range(25, 500, 25))]
)
async def test_every_order_of_copies_between_two_devices_gives_the_same_values(
    opaque: OpaqueDeviceFactory, first: int
):
    opaque.count = 2
    devices = ["/device:OPAQUE:0", "/device:OPAQUE:1", "/cpu:0"]
    await check_orders(opaque, range(first, first + 25), devices)


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(0, 2000, 100))
async def test_two_thousand_orders(opaque: OpaqueDeviceFactory, first: int):
    await check_orders(opaque, range(first, first + 100))


async def check_orders(
    opaque: OpaqueDeviceFactory, seeds: range, devices: Sequence[str] = ("/cpu:0", "/cpu:1")
) -> None:
    launches = 0
    for seed in seeds:
        random = Random(seed)
        opaque.seed = seed
        with ax.Graph().as_default() as graph:
            program = Program(random, devices)
        config = ax.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
        async with ax.Session(graph=graph, config=config) as session:
            for _ in range(2):
                given = [random.randrange(-5, 6) for _ in program.feeds]
                tensors = [tensor for tensor, _ in program.outputs]
                found = await session.run(tensors, dict(zip(program.feeds, given, strict=True)))
                wanted = [meaning(dict(enumerate(given))) for _, meaning in program.outputs]
                assert [int(each) for each in found] == wanted, seed
            launches += sum(device.launches for device in opaque.made)
    assert launches > len(seeds)
