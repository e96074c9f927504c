"""The session runtime in this process: plans and executors by signature, kernels by node, state by container."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from aioexec.devices.jit import blas
from aioexec.devices.workers import Job
from aioexec.dtypes import DType
from aioexec.errors import UnimplementedError
from aioexec.execution.engine import Engine
from aioexec.execution.executor import Executor
from aioexec.graph.graph import Graph
from aioexec.graph.kernel import Attrs, Compute
from aioexec.graph.node import Operation
from aioexec.planning.pipeline import make_plan
from aioexec.planning.plan import Plan
from aioexec.planning.subgraph import Signature
from aioexec.resources.manager import ResourceManager
from aioexec.sessions.options import SessionOptions

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What a kernel may know of its node and session (see KernelContext)."""

    node_name: str
    device: str
    attrs: Attrs
    input_dtypes: Sequence[DType]
    output_dtypes: Sequence[DType]
    resources: ResourceManager


@dataclass(slots=True, eq=False)
class DirectSession:
    """Runs signatures of one graph on this process's devices; lives in one event loop.

    `_kernels` holds the kernel of each node, bound once, so that a stateful kernel is the same in every signature;
    `_executors` an executor for each signature; `_planning` an event for each signature being planned; `_holds_blas` whether
    the planner has limited the threads of BLAS.
    """

    graph: Graph
    options: SessionOptions
    engine: Engine = field(init=False)
    resources: ResourceManager = field(default_factory=ResourceManager)
    _kernels: dict[Operation, Compute] = field(default_factory=dict)
    _executors: dict[Signature, Executor] = field(default_factory=dict)
    _planning: dict[Signature, asyncio.Event] = field(default_factory=dict)
    _holds_blas: bool = False

    def __post_init__(self) -> None:
        self.engine = Engine(DEVICE, self.options.jit, self.options.intra_op_threads)

    def bind(self, op: Operation) -> Compute:
        """The reference kernel of a node, made at its first use.

        Raises:
            UnimplementedError: the op has none.
        """
        kernel = self._kernels.get(op)
        if kernel is None:
            if op.row.kernel is None:
                raise UnimplementedError(
                    f"No OpKernel was registered to support Op {op.type!r} of node {op.name!r}"
                )
            context = NodeContext(
                op.name,
                DEVICE,
                op.attrs,
                [tensor.dtype for tensor in op.inputs],
                [tensor.dtype for tensor in op.outputs],
                self.resources,
            )
            kernel = self._kernels.setdefault(op, op.row.kernel(context))
        return kernel

    async def executor(self, signature: Signature) -> Executor:
        """The executor of a signature, planned in the planner thread at its first use.

        Raises:
            OpError: the signature cannot be planned.
        """
        while signature in self._planning:
            await self._planning[signature].wait()
        found = self._executors.get(signature)
        if found is not None:
            return found
        done = self._planning[signature] = asyncio.Event()
        try:
            job: Job[Plan] = self.engine.planner.submit(partial(self._plan, signature))
            plan = await job.result()
        finally:
            del self._planning[signature]
            done.set()
        return self._executors.setdefault(signature, Executor(plan, self.engine))

    def _plan(self, signature: Signature) -> Plan:
        """Plan; in the planner thread, where BLAS may be looked for in the file system before any kernel needs it."""
        if not self._holds_blas:
            self._holds_blas = True
            _BlasThreads.acquire()
        return make_plan(self.graph, signature, self.bind)

    def stop_building(self) -> None:
        """Let runs under way end without waiting for compilers."""
        self.engine.stop_building()

    async def close(self) -> None:
        try:
            await self.engine.close()
        finally:
            if self._holds_blas:
                _BlasThreads.release()
        self._executors.clear()
        self._kernels.clear()
        self.resources.clear()


class _BlasThreads:
    """BLAS runs with one thread while any session is open: the engine's own workers are the parallelism."""

    _lock = threading.Lock()
    _holders = 0
    _before: int | None = None

    @classmethod
    def acquire(cls) -> None:
        with cls._lock:
            if cls._holders == 0:
                cls._before = blas.set_threads(1)
            cls._holders += 1

    @classmethod
    def release(cls) -> None:
        with cls._lock:
            cls._holders -= 1
            if cls._holders == 0 and cls._before is not None:
                blas.set_threads(cls._before)
