"""Workers without servers: a test sends the messages of their master.

    workers = ToyWorkers(2)
    graph = workers.register(1, make_graph)

A call is the handler itself, awaited in the caller's task, so a test cancels and awaits the worker's own code.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import aioexec as ax
from aioexec.devices.device_set import DeviceMgr
from aioexec.devices.registry import DeviceFactory
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.transport import Call, Channel, Handlers, Listener, Payload, Transport
from aioexec.distributed.worker.worker import Worker
from aioexec.distributed.worker.worker_cache import WorkerCache
from aioexec.errors import UnavailableError
from aioexec.execution.rendezvous import create_key
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.io.sub_graphs import extract_sub_graph
from aioexec.sessions.options import SessionOptions

SESSION = "session"


def task(index: int) -> str:
    return f"/job:worker/replica:0/task:{index}"


def device(index: int) -> str:
    return f"{task(index)}/device:CPU:0"


class ToyChannel(Channel):
    def __init__(self, address: str, handlers: dict[str, Handlers]) -> None:
        super().__init__(address)
        self._handlers = handlers

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        if self.address not in self._handlers:
            raise UnavailableError(f"no worker at {self.address}")
        return await self._handlers[self.address][method](request, Call("toy"))

    async def close(self) -> None:
        pass


class ToyTransport(Transport):
    def __init__(self) -> None:
        self.handlers: dict[str, Handlers] = {}

    def channel(self, address: str) -> Channel:
        return ToyChannel(address, self.handlers)

    def listener(self, *arguments: Any) -> Listener:
        raise NotImplementedError


class ToyWorkers:
    """Workers of one cluster; `incarnation` of the device of each."""

    def __init__(self, count: int) -> None:
        self.transport = ToyTransport()
        self.request_ids = itertools.count(1)
        self._step_ids = itertools.count(1)
        addresses = {task(index): f"toy:{index}" for index in range(count)}
        self.workers: list[Worker] = []
        for index in range(count):
            options = SessionOptions(jit="off")
            devices = DeviceMgr(DeviceFactory.add_devices(options, task(index)))
            worker = Worker(task(index), devices, WorkerCache(addresses, self.transport), options)
            self.transport.handlers[addresses[task(index)]] = worker.handlers()
            self.workers.append(worker)

    def new_step(self) -> int:
        return next(self._step_ids)

    async def close(self) -> None:
        for worker in self.workers:
            await worker.close()
            await worker.devices.close()

    async def call(self, index: int, name: str, tensors: Any = (), **fields: Any) -> Payload:
        """Make a call to a worker, as its master or another worker does."""
        method = f"WorkerService/{name}"
        request = Payload(METHODS[method].request(**fields), tensors)
        return await self.transport.handlers[f"toy:{index}"][method](request, Call("toy"))

    async def open(self, session: str = SESSION, **fields: Any) -> None:
        for index in range(len(self.workers)):
            await self.call(index, "CreateWorkerSession", session_handle=session, **fields)

    async def register(
        self, index: int, build: Callable[[], Any], session: str = SESSION, on: str = ""
    ) -> str:
        """Register what the operations that `build` returns need, on the worker's device; the graph's handle."""
        graph = ax.Graph()
        with graph.as_default(), ax.device(on or device(index)):
            built = build()
            wanted = [each.name for each in (built if isinstance(built, list) else [built])]
        reply = await self.call(
            index,
            "RegisterGraph",
            session_handle=session,
            create_worker_session_called=bool(session),
            graph_def=extract_sub_graph(graph.as_graph_def(), wanted),
        )
        return reply.message.graph_handle

    async def run(
        self, index: int, graph: str, step: int, session: str = SESSION, tensors: Any = (), **fields: Any
    ) -> Payload:
        return await self.call(
            index,
            "RunGraph",
            tensors,
            session_handle=session,
            create_worker_session_called=bool(session),
            graph_handle=graph,
            step_id=step,
            **fields,
        )

    def key(self, source: int, destination: int, name: str) -> str:
        return create_key(device(source), self.incarnation(source), device(destination), name)

    def incarnation(self, index: int) -> int:
        return self.workers[index].devices.list_devices()[0].attributes.incarnation

    def ends(self, source: int, destination: int, name: str) -> dict[str, Any]:
        """The attrs of both ends of a transfer."""
        incarnation = self.incarnation(source)
        return {
            "tensor_name": name,
            "send_device": device(source),
            "send_device_incarnation": incarnation - (1 << 64) if incarnation >> 63 else incarnation,
            "recv_device": device(destination),
        }

    def send(self, value: Any, source: int, destination: int, name: str, **ends: Any) -> Any:
        """A node that sends; `ends` are names of devices, if not the usual ones."""
        attrs = {**self.ends(source, destination, name), **ends}
        return apply_no_output_op("_Send", value, name=f"send_{name}", **attrs)

    def recv(self, dtype: Any, source: int, destination: int, name: str, **ends: Any) -> Any:
        """A node that receives."""
        attrs = {**self.ends(source, destination, name), **ends}
        return apply_op("_Recv", name=f"recv_{name}", tensor_type=dtype, **attrs)


@pytest.fixture
async def two() -> AsyncIterator[ToyWorkers]:
    workers = ToyWorkers(2)
    await workers.open()
    yield workers
    for each in workers.workers:
        each.steps.check_invariants()
    await workers.close()


async def waiter(two: ToyWorkers, index: int = 1) -> tuple[str, str]:
    """A graph that waits for an element of a queue, and one that puts one there."""

    def queue() -> Any:
        return ax.FIFOQueue(9, [ax.float32], shapes=[[]], shared_name="q")

    waits = await two.register(index, lambda: two.send(queue().dequeue(), index, 1 - index, "taken"))
    return waits, await two.register(index, lambda: queue().enqueue(7.0))
