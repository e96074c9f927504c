"""Requests of values from other tasks, one call each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from aioexec.devices.device_set import DeviceMgr
from aioexec.devices.memory_device import MemoryDevice
from aioexec.distributed.transport.first_step import begin
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.transport import Allocate, Payload
from aioexec.distributed.transport.variant_codec import variant_from_proto
from aioexec.distributed.worker.pushes import Pushes
from aioexec.distributed.worker.transfer_log import TransferLog
from aioexec.distributed.worker.worker_cache import WorkerCache
from aioexec.dtypes import variant
from aioexec.errors import InternalError, UnavailableError
from aioexec.execution.rendezvous import Received
from aioexec.in_thread import in_thread

RECV_TENSOR = "WorkerService/RecvTensor"
_Request = METHODS[RECV_TENSOR].request


class Transfers:
    """The calls under way; its creator closes it.

    `_memory` are the task's devices with memory of their own, by name: they make the arrays for large values that they receive.
    """

    def __init__(self, devices: DeviceMgr, log: TransferLog, bits: Callable[[int], int]) -> None:
        self._memory = {
            device.name: device for device in devices.list_devices() if isinstance(device, MemoryDevice)
        }
        self._log = log  # of received values
        self._bits = bits  # the source of request ids
        self._calls: set[asyncio.Task[Received]] = set()

    def fetch(
        self, workers: WorkerCache, step_id: int, key: str, pushes: Pushes | None = None
    ) -> asyncio.Task[Received]:
        """Request a value from the task that makes it, and follow that task, so that it pushes its values from then on."""
        task = begin(self._request(workers, step_id, key, pushes))  # the request is sent now
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    async def _request(self, workers: WorkerCache, step_id: int, key: str, pushes: Pushes | None) -> Received:
        began = perf_counter_ns()
        source = key.partition("/device:")[0]
        channel = workers.channel(source)
        request = _Request(step_id=step_id, rendezvous_key=key, request_id=self._bits(62) + 1)
        try:
            reply = await channel.call(RECV_TENSOR, Payload(request, allocate=self._allocate_for(key)))
        except UnavailableError:
            if pushes is not None:
                pushes.doubt(source)
            raise
        if pushes is not None:
            pushes.follow(key, channel)
        is_dead = reply.message.is_dead
        value = None if is_dead else await _read_value(reply, key)
        if self._log.is_on:
            self._log.note(step_id, key, began, value)
        return value, is_dead

    def _allocate_for(self, key: str) -> Allocate | None:
        """What makes the array for the value of a key, if that goes to a device with memory of its own."""
        device = self._memory.get(key.split(";", 3)[2]) if self._memory else None
        return None if device is None else device.host_array

    async def close(self) -> None:
        """Cancel the calls under way."""
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)


async def _read_value(reply: Payload, key: str) -> Any:
    if reply.tensors and reply.tensors[0] is not None:
        return reply.tensors[0]
    proto = reply.message.tensor
    if proto.dtype != variant.as_datatype_enum:
        raise InternalError(f"RecvTensor of {key}: the reply has no tensor")
    return await in_thread(variant_from_proto, proto)
