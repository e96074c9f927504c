"""Bodies of functions that kernels call: each is planned separately, at its first use, and run in steps of its own.

A body has its own name space: placements and kernels, which are stored by the names of nodes, are separate from those of the
session's graph.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.execution.begun import NowaitResult, Pending
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
MakePlan = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Makes a call in the planner thread, and awaits it."""
ScopedBind = Callable[[Operation, str, str], Compute]
"""Makes or looks up the kernel of an operation on a device, by its name prefixed with a scope."""


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """A body that can be run.

    Attributes:
        executor: computes the outputs that are no inputs; None if there is nothing to compute.
        used: positions of the inputs that it needs.
        outputs: for each output a position: of a computed one, or -1 - k for input k.
    """

    executor: Executor | None
    used: tuple[int, ...]
    outputs: tuple[int, ...]

    def assembled(self, inputs: Sequence[Any], computed: Sequence[Any]) -> list[Any]:
        """Return the outputs of the body."""
        return [computed[place] if place >= 0 else inputs[-1 - place] for place in self.outputs]


class Bodies:
    """Runs bodies in one session; `_prepared` holds those that were run.

    Outputs that are inputs are left to the caller of the plan, as are inputs that nothing needs: such a plan may run without a
    scheduler.

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
        self._prepared: dict[FuncGraph, _Prepared] = {}

    async def call(self, body: FuncGraph, inputs: Sequence[Any], settings: StepSettings) -> list[Any]:
        """Run a body, and return its outputs.

        Raises:
            OpError: it cannot be planned, or of the node that failed.
        """
        prepared = self._prepared.get(body)
        if prepared is None:
            plan, used, outputs = await self._in_planner(lambda: self._prepare(body))
            executor = None if plan is None else Executor(plan, self._engine)
            prepared = self._prepared.setdefault(body, _Prepared(executor, used, outputs))
        if prepared.executor is None:
            return prepared.assembled(inputs, ())
        computed = await prepared.executor.step([inputs[place] for place in prepared.used], settings)
        return prepared.assembled(inputs, computed)

    def call_nowait(self, body: FuncGraph, inputs: Sequence[Any]) -> NowaitResult:
        """Begin to run a body: its outputs, if it has ended, a step that must be awaited, or None: it must be called.

        Raises:
            OpError: of the node that failed.
        """
        prepared = self._prepared.get(body)
        if prepared is None:
            return None
        if prepared.executor is None:
            return prepared.assembled(inputs, ())
        given = [inputs[place] for place in prepared.used]
        for value in given:
            if type(value) is not np.ndarray:  # a bare handle
                return None
        found = prepared.executor.run_converted(given)
        if isinstance(found, list):
            return prepared.assembled(inputs, found)
        return None if found is None else _Pending(prepared, inputs, found)

    def _prepare(self, body: FuncGraph) -> tuple[Plan | None, tuple[int, ...], tuple[int, ...]]:
        """Return the plan of a body, and the fields of a `_Prepared`."""
        inputs = {tensor: -1 - place for place, tensor in enumerate(body.inputs)}
        computed = {tensor: None for tensor in body.outputs if tensor not in inputs}
        places = {**inputs, **{tensor: place for place, tensor in enumerate(computed)}}
        outputs = tuple(places[tensor] for tensor in body.outputs)
        if not computed and not body.control_outputs:
            return None, (), outputs
        needed = _needed([tensor.op for tensor in computed] + body.control_outputs)
        used = tuple(place for place, tensor in enumerate(body.inputs) if tensor.op in needed)
        signature = Signature(
            tuple(body.inputs[place] for place in used), tuple(computed), tuple(body.control_outputs)
        )
        return self._plan(body, signature), used, outputs

    def _plan(self, body: FuncGraph, signature: Signature) -> Plan:
        scope = f"{body.name}:{id(body)}:"  # no node has such a name; `_prepared` keeps the body alive

        def bind(op: Operation, device: str) -> Compute:
            return self._bind(op, device, scope)

        return self._new_planner(body, bind).plan(signature)

    def clear(self) -> None:
        self._prepared.clear()


class _Pending:
    """A step of a body that has begun; `finish` must be awaited."""

    __slots__ = ("_begun", "_inputs", "_prepared")

    def __init__(self, prepared: _Prepared, inputs: Sequence[Any], begun: Pending) -> None:
        self._prepared = prepared
        self._inputs = inputs
        self._begun = begun

    async def finish(self) -> list[Any]:
        """Wait for the outputs of the body."""
        return self._prepared.assembled(self._inputs, await self._begun.finish())


def _needed(operations: Iterable[Operation]) -> set[Operation]:
    """Return operations and those they depend on."""
    found: set[Operation] = set()
    pending = list(operations)
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending += [tensor.op for tensor in op.inputs]
            pending += op.control_inputs
    return found
