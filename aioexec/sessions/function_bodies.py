"""Bodies of functions that kernels run: each is planned by itself, at its first use, and run as steps of its own.

A body has its own names: what is kept by the name of a node, its placement and its kernel, is kept apart from those of the
session's graph.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aioexec.execution.engine import Engine
from aioexec.execution.executor import Executor
from aioexec.execution.step import StepSettings
from aioexec.graph.functions import FuncGraph
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Compute
from aioexec.graph.node import Operation
from aioexec.planning.pipeline import Planner
from aioexec.planning.plan import Plan
from aioexec.planning.subgraph import Bind, Signature

NewPlanner = Callable[[Graph, Bind], Planner]
MakePlan = Callable[[Callable[[], Plan]], Awaitable[Plan]]
"""Awaits a call in the planner thread."""
ScopedBind = Callable[[Operation, str, str], Compute]
"""Makes, or finds, the kernel of an operation on a device; by its name behind a scope."""


class Bodies:
    """Runs bodies in one session; `_executors` has one for each that was run."""

    def __init__(
        self, engine: Engine, new_planner: NewPlanner, in_planner: MakePlan, bind: ScopedBind
    ) -> None:
        self._engine = engine
        self._new_planner = new_planner
        self._in_planner = in_planner
        self._bind = bind
        self._executors: dict[FuncGraph, Executor] = {}

    async def call(self, body: FuncGraph, inputs: Sequence[Any], settings: StepSettings) -> list[Any]:
        """Run a body; its outputs.

        Raises:
            OpError: it cannot be planned, or of the node that failed.
        """
        executor = self._executors.get(body)
        if executor is None:
            plan = await self._in_planner(lambda: self._plan(body))
            executor = self._executors.setdefault(body, Executor(plan, self._engine))
        return await executor.step(inputs, settings)

    def _plan(self, body: FuncGraph) -> Plan:
        scope = f"{body.name}:{id(body)}:"  # no node has such a name; the body lives as long as its executor

        def bind(op: Operation, device: str) -> Compute:
            return self._bind(op, device, scope)

        signature = Signature(tuple(body.inputs), tuple(body.outputs), tuple(body.control_outputs))
        return self._new_planner(body, bind).plan(signature)

    def clear(self) -> None:
        self._executors.clear()
