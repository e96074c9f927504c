"""Bodies of functions that kernels call: each is planned separately, at its first use, and run in steps of its own.

A body has its own name space: placements and kernels, which are stored by the names of nodes, are separate from those of the
session's graph.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.execution.begun import NowaitResult
from aioexec.execution.engine import Engine
from aioexec.execution.executor import Executor
from aioexec.execution.step import StepSettings
from aioexec.graph.func_graph import FuncGraph
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Compute
from aioexec.graph.node import Operation
from aioexec.planning.plan import Plan
from aioexec.planning.subgraph import Bind, Signature

if TYPE_CHECKING:
    from aioexec.planning.pipeline import Planner

NewPlanner = Callable[[Graph, Bind], "Planner"]
MakePlan = Callable[[Callable[[], Plan]], Awaitable[Plan]]
"""Makes a call in the planner thread, and awaits it."""
ScopedBind = Callable[[Operation, str, str], Compute]
"""Makes or looks up the kernel of an operation on a device, by its name prefixed with a scope."""


class Bodies:
    """Runs bodies in one session; `_executors` holds those of the bodies that were run.

    Args:
        engine: runs the executors.
        new_planner, in_planner: make the planner of a body, and run it in the planner thread.
        bind: makes the kernel of a node.
    """

    def __init__(
        self, engine: Engine, new_planner: NewPlanner, in_planner: MakePlan, bind: ScopedBind
    ) -> None:
        self._engine = engine
        self._new_planner = new_planner
        self._in_planner = in_planner
        self._bind = bind
        self._executors: dict[FuncGraph, Executor] = {}

    async def call(self, body: FuncGraph, inputs: Sequence[Any], settings: StepSettings) -> list[Any]:
        """Run a body, and return its outputs.

        Raises:
            OpError: it cannot be planned, or of the node that failed.
        """
        executor = self._executors.get(body)
        if executor is None:
            plan = await self._in_planner(lambda: self._plan(body))
            executor = self._executors.setdefault(body, Executor(plan, self._engine))
        return await executor.step(inputs, settings)

    def call_nowait(self, body: FuncGraph, inputs: Sequence[Any]) -> NowaitResult:
        """Begin to run a body: its outputs, if it has ended, a step that must be awaited, or None: it must be called.

        Raises:
            OpError: of the node that failed.
        """
        executor = self._executors.get(body)
        if executor is None or not all(type(value) is np.ndarray for value in inputs):  # handles may be bare
            return None
        return executor.run_converted(list(inputs))

    def _plan(self, body: FuncGraph) -> Plan:
        scope = f"{body.name}:{id(body)}:"  # no node has such a name; the executor keeps the body alive

        def bind(op: Operation, device: str) -> Compute:
            return self._bind(op, device, scope)

        signature = Signature(tuple(body.inputs), tuple(body.outputs), tuple(body.control_outputs))
        return self._new_planner(body, bind).plan(signature)

    def clear(self) -> None:
        self._executors.clear()
