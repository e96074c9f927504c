"""Steps without a session: a graph planned for some devices, and run by its executors."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.devices.device_set import LOCALHOST, DeviceSet
from aioexec.devices.registry import DeviceFactory
from aioexec.execution.background import Background
from aioexec.execution.engine import Engine, JitMode
from aioexec.execution.executor import Executor
from aioexec.execution.partial_step import PartialStep
from aioexec.execution.step import DEFAULT, StepSettings
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Compute
from aioexec.graph.kernels.kernel_registry import find_kernel
from aioexec.graph.node import Operation, Tensor
from aioexec.planning.pipeline import Planner
from aioexec.planning.subgraph import Signature
from aioexec.sessions.host import NodeContext
from aioexec.sessions.options import SessionOptions


class Stepping:
    """Runs signatures of a graph; `executors` by signature."""

    def __init__(self, graph: Graph, devices: DeviceSet, jit: JitMode) -> None:
        self.devices = devices
        self.engine = Engine(devices.devices, jit, devices.devices[0].workers)
        self.planner = Planner(graph, self.bind, devices)
        self.executors: dict[Signature, Executor] = {}
        self._kernels: dict[tuple[Operation, str], Compute] = {}

    def bind(self, op: Operation, device: str) -> Compute:
        if (op, device) not in self._kernels:
            inputs, outputs = ([tensor.dtype for tensor in each] for each in (op.inputs, op.outputs))
            place = self.engine.devices.get(device, self.devices.devices[0])
            found = find_kernel(op.type, place.device_type, op.attrs, runs_cpu_kernels=place.runs_cpu_kernels)
            functions, background = op.graph.functions, Background(self.engine, lambda body, inputs: None)
            context = NodeContext(
                op.name, place.name, op.attrs, inputs, outputs, place.resources, functions, background
            )
            self._kernels[op, device] = found.make(context)
        return self._kernels[op, device]

    def executor(
        self, fetches: Sequence[Any], feeds: Sequence[Tensor] = (), partial: bool = False
    ) -> Executor:
        tensors = tuple(fetch for fetch in fetches if isinstance(fetch, Tensor))
        targets = tuple(fetch for fetch in fetches if isinstance(fetch, Operation))
        signature = Signature(tuple(feeds), tensors, targets, partial)
        if signature not in self.executors:
            self.executors[signature] = Executor(self.planner.plan(signature), self.engine)
        return self.executors[signature]

    async def run(
        self, fetches: Sequence[Any], feeds: Mapping[Any, Any] | None = None, settings: StepSettings = DEFAULT
    ) -> list[Any]:
        values = [np.asarray(value, tensor.dtype.numpy) for tensor, value in (feeds or {}).items()]
        return await self.executor(fetches, tuple(feeds or {})).step(values, settings)

    def open(self, fetches: Sequence[Any], feeds: Sequence[Tensor]) -> PartialStep:
        return self.executor(fetches, feeds, partial=True).open()


@contextlib.asynccontextmanager
async def stepping(graph: Graph, jit: JitMode = "off", **device_count: int) -> AsyncIterator[Stepping]:
    """Devices and an engine for a graph, closed at the end."""
    options = SessionOptions(jit=jit, device_count=device_count)
    devices = DeviceFactory.add_devices(options, LOCALHOST)
    made = Stepping(graph, DeviceSet(devices), jit)
    try:
        yield made
    finally:
        await made.engine.close()
        for device in devices:
            await device.close()


on_cpu = partial(str.format, "/device:CPU:{}")
