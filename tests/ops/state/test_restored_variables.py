"""A restored array becomes a variable's content without a copy, if nothing else refers to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.formats.bundle_reader import BundleReader
from aioexec.graph.apply import apply_list_op, apply_no_output_op
from aioexec.resources.memory import LINE
from tests.tiers import Tier, tier as tier

SAVED = np.arange(6000, dtype=np.float32).reshape(60, 100)


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


@pytest.fixture
def read(monkeypatch) -> list[Any]:
    """The arrays that were read from checkpoints."""
    arrays: list[Any] = []
    original = BundleReader.reading

    def recording(*arguments: Any) -> Any:
        reading = original(*arguments)

        def read() -> Any:
            arrays.append(reading())
            return arrays[-1]

        return read

    monkeypatch.setattr(BundleReader, "reading", recording)
    return arrays


@pytest.fixture
def restored(tmp_path) -> tuple[ax.Tensor, ax.Operation]:
    """A tensor that is read from a checkpoint, and the node that saves what is in there."""
    prefix = str(tmp_path / "model")
    save = apply_no_output_op("SaveV2", prefix, ["v"], [""], [ax.constant(SAVED)])
    tensor: ax.Tensor = apply_list_op("RestoreV2", prefix, ["v"], [""], dtypes=[ax.float32])[0]
    return tensor, save


def made(is_resource: bool, name: str, dims: Any = SAVED.shape) -> Any:
    return ax.Variable(np.zeros(dims, np.float32), use_resource=is_resource, name=name)


async def content(session: Any, variable: Any) -> Any:
    """The object behind a variable's handle: fetching the handle returns it."""
    return (await session.run(variable.handle)).buffer


@pytest.mark.parametrize("steps", [1, 4])
async def test_what_was_read_becomes_the_content(graph, restored, read, steps, tier: Tier):
    value, save = restored
    variable = made(True, "v")
    assign = variable.assign(value, read_value=False)

    async with tier.session(graph) as session:
        await session.run(save)
        for _ in range(steps):  # a program comes with the second sight of the shapes
            await session.run(assign)
        buffer = await content(session, variable)

        assert np.shares_memory(buffer, read[-1])
        assert not any(np.shares_memory(buffer, other) for other in read[:-1])
        np.testing.assert_array_equal(await session.run(variable), SAVED)
        assert buffer.__array_interface__["data"][0] % LINE == 0


@pytest.mark.parametrize("is_resource", [True, False])
async def test_it_is_changed_in_place_afterwards_and_who_read_it_keeps_what_he_read(
    graph, restored, is_resource, tier: Tier
):
    value, save = restored
    variable = made(is_resource, "v")
    assign, add = variable.assign(value, read_value=False), variable.assign_add(np.ones_like(SAVED))

    async with tier.session(graph) as session:
        await session.run(variable.initializer)
        before = await session.run(variable)
        await session.run(save)
        await session.run(assign)
        first = await session.run(variable)
        for _ in range(3):
            await session.run(add.op)
        last = await session.run(variable)
        await session.run(assign)

        np.testing.assert_array_equal(before, np.zeros_like(SAVED))
        np.testing.assert_array_equal(first, SAVED)
        np.testing.assert_array_equal(last, SAVED + 3)
        np.testing.assert_array_equal(await session.run(variable), SAVED)


@pytest.mark.parametrize("is_resource", [True, False])
async def test_what_is_fetched_too_is_copied(graph, restored, read, is_resource, tier: Tier):
    value, save = restored
    variable = made(is_resource, "v")
    assign, add = variable.assign(value), variable.assign_add(np.ones_like(SAVED))

    async with tier.session(graph) as session:
        await session.run(save)
        for _ in range(3):
            fetched, _ = await session.run([value, assign.op])
            if is_resource:
                assert not np.shares_memory(await content(session, variable), read[-1])
            await session.run(add.op)

            np.testing.assert_array_equal(fetched, SAVED)
            np.testing.assert_array_equal(await session.run(variable), SAVED + 1)


async def test_two_variables_have_memory_of_their_own(graph, restored, read, tier: Tier):
    value, save = restored
    one, other = made(True, "one"), made(True, "other")
    both = ax.group(one.assign(value, read_value=False), other.assign(value, read_value=False))

    async with tier.session(graph) as session:
        await session.run(save)
        for _ in range(3):
            await session.run(both)

            assert not np.shares_memory(await content(session, one), await content(session, other))
            await session.run(one.assign_add(np.ones_like(SAVED)).op)
            np.testing.assert_array_equal(await session.run(other), SAVED)


async def test_what_another_node_of_the_step_looks_at_is_copied(graph, restored, tier: Tier):
    value, save = restored
    variable = made(True, "v")
    assign = variable.assign(value, read_value=False)
    with graph.control_dependencies([assign]):
        changed = variable.assign_add(np.ones_like(SAVED), read_value=False)
    with graph.control_dependencies([changed]):
        later = ax.identity(value) * 2

    async with tier.session(graph) as session:
        await session.run(save)
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(later), SAVED * 2)


async def test_what_is_fed_instead_stays_the_callers(graph, restored, tier: Tier):
    value, _ = restored
    variable = made(True, "v")
    assign, add = variable.assign(value, read_value=False), variable.assign_add(np.ones_like(SAVED))
    given = SAVED.copy()

    async with tier.session(graph) as session:
        for _ in range(3):
            await session.run(assign, {value: given})
            assert not np.shares_memory(await content(session, variable), given)
            await session.run(add.op)

    np.testing.assert_array_equal(given, SAVED)


async def test_what_a_partial_run_is_fed_stays_the_callers(graph, restored, tier: Tier):
    value, _ = restored
    variable = made(True, "v")
    assign = variable.assign(value, read_value=False)
    given = SAVED.copy()

    async with tier.session(graph) as session:
        run = await session.partial_run_setup([assign], [value])
        await session.partial_run(run, [assign], {value: given})
        assert not np.shares_memory(await content(session, variable), given)


async def test_a_value_of_another_shape_is_refused_or_taken_as_the_node_says(graph, restored, tier: Tier):
    value, save = restored
    strict, lenient = made(False, "strict", (2, 3)), made(False, "lenient", (2, 3))
    refused = ax.assign(strict, ax.placeholder_with_default(value, None), validate_shape=True)
    direct = ax.assign(strict, value, validate_shape=True)
    taken = ax.assign(lenient, value, validate_shape=False)

    async with tier.session(graph) as session:
        await session.run([strict.initializer, lenient.initializer])
        await session.run(save)
        for _ in range(3):
            for assign in (refused, direct):
                with pytest.raises(InvalidArgumentError, match="shapes of both tensors to match"):
                    await session.run(assign.op)
            await session.run(taken.op)

        np.testing.assert_array_equal(await session.run(strict), np.zeros((2, 3)))
        np.testing.assert_array_equal(await session.run(taken), SAVED)
