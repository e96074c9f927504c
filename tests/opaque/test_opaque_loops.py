"""Loops and conditionals on an opaque device: what decides is computed on the host where it follows from values there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InternalError, ResourceExhaustedError
from aioexec.testing.opaque_device import OpaqueDevice, OpaqueDeviceFactory
from tests.planning.test_random_loops import Program
from tests.tiers import graph, session_on

X = np.array([0.5, -1.0, 2.0], np.float32)


@pytest.fixture(autouse=True)
def programs(opaque: OpaqueDeviceFactory) -> OpaqueDeviceFactory:
    """Devices with programs."""
    opaque.has_programs = True
    return opaque


class Counts:
    """What a device did: pieces of work, and copies in each direction."""

    def __init__(self, device: OpaqueDevice, monkeypatch: pytest.MonkeyPatch) -> None:
        self._device = device
        self.copies_in = self.copies_out = 0
        copy_in, copy_out = device.copy_in, device.copy_out

        def counted_in(value: Any) -> Any:
            self.copies_in += 1
            return copy_in(value)

        def counted_out(buffer: Any) -> Any:
            self.copies_out += 1
            return copy_out(buffer)

        monkeypatch.setattr(device, "copy_in", counted_in)
        monkeypatch.setattr(device, "copy_out", counted_out)
        self._before = device.launches

    @property
    def launches(self) -> int:
        return self._device.launches - self._before


def counted(count: Any, x: Any, at_once: int = 10) -> Any:
    """A loop of which the counter is used for its condition alone."""
    return ax.while_loop(
        lambda i, y: i < count, lambda i, y: (i + 1, ax.sin(y) + x), [0, x], parallel_iterations=at_once
    )[1]


def indexed(x: Any) -> Any:
    """A loop that computes with its counter on the device."""
    return ax.while_loop(
        lambda i, y: i < 8, lambda i, y: (i + 2, ax.sin(y) * ax.cast(i, ax.float32) + x), [0, x]
    )[1]


def nested(x: Any) -> Any:
    return ax.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, counted(i, y)), [0, x])[1]


def branching(x: Any) -> Any:
    """A conditional on the counter in each iteration."""
    return ax.while_loop(
        lambda i, y: i < 8,
        lambda i, y: (i + 1, ax.cond(ax.equal(i % 3, 0), lambda: ax.sin(y) + x, lambda: ax.negative(y))),
        [0, x],
    )[1]


def in_a_branch(x: Any) -> Any:
    """A loop in the branch that the length selects."""
    y = ax.negative(x)
    return ax.cond(ax.shape(x)[0] > 2, lambda: counted(8, y), lambda: y)


COUNTED: dict[str, tuple[Callable[[Any], Any], int]] = {
    "counted": (lambda x: counted(8, x), 8),
    "to the length of the input": (lambda x: counted(ax.shape(x)[0], x), 3),
    "indexed": (indexed, 4),
    "nested": (nested, 6),
    "branching": (branching, 8),
    "in a branch": (in_a_branch, 9),
}
"""Functions of a vector, and how many programs run in a step."""


async def on_processor(g: ax.Graph, fetch: Any, x: Any) -> Any:
    config = ax.ConfigProto(device_count={"OPAQUE": 0})
    config.aioexec.jit = "off"
    async with ax.Session(graph=g, config=config) as session:
        return await session.run(fetch, {x: X})


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("seed", range(3))
async def test_a_loop_with_a_counter_copies_nothing_to_the_host(
    programs: OpaqueDeviceFactory, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
):
    programs.seed = seed
    function, expected = COUNTED[kind]
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = function(x)
    wanted = await on_processor(g, y, x)

    async with session_on(g, "eager") as session:
        await session.run(y, {x: X})
        counts = Counts(programs.made[0], monkeypatch)
        found = await session.run(y, {x: X})

    np.testing.assert_array_equal(found, wanted)
    assert counts.copies_out == 1  # the fetch
    assert counts.launches == expected


async def test_a_shape_that_follows_from_dimensions_is_not_copied_to_the_host(
    programs: OpaqueDeviceFactory, monkeypatch: pytest.MonkeyPatch
):
    with graph() as g:
        x = ax.placeholder(ax.float32, [None, 2, 3])
        middle = ax.sin(x)
        y = ax.negative(ax.reshape(middle, ax.stack([ax.shape(middle)[0] * 2, -1])))
    given = np.arange(24, dtype=np.float32).reshape(4, 2, 3)

    async with session_on(g, "eager") as session:
        await session.run(y, {x: given})
        counts = Counts(programs.made[0], monkeypatch)
        found = await session.run(y, {x: given})

    np.testing.assert_allclose(found, -np.sin(given).reshape(8, 3), rtol=1e-6)
    assert (counts.launches, counts.copies_out) == (1, 1)


async def test_constants_of_a_branch_are_on_the_device_once_for_all_steps(
    programs: OpaqueDeviceFactory, monkeypatch: pytest.MonkeyPatch
):
    with graph() as g:
        x, p = ax.placeholder(ax.float32, [3]), ax.placeholder(ax.bool, [])
        y = ax.cond(p, lambda: ax.sin(x) * ax.constant([1.0, 2.0, 3.0]), lambda: ax.reduce_sum(x, 0) + x)

    async with session_on(g, "eager") as session:
        for value, expected in [(True, np.sin(X) * [1, 2, 3]), (False, X.sum() + X)] * 2:
            np.testing.assert_allclose(await session.run(y, {x: X, p: value}), expected, rtol=1e-6)
        counts = Counts(programs.made[0], monkeypatch)
        for value in (True, False):
            await session.run(y, {x: X, p: value})
        assert counts.copies_in <= 4  # x in both steps, and maybe the predicate


async def test_a_loop_whose_condition_is_on_the_device_copies_it_alone(
    programs: OpaqueDeviceFactory, monkeypatch: pytest.MonkeyPatch
):
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = ax.while_loop(lambda y: ax.reduce_sum(y) < 100.0, lambda y: y * 2.0 + 1.0, [x])
    values = [X]
    while values[-1].sum() < 100:
        values.append(values[-1] * 2 + 1)

    async with session_on(g, "eager") as session:
        await session.run(y, {x: X})
        counts = Counts(programs.made[0], monkeypatch)
        np.testing.assert_array_equal(await session.run(y, {x: X}), values[-1])

    assert counts.copies_out == len(values) + 1
    assert counts.launches == len(values) + len(values) - 1


@pytest.mark.parametrize("count", [0, 1, 100])
async def test_any_number_of_iterations_has_one_program(
    programs: OpaqueDeviceFactory, count: int, monkeypatch: pytest.MonkeyPatch
):
    compiled: list[Any] = []
    compile_one = OpaqueDevice.compile

    def compile_counted(device: OpaqueDevice, recording: Any) -> Any:
        compiled.append(recording)
        return compile_one(device, recording)

    monkeypatch.setattr(OpaqueDevice, "compile", compile_counted)
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = counted(count, x)
    expected = X
    for _ in range(count):
        expected = np.sin(expected) + X

    async with session_on(g, "eager") as session:
        np.testing.assert_allclose(await session.run(y, {x: X}), expected, rtol=1e-5)

    assert len(compiled) == (count > 0)


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.sweep] if seed >= 12 else []) for seed in range(200)]
)
async def test_random_loops_have_the_values_that_they_have_on_the_processor(
    programs: OpaqueDeviceFactory, seed: int
):
    programs.seed = seed
    program = Program(seed)
    found = await program.values(0, "eager")
    programs.count = 0

    for one, other in zip(found, await program.values(0, "off"), strict=True):
        np.testing.assert_array_equal(one, other)


# What goes wrong


@pytest.mark.parametrize("turns", range(0, 60, 4))
async def test_a_cancelled_loop_gives_its_memory_back(programs: OpaqueDeviceFactory, turns: int):
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = indexed(x)
    wanted = await on_processor(g, y, x)
    async with session_on(g, "eager") as session:
        await session.run(y, {x: X})
        (device,) = programs.made
        before = device.used
        task = asyncio.create_task(session.run(y, {x: X}))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert device.used == before
        assert not any(device._streams.values())
        np.testing.assert_array_equal(await session.run(y, {x: X}), wanted)


@pytest.mark.parametrize("k", range(1, 5))
async def test_an_iteration_that_fails_ends_the_step(programs: OpaqueDeviceFactory, k: int):
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = counted(4, x)
    wanted = await on_processor(g, y, x)
    async with session_on(g, "eager") as session:
        await session.run(y, {x: X})
        (device,) = programs.made
        before = device.used
        device.fails_at = device.launches + k
        with pytest.raises(InternalError, match=r"while/.*OPAQUE:0.*aborted"):
            await session.run(y, {x: X})
        assert device.used == before
        np.testing.assert_array_equal(await session.run(y, {x: X}), wanted)


@pytest.mark.parametrize("at_once", [1, 2, 5])
async def test_a_loop_needs_memory_for_as_many_iterations_as_may_run_at_once(
    programs: OpaqueDeviceFactory, at_once: int
):
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = counted(100, x, at_once)
    wanted = await on_processor(g, y, x)
    async with session_on(g, "eager") as session:
        await session.run(y, {x: X})
        (device,) = programs.made
        before = device.used
        device.limit = before + X.nbytes
        with pytest.raises(ResourceExhaustedError, match=r"shape \[3\] and type float32"):
            await session.run(y, {x: X})
        assert device.used == before
        device.limit = before + (at_once + 4) * X.nbytes
        np.testing.assert_array_equal(await session.run(y, {x: X}), wanted)
        assert device.used == before
