"""The six kinds of runs in a soak test: what each runs, how it is checked, and what must hold after a cancellation.

A kind does one transaction at a time for a client: one or more runs, some of which are cancelled by the client (`attempt` then
returns CANCELLED). NumPy's results for the few inputs are computed beforehand, so that checks block the loop for microseconds
only.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

import numpy as np

import aioexec as ax
from aioexec.errors import InvalidArgumentError

Array = np.ndarray[Any, Any]
CANCELLED = object()
"""The outcome of a run that its client cancelled."""

INPUTS = 8
LAYERS = [(784, 512), (512, 512), (512, 10)]
BATCH = 32
client_number: contextvars.ContextVar[int] = contextvars.ContextVar("client_number", default=-1)
"""The number of the client; functions in the graph see the one of the client whose run they belong to."""


class Client(Protocol):
    """The interface of a client for a kind."""

    session: Any
    random: Random
    number: int

    async def attempt(self, run: Coroutine[Any, Any, Any]) -> Any:
        """Await a run, or cancel it at a random point: CANCELLED, unless it was done by then."""
        ...

    def begin(self, run: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Begin a concurrent run, which may be cancelled at a random point."""
        ...

    async def outcome(self, task: asyncio.Task[Any]) -> Any:
        """Await what `begin` began, as `attempt` does."""
        ...


class Kind(Protocol):
    """One kind of run."""

    async def transact(self, client: Client) -> None:
        """Run and check.

        Raises:
            AssertionError: a result, or what a cancellation has left, is wrong.
        """
        ...


def close_to(value: Any, expected: Array) -> bool:
    """Whether these agree; all values here are around 1, and `np.allclose` takes longer than a step."""
    return value.shape == expected.shape and bool(np.abs(value - expected).max() < 1e-4)


def _inputs(*dims: int) -> list[Array]:
    generator = np.random.default_rng(3)
    return [generator.uniform(-2, 2, dims).astype(np.float32) for _ in range(INPUTS)]


@dataclass
class Fed:
    """A run with one feed and one fetch: of one node, of an MLP, over two devices."""

    feed: Any
    fetch: Any
    cases: Sequence[tuple[Array, Array]]

    async def transact(self, client: Client) -> None:
        fed, expected = client.random.choice(self.cases)
        value = await client.attempt(client.session.run(self.fetch, {self.feed: fed}))
        assert value is CANCELLED or close_to(value, expected)


def one_node() -> Fed:
    x = ax.placeholder(ax.float32, [64], name="x")
    return Fed(x, ax.square(x), [(fed, np.square(fed)) for fed in _inputs(64)])


def two_devices() -> Fed:
    """The feed arrives on the first device, so there are two edges."""
    x = ax.placeholder(ax.float32, [64], name="across")
    with ax.device("/cpu:1"):
        y = ax.tanh(x) + np.float32(1)
    with ax.device("/cpu:0"):
        z = y * np.float32(2)
    return Fed(x, z, [(fed, (np.tanh(fed) + 1) * 2) for fed in _inputs(64)])


def mlp() -> Fed:
    generator = np.random.default_rng(5)
    weights = [(generator.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32) for shape in LAYERS]
    x = y = ax.placeholder(ax.float32, [None, LAYERS[0][0]], name="images")
    for k, matrix in enumerate(weights):
        y = ax.matmul(y, ax.Variable(matrix, name=f"w{k}"))
        if k < len(weights) - 1:
            y = ax.nn.relu(y)
    return Fed(x, y, [(fed, _forward(fed, weights)) for fed in _inputs(BATCH, LAYERS[0][0])])


def _forward(x: Array, weights: Sequence[Array]) -> Array:
    for matrix in weights[:-1]:
        x = np.maximum(x @ matrix, 0)
    return x @ weights[-1]


