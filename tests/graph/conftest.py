"""A graph for tests that build one."""

from collections.abc import Iterator

import pytest

from aioexec.graph.graph import Graph


@pytest.fixture
def graph() -> Iterator[Graph]:
    """An empty graph that is the default one during the test."""
    with Graph().as_default() as graph:
        yield graph
