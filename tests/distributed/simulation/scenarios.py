"""Programs on a master and two workers with results known by hand.

A scenario makes its graph once; each attempt passes it a number, so that no two results are equal. The result of an attempt was
checked; an exception has to be of `ALLOWED`.
"""

from __future__ import annotations

import abc
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import numpy as np

import aioexec as tf
from aioexec import errors
from aioexec.testing import InMemoryCluster

ALLOWED = (errors.UnavailableError, errors.AbortedError, errors.DeadlineExceededError)
"""The errors that a fault may cause in a step."""

DEADLINE = 20.0
"""Seconds a step may take."""

ONE, OTHER = "/job:worker/task:0", "/job:worker/task:1"


class Scenario(abc.ABC):
    """A program: a graph, and what is done with it again and again.

    `runs` counts what may happen once for an attempt.
    """

    name: str
    attempts = 3
    calls = 1  # of the client, each with a deadline

    def __init__(self) -> None:
        self.graph = tf.Graph()
        self.runs: Counter[float] = Counter()
        self.options = tf.RunOptions(timeout_in_ms=int(DEADLINE * 1000))
        with self.graph.as_default():
            self.build()

    def config(self) -> Any:
        """The sessions' config: creation and close have a deadline too. `jit` is off: compilation depends on real time."""
        config = tf.ConfigProto(operation_timeout_in_ms=int(DEADLINE * 1000))
        config.aioexec.jit = "off"
        return config

    def open(self, cluster: InMemoryCluster) -> contextlib.AbstractAsyncContextManager[Any]:
        """The session that attempts are made in."""
        return cluster.session("master", 0, graph=self.graph, config=self.config())

    @abc.abstractmethod
    def build(self) -> None:
        """Add to the graph."""

    @abc.abstractmethod
    async def attempt(self, session: Any, number: int) -> None:
        """Do it once, and check the answer."""

    def check(self) -> None:
        """Check what can be known only when all is over: no message that came twice has run a node twice."""
        assert set(self.runs.values()) <= {1}, f"ran more than once: {self.runs}"


class RunScenario(Scenario):
    """Values are sent from the master to one worker, to the other and back, and both return some to the client.

    A Python node counts its runs for each attempt.
    """

    name = "run"

    def build(self) -> None:
        self.x = tf.placeholder(tf.float32, [])
        with tf.device(ONE):
            self.doubled = tf.py_func(self._doubled, [self.x], tf.float32)
        with tf.device(OTHER):
            self.squared = self.doubled * self.doubled
        with tf.device(ONE):
            self.y = self.squared + self.doubled

    async def attempt(self, session: Any, number: int) -> None:
        found = await session.run([self.y, self.squared], {self.x: float(number)}, self.options)

        assert found == [4.0 * number**2 + 2.0 * number, 4.0 * number**2], f"a wrong result: {found}"

    def _doubled(self, x: Any) -> Any:
        self.runs[float(x)] += 1
        return np.float32(x * 2.0)


class PartialRunScenario(Scenario):
    """A step in two calls: what the first has computed waits on a worker for the second."""

    name = "partial_run"
    calls = 3

    def build(self) -> None:
        self.a = tf.placeholder(tf.float32, [])
        self.b = tf.placeholder(tf.float32, [])
        with tf.device(ONE):
            self.first = self.a * 2.0
        with tf.device(OTHER):
            self.second = self.first + self.b

    async def attempt(self, session: Any, number: int) -> None:
        handle = await session.partial_run_setup([self.first, self.second], [self.a, self.b])
        first = await session.partial_run(handle, self.first, {self.a: float(number)})
        second = await session.partial_run(handle, self.second, {self.b: 1.0})

        assert (first, second) == (2.0 * number, 2.0 * number + 1.0), f"a wrong result: {(first, second)}"


class LoopScenario(Scenario):
    """A loop whose body goes from worker to worker in every round."""

    name = "loop"

    def build(self) -> None:
        self.x = tf.placeholder(tf.float32, [])

        def body(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.device(ONE):
                x = x * 2.0
            with tf.device(OTHER):
                x = x + 1.0
            return i + 1, x

        with tf.device(ONE):
            _, self.y = tf.while_loop(lambda i, x: i < 3, body, [tf.constant(0), self.x])

    async def attempt(self, session: Any, number: int) -> None:
        found = await session.run(self.y, {self.x: float(number)}, self.options)

        assert found == 8.0 * number + 7.0, f"a wrong result: {found}"


class LargeTensorScenario(Scenario):
    """A megabyte from worker to worker and back."""

    name = "large_tensor"

    def build(self) -> None:
        self.x = tf.placeholder(tf.float32, [])
        with tf.device(ONE):
            large = tf.fill([512, 512], self.x)
        with tf.device(OTHER):
            self.larger = large + 1.0
        with tf.device(ONE):
            self.total = tf.reduce_sum(self.larger)

    async def attempt(self, session: Any, number: int) -> None:
        larger, total = await session.run([self.larger, self.total], {self.x: float(number)}, self.options)

        np.testing.assert_array_equal(larger, np.full((512, 512), number + 1.0, np.float32))
        assert total == 512 * 512 * (number + 1.0), f"a wrong result: {total}"


class RecoveryScenario(Scenario):
    """A monitored session whose variables are on one worker and whose arithmetic is on the other."""

    name = "recovery"

    def build(self) -> None:
        with tf.device(ONE):
            self.step = tf.train.create_global_step()
            advanced = tf.assign_add(self.step, 1)
        with tf.device(OTHER):
            self.tripled = advanced * 3
        self.advanced = tf.identity(advanced)
        self.init = tf.global_variables_initializer()

    @contextlib.asynccontextmanager
    async def open(self, cluster: InMemoryCluster) -> AsyncIterator[Any]:
        with self.graph.as_default():
            scaffold = tf.train.Scaffold(init_op=self.init)
            creator = tf.train.ChiefSessionCreator(scaffold, cluster.target("master"), self.config())
            async with tf.train.MonitoredSession(creator) as session:
                yield session

    async def attempt(self, session: Any, number: int) -> None:
        step, tripled = await session.run([self.advanced, self.tripled], options=self.options)

        assert step >= 1, f"a wrong result: {step}"
        assert tripled == 3 * step, f"a wrong result: {tripled} of {step}"


SCENARIOS: list[type[Scenario]] = [
    RunScenario,
    PartialRunScenario,
    LoopScenario,
    LargeTensorScenario,
    RecoveryScenario,
]