class AsyncNode:
    """An `async def` function in the graph, that takes some passes of the loop and reports whose context it runs in.

    `_inside` are the clients whose functions are running.
    """

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._x = ax.placeholder(ax.float32, [64], name="awaited")
        self._passes = ax.placeholder(ax.int32, [], name="passes")
        scaled, self._seen = ax.py_func(
            self._call, [self._x * np.float32(3), self._passes], [ax.float32, ax.int32]
        )
        self._y = scaled + np.float32(1)
        self._cases = [(fed, fed * np.float32(3) + np.float32(1)) for fed in _inputs(64)]

    async def _call(self, x: Array, passes: Any) -> tuple[Array, Any]:
        client = client_number.get()
        self._inside.add(client)
        try:
            for _ in range(passes):
                await asyncio.sleep(0)
        finally:
            self._inside.remove(client)
        return x, np.int32(client)

    async def transact(self, client: Client) -> None:
        fed, expected = client.random.choice(self._cases)
        feeds = {self._x: fed, self._passes: np.asarray(client.random.randrange(4), np.int32)}
        outcome = await client.attempt(client.session.run([self._y, self._seen], feeds))
        assert client.number not in self._inside, "the await has returned before the function has"
        if outcome is not CANCELLED:
            value, seen = outcome
            assert close_to(value, expected)
            assert seen == client.number


class BlockedDequeue:
    """A dequeue that waits for the enqueue of another run. Each transaction has a queue to itself, so that all is known of it.

    `_free` are the queues (enqueue, dequeue, size) not in use; `_numbers` makes elements that differ.
    """

    def __init__(self, queues: int) -> None:
        self._element = ax.placeholder(ax.int64, [], name="element")
        self._free: list[tuple[Any, Any, Any]] = []
        self._numbers = itertools.count()
        self.lost = 0
        for k in range(queues):
            queue = ax.FIFOQueue(4, [ax.int64], shapes=[[]], name=f"queue{k}")
            self._free.append((queue.enqueue(self._element), queue.dequeue(), queue.size()))

    async def transact(self, client: Client) -> None:
        if not self._free:
            return
        queue = self._free.pop()
        try:
            await self._exchange(client, *queue)
        finally:
            self._free.append(queue)

    async def warm_up(self, client: Client) -> None:
        """Use every queue once."""
        for queue in self._free:
            await self._exchange(client, *queue)

    async def _exchange(self, client: Client, enqueue: Any, dequeue: Any, size: Any) -> None:
        """Enqueue until the dequeue has an element, or is cancelled; then see what is left."""
        session = client.session
        taking = client.begin(session.run(dequeue))
        sent: list[int] = []
        certain: list[int] = []
        while not certain:
            for _ in range(client.random.randrange(3)):
                await asyncio.sleep(0)
            sent.append(next(self._numbers))
            feeds = {self._element: np.asarray(sent[-1], np.int64)}
            if await client.attempt(session.run(enqueue, feeds)) is not CANCELLED:
                certain.append(sent[-1])
        taken = await client.outcome(taking)
        got = [] if taken is CANCELLED else [int(taken)]
        got += [int(await session.run(dequeue)) for _ in range(await session.run(size))]
        missing = set(certain) - set(got)
        assert got == [number for number in sent if number in got], "out of order, twice, or from nowhere"
        assert not missing or taken is CANCELLED, "an element was lost"
        self.lost += len(missing)


class PartialRun:
    """A partial run in two parts; what a cancellation ended cannot be continued."""

    def __init__(self) -> None:
        self._a = ax.placeholder(ax.float32, [64], name="a")
        self._b = ax.placeholder(ax.float32, [64], name="b")
        self._first = self._a + np.float32(1)
        self._second = self._first * self._b
        self._cases = _inputs(64)

    async def transact(self, client: Client) -> None:
        a, b = client.random.choice(self._cases), client.random.choice(self._cases)
        handle = await client.session.partial_run_setup([self._first, self._second], [self._a, self._b])
        for fetch, feeds, expected in (
            (self._first, {self._a: a}, a + np.float32(1)),
            (self._second, {self._b: b}, (a + np.float32(1)) * b),
        ):
            value = await client.attempt(client.session.partial_run(handle, fetch, feeds))
            if value is CANCELLED:
                value = await self._again(client, handle, fetch, feeds)
                if value is CANCELLED:
                    return
            assert close_to(value, expected)

    async def _again(self, client: Client, handle: str, fetch: Any, feeds: Any) -> Any:
        """A call that was cancelled before it has fed anything leaves its run unchanged; otherwise it has ended it."""
        try:
            return await client.session.partial_run(handle, fetch, feeds)
        except InvalidArgumentError as error:
            assert "setup" in str(error)  # noqa: PT017  (both ways are right)
            return CANCELLED
