"""Loops over rows and TensorArrays, and their gradients, have TensorFlow's results, whichever engine builds them."""

from __future__ import annotations

import pytest

import aioexec as ax
from tests.interop import graphs_functional
from tests.interop.building import Builder
from tests.interop.comparing import differences, run_here, session_here

pytestmark = pytest.mark.interop

GRAPHS: dict[str, Builder] = {build.__name__: build for build in graphs_functional.GRAPHS}


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("name", GRAPHS)
async def test_a_graph_of_tensorflow_gives_the_same_here(name, jit, recorder):
    recorded = recorder.record(GRAPHS[name])

    assert differences(recorded, await run_here(recorded, jit)) == []


@pytest.mark.parametrize("name", GRAPHS)
async def test_what_is_built_here_gives_the_same(name, recorder):
    recorded = recorder.record(GRAPHS[name])
    with ax.Graph().as_default() as graph:
        built = GRAPHS[name](ax)

    async with session_here(graph, "off") as session:
        results = [await session.run(list(built.fetches), feed) for feed in built.feeds]

    assert differences(recorded, results) == []
    for tensor, value in zip(built.fetches, results[0], strict=True):
        assert tensor.shape.is_compatible_with(value.shape)
