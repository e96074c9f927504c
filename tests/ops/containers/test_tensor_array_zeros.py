"""Unwritten elements of TensorArrays and TensorLists: TensorFlow's values, on every tier."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from aioexec.ops.array.identity import placeholder
from tests.campaigns.tensor_arrays import on_tier
from tests.ops.containers.tensor_array_programs import drawn
from tests.tiers import Tier, tier as tier

RUNS = 3  # the later ones are by programs
OF = {"dtype": ax.float32}


@pytest.fixture(autouse=True)
def graph() -> Iterator[Graph]:
    with Graph().as_default() as made:
        yield made


@pytest.fixture
def x(graph: Graph) -> Tensor:
    return placeholder(ax.float32, name="x")


@pytest.fixture
def rounds(graph: Graph) -> Tensor:
    return placeholder(ax.int32, [], name="rounds")


def written_in_a_loop(array: ax.TensorArray, x: Tensor, rounds: Tensor) -> ax.TensorArray:
    _, array = ax.while_loop(
        lambda i, array: i < rounds, lambda i, array: (i + 1, array.write(i, x)), (ax.constant(0), array)
    )
    return array


@pytest.mark.parametrize(("size", "error"), [(0, UnimplementedError), (2, InvalidArgumentError)])
@pytest.mark.parametrize("infers", [True, False])
async def test_a_loop_of_no_rounds_leaves_elements_of_unknown_shapes(
    size: int, error: type[Exception], infers: bool, tier: Tier, graph: Graph, x: Tensor, rounds: Tensor
):
    array = written_in_a_loop(ax.TensorArray(ax.float32, size, infer_shape=infers), x, rounds).stack()

    async with tier.session(graph) as session:
        for _ in range(RUNS):
            with pytest.raises(error):
                await session.run(array, {x: [1.0, 2.0], rounds: 0})


async def test_one_element_gives_the_shape_of_all_if_they_are_alike(
    tier: Tier, graph: Graph, x: Tensor, rounds: Tensor
):
    alike, other = (
        written_in_a_loop(ax.TensorArray(ax.float32, 2, infer_shape=infers), x, rounds).stack()
        for infers in (True, False)
    )

    async with tier.session(graph) as session:
        for _ in range(RUNS):
            found = await session.run(alike, {x: [1.0, 2.0], rounds: 1})
            np.testing.assert_array_equal(found, [[1, 2], [0, 0]])
            with pytest.raises(InvalidArgumentError, match="Could not read"):
                await session.run(other, {x: [1.0, 2.0], rounds: 1})


async def test_a_read_that_gives_the_shape_gives_it_for_later_ones(tier: Tier, graph: Graph, x: Tensor):
    array = ax.TensorArray(ax.float32, 2, infer_shape=False, clear_after_read=False).write(0, x)
    before = array.read(1)
    stacked = apply_op(
        "TensorArrayGatherV3", array.handle, [0, 1], array.flow, element_shape=ax.TensorShape([2]), **OF
    )
    with graph.control_dependencies([stacked]):
        after = array.read(1)
        late = array.write(1, x).flow

    async with tier.session(graph) as session:
        for _ in range(RUNS):
            np.testing.assert_array_equal(await session.run(after, {x: [1.0, 2.0]}), [0, 0])
            with pytest.raises(InvalidArgumentError, match="Could not read"):
                await session.run(before, {x: [1.0, 2.0]})
            with pytest.raises(InvalidArgumentError, match="Could not write"):
                await session.run(late, {x: [1.0, 2.0]})


async def test_a_read_of_another_shape_than_that_of_the_array_is_refused(tier: Tier, graph: Graph):
    array = ax.TensorArray(ax.float32, 0, element_shape=[2])
    nothing = apply_op(
        "TensorArrayGatherV3",
        array.handle,
        ax.constant([], ax.int32),
        array.flow,
        element_shape=ax.TensorShape([3]),
        **OF,
    )

    async with tier.session(graph) as session:
        for _ in range(RUNS):
            with pytest.raises(InvalidArgumentError, match="Incompatible shapes during merge"):
                await session.run(nothing)


@pytest.mark.parametrize("count", [0, 2])
async def test_a_list_that_a_loop_of_no_rounds_sets_has_elements_of_unknown_shapes(
    count: int, tier: Tier, graph: Graph, x: Tensor, rounds: Tensor
):
    reserved = apply_op("TensorListReserve", -1, count, element_dtype=ax.float32)
    _, filled = ax.while_loop(
        lambda i, handle: i < rounds,
        lambda i, handle: (i + 1, apply_op("TensorListSetItem", handle, i, x)),
        (ax.constant(0), reserved),
    )
    stacked = apply_op("TensorListStack", filled, -1, element_dtype=ax.float32)

    async with tier.session(graph) as session:
        for _ in range(RUNS):
            with pytest.raises(InvalidArgumentError, match="non-fully-defined"):
                await session.run(stacked, {x: [1.0, 2.0], rounds: 0})
            if count:
                found = await session.run(stacked, {x: [1.0, 2.0], rounds: 1})
                np.testing.assert_array_equal(found, [[1, 2], [0, 0]])


def test_the_shape_of_an_array_is_inferred_only_on_request(x: Tensor):
    said = ax.TensorArray(ax.float32, 2, element_shape=[None], infer_shape=False).write(0, ax.constant([1.0]))

    assert said.stack().shape.as_list() == [2, None]
    assert said.concat().shape.as_list() == [None]
    with pytest.raises(ValueError, match="Inconsistent shapes"):
        said.write(1, 1.0)


@pytest.mark.slow
async def test_random_programs_give_the_same_on_every_tier(tier: Tier):
    for seed in range(20):
        program = drawn(seed)
        assert await on_tier(program, "eager" if tier.is_native else "off") == await on_tier(program, "off")
