"""What follows from the shapes of an item's inputs, and what does not."""

from __future__ import annotations

from typing import Any

from aioexec.planning.shape_dependence import ShapeDependence
from tests.tiers import Ops, constant, executors, feed, graph, op, read, resource, session_on


async def analysis(g: Any, fetch: Any, feeds: dict[Any, Any]) -> tuple[set[str], set[str]]:
    """The names of nodes whose work, and of those whose outputs, follow from the shapes of the feeds."""
    async with session_on(g, "off") as session:
        await session.run(fetch, feeds)
        (runner,) = [each for each in executors(session)[-1].runners if len(each.item.instructions) > 1]
        found = ShapeDependence(runner.item, runner.partition.values)
        names = [each.node.name for each in runner.item.instructions]
    return {names[k] for k in found.sized}, {names[k] for k in found.fixed}


async def test_shapes_follow_through_elementwise_nodes_and_shape_operands_made_of_shapes():
    with graph() as g:
        x = feed([None, 4])
        shape = op("Shape", op("Neg", x, name="neg"), name="shape")
        y = op(
            "Reshape",
            op("Exp", x, name="exp"),
            op("Mul", shape, constant([1, 1], "int32"), name="dims"),
            name="y",
        )

    sized, fixed = await analysis(g, y, {x: [[0.0] * 4]})

    assert sized == {"neg", "shape", "exp", "dims", "y"}
    assert fixed == {"shape", "dims"}


async def test_a_fed_shape_operand_decides_by_its_content():
    with graph() as g:
        x, dims = feed([None]), feed([1], "int32")
        y = op("Neg", op("Reshape", x, dims, name="reshape"), name="y")

    sized, fixed = await analysis(g, y, {x: [0.0, 1.0], dims: [2]})

    assert "reshape" not in sized
    assert not fixed


async def test_an_output_shape_that_depends_on_data_and_what_follows_are_unknown():
    with graph() as g:
        x = feed([None])
        where = op("Where", op("Greater", x, constant(0.0), name="positive"), name="where")
        y = op("Shape", where, name="shape")

    sized, fixed = await analysis(g, y, {x: [0.0, 1.0]})

    assert sized == {"positive"}
    assert not fixed


async def test_a_stateful_node_is_neither_repeated_from_memory_nor_are_its_followers(ops: Ops):
    ops.add("TestAny(x:float) -> (y:float) {stateful}", lambda x: x, shape=lambda context: [None])
    with graph() as g:
        x = feed([2])
        y = op("Shape", op("TestAny", x, name="any"), name="shape")

    sized, fixed = await analysis(g, y, {x: [0.0, 1.0]})

    assert sized == {"any"}
    assert not fixed


async def test_variables_have_their_declared_shape():
    with graph() as g:
        v = resource([2, 3])
        x = feed([None, 3])
        init = op("AssignVariableOp", v, constant([[1.0] * 3] * 2))
        y = op("MatMul", x, read(v), transpose_b=True, name="y")
        z = op("Shape", y, name="z")

    async with session_on(g, "off") as session:
        await session.run(init)
        await session.run(z, {x: [[0.0] * 3]})
        (runner,) = [each for each in executors(session)[-1].runners if len(each.item.instructions) > 1]
        found = ShapeDependence(runner.item, runner.partition.values)
        names = [each.node.name for each in runner.item.instructions]

    assert {"y", "z"} <= {names[k] for k in found.sized}
    assert {names[k] for k in found.fixed} == {"z"}
