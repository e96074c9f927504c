"""Random loops over variables, with gradients: the passes leave all values as they are, bit by bit."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.planning.planned import plan
from tests.tiers import graph

SIDE = 3


class Program:
    """A loop that reads variables in random places, and maybe writes one; what is read does not depend on timing.

    Attributes:
        fetches: the value of the loop, its gradients in the variables, and a variable after what comes last.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        values = np.random.default_rng(seed).uniform(-1, 1, (4, SIDE, SIDE)).astype(np.float32)
        with graph() as self.graph:
            self._weights = [
                ax.get_variable(f"v{k}", initializer=value, use_resource=True)
                for k, value in enumerate(values[:3])
            ]
            self._counter = ax.get_variable("counter", initializer=np.float32(1), use_resource=True)
            result = self._after_a_write(lambda: self._loop(ax.constant(values[3]), depth=0))
            found = ax.gradients(result, self._weights) if self._random.random() < 0.7 else []
            self.fetches = [result, *(each for each in found if each is not None)]
            with ax.control_dependencies(self.fetches):
                changed = self._chosen().assign_add(values[0])
            with ax.control_dependencies([changed]):
                self.fetches += [each.read_value() for each in (*self._weights, self._counter)]
            self.init = ax.global_variables_initializer()

    def _chosen(self) -> Any:
        return self._random.choice(self._weights)

    def _after_a_write(self, make: Callable[[], Any]) -> Any:
        """What is made waits for a write, or there is none; reads in a loop wait for its counter."""
        if self._random.random() < 0.7:
            return make()
        with ax.control_dependencies([self._chosen().assign_sub(np.full((SIDE, SIDE), 0.25, np.float32))]):
            return make()

    def _loop(self, start: Any, depth: int) -> Any:
        steps = [self._step(depth) for _ in range(self._random.randint(1, 4))]
        count = self._random.randint(0, 4)

        def body(t: Any, x: Any) -> Any:
            for step in steps:
                x = step(t, x)
            return t + 1, x

        return ax.while_loop(lambda t, _: t < count, body, [ax.identity(0), start])[1]

    def _step(self, depth: int) -> Callable[[Any, Any], Any]:
        """One operation of an iteration, chosen when the loop is made."""
        weights, kind = self._chosen(), self._random.randrange(6 if depth == 0 else 4)
        if kind == 0:
            return lambda t, x: ax.tanh(ax.matmul(x, weights))
        if kind == 1:
            return lambda t, x: x + weights * ax.cast(t + 1, ax.float32)
        if kind == 2:
            return lambda t, x: ax.cond(ax.equal(t % 2, 0), lambda: x * weights, lambda: x)
        if kind == 3:
            return lambda t, x: ax.sin(x) * weights.read_value()
        if kind == 4:
            return self._counted
        return lambda t, x: self._loop(x, depth + 1)

    def _counted(self, t: Any, x: Any) -> Any:
        """A product with a variable that was increased first; the next increase waits for the product."""
        with ax.control_dependencies([x]):
            increased = self._counter.assign_add(0.5)
        with ax.control_dependencies([increased]):
            return x * ax.stop_gradient(self._counter.read_value())

    async def values(self, level: Any, jit: str) -> list[Any]:
        """What two steps yield with the passes of this level."""
        config = ax.ConfigProto()
        config.aioexec.jit = jit
        config.graph_options.optimizer_options.opt_level = level
        async with ax.Session(graph=self.graph, config=config) as session:
            await session.run(self.init)
            return [value for _ in range(2) for value in await session.run(self.fetches)]


@pytest.mark.parametrize("seed", range(40))
async def test_random_loops_have_the_values_that_they_have_without_passes(seed: int):
    program = Program(seed)

    without = await program.values(-1, "off")

    for one, other in zip(await program.values(0, "off"), without, strict=True):
        np.testing.assert_array_equal(one, other)
    if seed % 4 == 0:  # compiled kernels round in another order
        for one, other in zip(await program.values(0, "eager"), without, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_the_passes_change_many_of_them():
    names = [{node.name for node in plan(Program(seed).fetches).subgraph.nodes} for seed in range(40)]

    assert sum(any(name.endswith("/before_loop") for name in each) for each in names) >= 20
    assert sum(any(name.endswith("/empty") for name in each) for each in names) >= 8
