"""`TestCase` of `tf.test`: unittest's, whose test methods may be coroutine functions and await sessions.

    class AddTest(ax.test.TestCase):
        async def testAdd(self):
            async with self.session() as session:
                self.assertAllEqual(await session.run(ax.constant(1) + 2), 3)

Each test starts with an empty default graph and the same random seeds.
"""

from __future__ import annotations

import random
import unittest
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import numpy as np

from aioexec.graph.defaults import get_default_session
from aioexec.graph.graph import Graph, get_default_graph, reset_default_graph
from aioexec.ops.random.random_ops import set_random_seed
from aioexec.sessions.session import Session
from aioexec.test.array_assertions import ArrayAssertions
from aioexec.test.environment import get_temp_dir

_SEED: Final = 87654321


class TestCase(ArrayAssertions, unittest.IsolatedAsyncioTestCase):
    """A test case with sessions; see the module. `setUp` and `tearDown` of a subclass call those of this class."""

    def __init__(self, methodName: str = "runTest") -> None:
        super().__init__(methodName)
        self._cached: Session | None = None  # opened by the first `cached_session` of a test, closed after it
        self._temp_dir: str | None = None  # made by the first `get_temp_dir`

    def setUp(self) -> None:
        """Begin with an empty default graph and seeded random numbers: Python's, NumPy's and the graph's."""
        super().setUp()
        random.seed(_SEED)
        np.random.seed(_SEED)
        reset_default_graph()
        set_random_seed(_SEED)

    async def asyncTearDown(self) -> None:
        """Close the cached session."""
        cached, self._cached = self._cached, None
        if cached is not None:
            await cached.close()
        await super().asyncTearDown()

    def get_temp_dir(self) -> str:
        """Return a folder of this test, which is removed when the process ends."""
        if self._temp_dir is None:
            self._temp_dir = get_temp_dir(self.id())
        return self._temp_dir

    async def evaluate(self, tensors: Any) -> Any:
        """Return the values of a structure of tensors, by the default session, else by the cached one."""
        session: Any = get_default_session()
        if session is None:
            session = self._the_cached(None, None)
        return await session.run(tensors)

    def session(
        self, graph: Graph | None = None, config: Any = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> AbstractAsyncContextManager[Session]:
        """Return a session, closed at the end of the `async with` block, in which it and its graph are the default.

        Args:
            graph: the graph to run; the default graph by default.
            config: a ConfigProto.
            use_gpu: whether nodes of the block may be placed on a GPU; if not, they are placed on the CPU.
            force_gpu: whether they must be.
        """
        return _on_device(Session(graph=graph, config=config), use_gpu, force_gpu)

    @asynccontextmanager
    async def cached_session(
        self, graph: Graph | None = None, config: Any = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> AsyncIterator[Session]:
        """Give the session that all calls in one test share, which stays open until its end; see `session`."""
        session = self._the_cached(graph, config)
        with (
            session.graph.as_default(),
            session.as_default(),
            session.graph.device(_device(use_gpu, force_gpu)),
        ):
            yield session

    def test_session(
        self, graph: Graph | None = None, config: Any = None, use_gpu: bool = True, force_gpu: bool = False
    ) -> AbstractAsyncContextManager[Session]:
        """Return the cached session, or a new one if a graph is given: an old name of both."""
        if graph is None:
            return self.cached_session(graph, config, use_gpu, force_gpu)
        return self.session(graph, config, use_gpu, force_gpu)

    test_session.__test__ = False  # type: ignore[attr-defined]  # a method of the interface, no test

    def _the_cached(self, graph: Graph | None, config: Any) -> Session:
        if self._cached is None:
            self._cached = Session(graph=graph or get_default_graph(), config=config)
        return self._cached


@asynccontextmanager
async def _on_device(session: Session, use_gpu: bool, force_gpu: bool) -> AsyncIterator[Session]:
    async with session:
        with session.graph.device(_device(use_gpu, force_gpu)):
            yield session


def _device(use_gpu: bool, force_gpu: bool) -> str | None:
    return "/device:GPU:0" if force_gpu else None if use_gpu else "/cpu:0"
