"""Values that are fetched from other tasks: a call for each, and, while somebody wants to know, a record of it."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Any

import numpy as np

from aioexec.distributed.first_step import begin
from aioexec.distributed.methods import METHODS
from aioexec.distributed.transport import Payload
from aioexec.distributed.variant_codec import variant_from_proto
from aioexec.distributed.worker_cache import WorkerCache
from aioexec.dtypes import variant
from aioexec.errors import InternalError
from aioexec.execution.rendezvous import Received, parse_key
from aioexec.observability.step_stats import StepStatsCollector

RECV_TENSOR = "WorkerService/RecvTensor"
MOST_LOGGED = 1 << 10
_Request = METHODS[RECV_TENSOR].request


class TransferLog:
    """What was fetched in the latest steps, by step id, the oldest first; nothing is noted unless it `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self._steps: OrderedDict[int, StepStatsCollector] = OrderedDict()

    def note(self, step_id: int, key: str, began: int, value: Any) -> None:
        """A value has come, for which the call was made at this time of `perf_counter_ns`."""
        if step_id not in self._steps and len(self._steps) >= MOST_LOGGED:
            self._steps.popitem(last=False)
        collector = self._steps.setdefault(step_id, StepStatsCollector())
        parsed = parse_key(key)
        outputs = [(0, value.dtype.name, value.shape, value.nbytes)] if isinstance(value, np.ndarray) else []
        collector.node_done(
            parsed.dst_device,
            "RecvTensor",
            "RecvTensor",
            began,
            began,
            perf_counter_ns(),
            threading.get_native_id(),
            outputs,
            [f"{parsed.edge_name} from {parsed.src_device}"],
        )

    def told(self, step_ids: Iterable[int]) -> dict[int, Any]:
        """The StepStats of those steps that something was fetched in."""
        return {each: self._steps[each].step_stats() for each in step_ids if each in self._steps}

    def clear(self) -> None:
        self._steps.clear()


class Transfers:
    """The calls under way; whoever made this closes it."""

    def __init__(self, bits: Callable[[int], int]) -> None:
        self.log = TransferLog()
        self._bits = bits
        self._calls: set[asyncio.Task[Received]] = set()

    def fetch(self, workers: WorkerCache, step_id: int, key: str) -> asyncio.Task[Received]:
        """Ask the task where a value is made for it."""
        task = begin(self._received(workers, step_id, key))  # the request leaves now
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        return task

    async def _received(self, workers: WorkerCache, step_id: int, key: str) -> Received:
        began = perf_counter_ns()
        channel = workers.channel(key.partition("/device:")[0])
        request = _Request(step_id=step_id, rendezvous_key=key, request_id=self._bits(62) + 1)
        reply = await channel.call(RECV_TENSOR, Payload(request))
        is_dead = reply.message.is_dead
        value = None if is_dead else await _value(reply, key)
        if self.log.is_on:
            self.log.note(step_id, key, began, value)
        return value, is_dead

    async def close(self) -> None:
        """Cancel what is under way."""
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)


async def _value(reply: Payload, key: str) -> Any:
    if reply.tensors and reply.tensors[0] is not None:
        return reply.tensors[0]
    proto = reply.message.tensor
    if proto.dtype != variant.as_datatype_enum:
        raise InternalError(f"RecvTensor of {key}: the reply has no tensor")
    return await asyncio.to_thread(variant_from_proto, proto)
