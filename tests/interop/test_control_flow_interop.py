"""Conditionals and loops have the same nodes and results as those TensorFlow builds."""

from __future__ import annotations

from typing import Any

import pytest

import aioexec as ax
from tests.interop import graphs_control_flow
from tests.interop.building import Builder
from tests.interop.comparing import differences, run_here, session_here

pytestmark = pytest.mark.interop

GRAPHS: dict[str, Builder] = {build.__name__: build for build in graphs_control_flow.GRAPHS}
WITH_VARIABLES = {"reference_variables", "resource_variables"}


@pytest.fixture(params=list(GRAPHS))
def name(request) -> str:
    """Each graph in turn."""
    return request.param


def shown(graph_def: Any) -> dict[str, Any]:
    """Op, inputs, device and the attributes that matter of each node: the order of control inputs does not."""
    return {
        node.name: (
            node.op,
            [each for each in node.input if not each.startswith("^")],
            {each for each in node.input if each.startswith("^")},
            node.device,
            {
                key: held.SerializeToString(deterministic=True)
                for key, held in node.attr.items()
                if key in ("T", "N", "_class", "frame_name", "is_constant", "parallel_iterations")
            },
        )
        for node in graph_def.node
    }


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_the_results_are_those_of_tensorflow(name, jit, recorder):
    recorded = recorder.record(GRAPHS[name])

    assert differences(recorded, await run_here(recorded, jit)) == []


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_what_is_built_here_gives_the_same(name, jit, recorder):
    recorded = recorder.record(GRAPHS[name])
    with ax.Graph().as_default() as graph:
        built = GRAPHS[name](ax)

    async with session_here(graph, jit) as session:
        if built.init is not None:
            await session.run(built.init)
        results = [await session.run(list(built.fetches), feed) for feed in built.feeds]

    assert differences(recorded, results) == []


def test_the_same_nodes_are_built(name, recorder):
    if name in WITH_VARIABLES:
        pytest.skip("the nodes of a variable have other names in TensorFlow 2")
    recorded = recorder.record(GRAPHS[name])

    with ax.Graph().as_default() as graph:
        GRAPHS[name](ax)

    ours, theirs = shown(graph.as_graph_def()), shown(recorded.graph_def)
    assert ours.keys() == theirs.keys()
    for node, expected in theirs.items():
        assert ours[node] == expected
