"""The load of `bench.http_serving`: connections that are kept alive, each with one request at a time.

The requests are made before, and replies are parsed as far as their length: the generator shares the
processors with the server.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter
from typing import Any, Self
from urllib.parse import urlsplit

import numpy as np

LENGTH = b"content-length:"
END = b"\r\n\r\n"


@dataclass
class Latencies:
    """The seconds of requests that have been answered."""

    seconds: list[float] = field(default_factory=list)

    def p99(self) -> float:
        return float(np.percentile(self.seconds, 99))


class Connection(asyncio.Protocol):
    """A connection that sends a request at a time."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._reply = bytearray()
        self._size = 0  # of the whole reply; 0 before its head has arrived
        self._answered: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reply += data
        if not self._size:
            end = self._reply.find(END)
            if end < 0:
                return
            head = bytes(self._reply[:end]).lower()
            start = head.index(LENGTH) + len(LENGTH)
            self._size = end + len(END) + int(head[start:].split(b"\r\n", 1)[0])
        if len(self._reply) >= self._size and self._answered is not None:
            if not self._answered.done():
                self._answered.set_result(bytes(self._reply))
            self._reply.clear()
            self._size = 0

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(exc or ConnectionError("the server has closed the connection"))

    async def ask(self, request: bytes) -> bytes:
        """Send a request and return the reply's body.

        Raises:
            RuntimeError: its status is not 200.
        """
        self._answered = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        reply = await self._answered
        head, _, body = reply.partition(END)
        if b" 200 " not in head[:16]:
            raise RuntimeError(f"{head[:64].decode()}: {body[:200].decode()}")
        return body

    def close(self) -> None:
        self._transport.close()


class Clients:
    """Some connections to one server."""

    def __init__(self, connections: list[Connection]) -> None:
        self.connections = connections

    @classmethod
    async def connected(cls, url: str, count: int) -> Self:
        loop, parts = asyncio.get_running_loop(), urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
        made = [await loop.create_connection(Connection, host, port) for _ in range(count)]
        return cls([connection for _, connection in made])

    async def ask_all(self, requests: list[bytes], seconds: float) -> tuple[Latencies, float]:
        """Let each client repeat requests for some seconds; return their latencies, and the seconds that passed."""
        found = Latencies()
        started = perf_counter()
        end = started + seconds

        async def client(connection: Connection, mine: Iterator[bytes]) -> None:
            while (before := perf_counter()) < end:
                await connection.ask(next(mine))
                found.seconds.append(perf_counter() - before)

        await asyncio.gather(
            *(
                client(connection, cycle(requests[number:] + requests[:number]))
                for number, connection in enumerate(self.connections)
            )
        )
        return found, perf_counter() - started

    @asynccontextmanager
    async def paced(self, requests: list[bytes], rate: float) -> AsyncIterator[Latencies]:
        """Send requests at a rate in the block; latencies count from the time of each, though all connections be busy."""
        found, due, mine = Latencies(), perf_counter(), cycle(requests)
        is_over = False

        async def client(connection: Connection) -> None:
            nonlocal due
            while not is_over:
                mine_due = due = due + 1 / rate
                await asyncio.sleep(mine_due - perf_counter())
                await connection.ask(next(mine))
                found.seconds.append(perf_counter() - mine_due)

        async with asyncio.TaskGroup() as group:
            for connection in self.connections:
                group.create_task(client(connection))
            yield found
            is_over = True

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
