"""`TensorArray` in graphs: the nodes and static shapes of its methods, in loops and branches, and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_any_op, apply_op
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from tests.tiers import Tier, tier as tier

X = np.array([[0.5, -1.0], [2.0, 0.25], [1.5, 3.0]], np.float32)


@pytest.fixture(autouse=True)
def graph() -> Iterator[Graph]:
    with Graph().as_default() as made:
        yield made


@pytest.fixture
def x() -> Tensor:
    return ax.placeholder(ax.float32, X.shape)


def array(size: Any = 3, **options: Any) -> ax.TensorArray:
    return ax.TensorArray(ax.float32, size, **options)


async def test_every_way_in_and_out(tier: Tier, graph: Graph, x: Tensor):
    rows = array(clear_after_read=False).unstack(x)
    written = array().write(2, x[0]).write(0, x[1]).write(1, x[2])
    scattered = array(5, element_shape=[2]).scatter([4, 0, 1], x)
    parts = ax.TensorArray(ax.float32, 2, infer_shape=False).split(x, [1, 2])
    fetches = {
        "stack": written.stack(),
        "read": rows.read(1),
        "gather": rows.gather([2, 2, 0]),
        "zeros": scattered.stack(),
        "concat": parts.concat(),
        "size": [rows.size(), array(0, dynamic_size=True).write(6, x).size()],
        "later": rows.identity().read(0),
    }
    async with tier.session(graph) as session:
        results = [await session.run(fetches, {x: X}) for _ in range(3)]

    for found in results:
        np.testing.assert_array_equal(found["stack"], X[[1, 2, 0]])
        np.testing.assert_array_equal(found["read"], X[1])
        np.testing.assert_array_equal(found["gather"], X[[2, 2, 0]])
        np.testing.assert_array_equal(found["zeros"], [X[1], X[2], [0, 0], [0, 0], X[0]])
        np.testing.assert_array_equal(found["concat"], X)
        assert found["size"] == [3, 7]
        np.testing.assert_array_equal(found["later"], X[0])


def test_what_is_known_of_shapes(x: Tensor):
    rows = array().unstack(x)
    grows = array(0, dynamic_size=True).write(0, x[0])

    assert rows.element_shape.as_list() == [2]
    assert rows.stack().shape.as_list() == [3, 2]
    assert rows.concat().shape.as_list() == [6]
    assert rows.gather([1]).shape.as_list() == [1, 2]
    assert grows.stack().shape.as_list() == [None, 2]
    assert (rows.dynamic_size, grows.dynamic_size) == (False, True)
    with pytest.raises(GraphValueError, match=r"Inconsistent shapes: saw \(3,\) but expected \(2,\)"):
        rows.write(0, [1.0, 2.0, 3.0])
    assert array(infer_shape=False).write(0, x).read(0).shape.ndims is None


def test_arguments_that_do_not_fit_together():
    handle = array().handle

    with pytest.raises(GraphValueError, match="Size must be provided if handle is not provided"):
        ax.TensorArray(ax.float32)
    with pytest.raises(GraphTypeError, match="Handle must be a Tensor"):
        ax.TensorArray(ax.float32, handle=3)
    for options in ({"size": 3}, {"dynamic_size": True}, {"clear_after_read": False}):
        with pytest.raises(GraphValueError, match=f"both a handle and {next(iter(options))}"):
            ax.TensorArray(ax.float32, handle=handle, **options)


async def test_an_array_is_a_loop_variable_and_a_result_of_branches(tier: Tier, graph: Graph, x: Tensor):
    reverses = ax.placeholder(ax.bool, [])

    def body(i: Tensor, held: ax.TensorArray) -> Any:
        index = ax.cond(reverses, lambda: 2 - i, lambda: i)
        return i + 1, held.write(index, x[i] * 2.0)

    _, looped = ax.while_loop(lambda i, held: i < 3, body, [0, array()])
    chosen = array()
    chosen = ax.cond(reverses, lambda: chosen.scatter([2, 1, 0], x), lambda: chosen.unstack(x))
    fetches = [looped.stack(), chosen.stack()]
    async with tier.session(graph) as session:
        for order, choice in (([2, 1, 0], True), ([0, 1, 2], False)):
            doubled, same = await session.run(fetches, {x: X, reverses: choice})

            np.testing.assert_array_equal(doubled, 2 * X[order])
            np.testing.assert_array_equal(same, X[order])


def test_a_loop_takes_an_array_with_and_without_an_invariant():
    def body(i: Tensor, held: ax.TensorArray) -> Any:
        return i + 1, held.write(i, 1.0)

    for invariants in (None, [ax.constant(0).shape, ax.constant(0.0).shape]):
        result = ax.while_loop(lambda i, held: i < 3, body, [0, array()], shape_invariants=invariants)

        assert isinstance(result[1], ax.TensorArray)
        assert result[1].stack().shape.as_list() == [3]


def test_a_sparse_tensor_may_have_more_elements_after_a_round():
    def body(i: Tensor, held: ax.SparseTensor) -> Any:
        return i + 1, ax.SparseTensor(
            ax.concat([held.indices] * 2, 0), ax.concat([held.values] * 2, 0), held.dense_shape
        )

    sparse = ax.SparseTensor([[0]], [1.0], [2])
    found = ax.while_loop(lambda i, held: i < 3, body, [0, sparse])[1]

    assert isinstance(found, ax.SparseTensor)
    assert found.values.shape.as_list() == [None]


async def test_gradients_of_a_gradient(tier: Tier, graph: Graph, x: Tensor):
    rows = array(clear_after_read=False).unstack(x * x)
    y = rows.read(0) * rows.read(1) + rows.read(0)
    (dx,) = ax.gradients(y, x)
    (dxx,) = ax.gradients(dx, x)
    async with tier.session(graph) as session:
        first, second = await session.run([dx, dxx], {x: X})

    a, b = X[0], X[1]
    np.testing.assert_allclose(first, [2 * a * (b * b + 1), 2 * b * a * a, 0 * a], rtol=1e-6)
    np.testing.assert_allclose(second, [2 * (b * b + 1) + 4 * a * b, 2 * a * a + 4 * a * b, 0 * a], rtol=1e-6)


async def test_two_gradients_by_one_array_do_not_mix(tier: Tier, graph: Graph, x: Tensor):
    y = array().unstack(x).stack()
    (one,), (other,) = ax.gradients(y, x), ax.gradients(y * 3.0, x, name="gradients_of_mine")
    async with tier.session(graph) as session:
        found = await session.run([one, other], {x: X})

    np.testing.assert_array_equal(found, [np.ones_like(X), 3 * np.ones_like(X)])


async def test_an_array_is_gone_with_its_step(tier: Tier, graph: Graph, x: Tensor):
    held = array().write(0, x[0])
    fetches = [held.handle, held.flow]
    async with tier.session(graph) as session:
        first, second = [(await session.run(fetches, {x: X}))[0].item() for _ in range(2)]

    assert first is not second
    assert first.elements[0].is_written
    assert second.elements[0].is_written


@pytest.mark.parametrize("version", ["", "V2"])
async def test_the_older_versions_do_the_same(version: str, tier: Tier, graph: Graph, x: Tensor):
    flow = ax.constant(0.0)
    made = apply_any_op(f"TensorArray{version}", 3, dtype=ax.float32)
    flow = apply_any_op(f"TensorArrayScatter{version}", made, [2, 0, 1], x, flow)
    parts = apply_any_op(f"TensorArray{version}", 2, dtype=ax.float32)
    split = apply_any_op(f"TensorArraySplit{version}", parts, x, np.array([1, 2]), 0.0)
    one = apply_any_op(f"TensorArray{version}", 1, dtype=ax.float32)
    wrote = apply_any_op(f"TensorArrayWrite{version}", one, 0, x, 0.0)
    y = [
        apply_any_op(f"TensorArrayGather{version}", made, [0, 1, 2], flow, dtype=ax.float32),
        apply_any_op(f"TensorArrayConcat{version}", parts, split, dtype=ax.float32)[0],
        apply_any_op(f"TensorArrayRead{version}", one, 0, wrote, dtype=ax.float32),
    ]
    sizes = [apply_any_op(f"TensorArraySize{version}", each, 0.0) for each in (made, parts, one)]
    dx = [ax.gradients(each * each, x)[0] for each in y]
    closed = apply_any_op(
        f"TensorArrayClose{version}", apply_any_op(f"TensorArray{version}", 1, dtype=ax.float32)
    )
    async with tier.session(graph) as session:
        found, gradients, counts, _ = await session.run([y, dx, sizes, closed], {x: X})

    np.testing.assert_array_equal(found, [X[[1, 2, 0]], X, X])
    np.testing.assert_array_equal(gradients, [2 * X] * 3)
    assert counts == [3, 2, 1]


async def test_the_first_version_packs_and_unpacks(tier: Tier, graph: Graph, x: Tensor):
    made = apply_op("TensorArray", 3, dtype=ax.float32)
    flow = apply_op("TensorArrayUnpack", made, x, 0.0)
    packed = apply_op("TensorArrayPack", made, flow, dtype=ax.float32)
    async with tier.session(graph) as session:
        np.testing.assert_array_equal(await session.run(packed, {x: X}), X)


async def test_errors_name_the_node(tier: Tier, graph: Graph, x: Tensor):
    once = array().write(0, x)
    twice = once.write(0, x, name="again")
    async with tier.session(graph) as session:
        with pytest.raises(InvalidArgumentError, match=r"'again/again' .* has already been written to"):
            await session.run(twice.flow, {x: X})


async def test_an_unwritten_gradient_is_zeros_where_there_was_an_element_and_else_of_no_shape(
    tier: Tier, graph: Graph, x: Tensor
):
    of = {"dtype": ax.float32}
    forward = array(3, infer_shape=False, clear_after_read=True).write(0, x[0]).write(1, x[1])
    with graph.control_dependencies([forward.read(1)]):
        handle, flow = graph.create_op(
            "TensorArrayGradV3", [forward.handle, forward.flow], attrs={"source": "mine"}
        ).outputs
    added = apply_op("TensorArrayWriteV3", handle, 0, x[2], flow)
    twice = apply_op(
        "TensorArrayWriteV3", handle, 1, x[2], apply_op("TensorArrayWriteV3", handle, 1, x[2], added)
    )
    present = [apply_op("TensorArrayReadV3", handle, k, added, **of) for k in (0, 1)]
    sums = apply_op("TensorArrayReadV3", handle, 1, twice, **of)
    missing = apply_op("TensorArrayReadV3", handle, 2, added, **of)
    gathered = apply_op("TensorArrayGatherV3", handle, [0, 1, 2], added, **of)

    async with tier.session(graph) as session:
        np.testing.assert_array_equal(await session.run(present, {x: X}), [X[2], [0, 0]])
        np.testing.assert_array_equal(await session.run(sums, {x: X}), 2 * X[2])
        for nothing in (missing, gathered):
            with pytest.raises(InvalidArgumentError, match="Could not read from"):
                await session.run(nothing, {x: X})


async def test_a_gradient_is_read_once_and_not_added_to_after_that(tier: Tier, graph: Graph, x: Tensor):
    of = {"dtype": ax.float32}
    forward = array(2).unstack(x[:2])
    handle, flow = graph.create_op(
        "TensorArrayGradV3", [forward.handle, forward.flow], attrs={"source": "mine"}
    ).outputs
    added = apply_op("TensorArrayScatterV3", handle, [0, 1], x[1:], flow)
    first = apply_op("TensorArrayReadV3", handle, 0, added, **of)
    with graph.control_dependencies([first]):
        again = apply_op("TensorArrayReadV3", handle, 0, added, **of)
        late = apply_op("TensorArrayWriteV3", handle, 0, x[0], added)
        late_rows = apply_op("TensorArrayScatterV3", handle, [0, 1], x[1:], added)
        other = apply_op("TensorArrayReadV3", handle, 1, added, **of)

    async with tier.session(graph) as session:
        np.testing.assert_array_equal(await session.run([first, other], {x: X}), X[1:])
        for refused in (again, late, late_rows):
            with pytest.raises(InvalidArgumentError, match="Could not"):
                await session.run([first, refused], {x: X})
