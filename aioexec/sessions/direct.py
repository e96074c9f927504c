"""The session runtime in this process: executors by signature, kernels by node, state by container and device.

The executor of a signature is looked up by the signature, then by its contents regardless of order; otherwise a plan is made
in the planner thread. All pools, devices and kernels that a session acquires are released in `shut_down`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeVar

from aioexec.devices.device import DeviceAttributes
from aioexec.devices.device_set import DeviceMgr
from aioexec.devices.threads.workers import Job
from aioexec.errors import AlreadyExistsError, FailedPreconditionError, InvalidArgumentError
from aioexec.execution.executor import Executor
from aioexec.execution.step import StepSettings
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation, Tensor
from aioexec.observability.cost_model import CostModel
from aioexec.observability.device_log import log_notice
from aioexec.planning.plan import Plan
from aioexec.planning.subgraph import Signature
from aioexec.resources.session_state import SessionState, device_of, session_state
from aioexec.sessions.extending import extend_graph
from aioexec.sessions.host import Host
from aioexec.sessions.lifecycle import closed_error
from aioexec.sessions.named_steps import Callables, NamedStep
from aioexec.sessions.names import signature_of
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.partial_runs.table import PartialRuns
from aioexec.sessions.reordering import Reordered
from aioexec.sessions.reports import Reports
from aioexec.sessions.run_options import StepOptions
from aioexec.sessions.runtime import SessionRuntime
from aioexec.sessions.steps import StepScope

if TYPE_CHECKING:
    from aioexec.planning.pipeline import Planner

Result = TypeVar("Result")
Asked = tuple[
    frozenset[Tensor], frozenset[Tensor], frozenset[Operation], bool, frozenset[tuple[Tensor, Tensor]]
]
"""The contents of a signature without their order: feeds, fetches, targets, whether it is partial, connections."""


class DirectSession(Host, SessionRuntime):
    """Runs signatures of one graph on this process's devices; belongs to one event loop.

    `Host` holds its devices and threads. `_planner` is None until there is a graph. `_executors` holds the executor of each
    signature, `_by_asked` those that have a plan of their own, `_planning` an event for each signature being planned, `_named`
    steps by names; `is_finalized` is set once, after which nothing new is planned. `_reports`, `_partial_runs` and `_callables`
    hold the state of these. `_forget` is called when the session is closed.
    """

    def __init__(
        self,
        options: SessionOptions,
        devices: DeviceMgr,
        forget: Callable[[DirectSession], None],
        session_handle: str,
    ) -> None:
        SessionRuntime.__init__(self, options)
        Host.__init__(self, options, devices, session_handle)
        self.graph: Graph | None = None
        self.is_finalized = False
        self._forget = forget
        self._executors: dict[Signature, Executor | Reordered] = {}
        self._by_asked: dict[Asked, Executor] = {}
        self._planning: dict[Asked, asyncio.Event] = {}
        self._named: dict[Any, NamedStep] = {}
        self._planner: Planner | None = None
        self._reports = Reports(options)
        self._partial_runs = PartialRuns(self)
        self._callables = Callables(self)
        if options.log_device_placement:
            mapping = devices.device_mapping_string()
            log_notice(f"Device mapping:\n{mapping}" if mapping else "Device mapping: no known devices.")

    @property
    def stateful_placements(self) -> Mapping[str, str]:
        """The devices of stateful nodes that were placed, by name: they never move."""
        return {} if self._planner is None else self._planner.assigned

    def local_device_manager(self) -> DeviceMgr:
        return self.device_mgr

    async def list_devices(self) -> list[DeviceAttributes]:
        self._check_usable()
        return self.device_mgr.list_device_attributes()

    # The graph

    def attach(self, graph: Graph) -> None:
        """Share a graph: nodes added to it later can be run without `extend`."""
        self.graph = graph

    async def create(self, graph_def: Any) -> None:
        """Make the session's own graph.

        Raises:
            AlreadyExistsError: it has one.
        """
        self._check_usable()
        if not graph_def.node:
            return
        if self.graph is not None:
            raise AlreadyExistsError("A Graph has already been created for this session.")
        graph = Graph()
        with self.steps.scope():
            await self.in_planner(partial(extend_graph, graph, graph_def))
        self.graph = graph

    async def extend(self, graph_def: Any) -> None:
        """Add nodes to the graph; a graph that is shared gets them too.

        Raises:
            InvalidArgumentError: a node exists already, or does not fit; the graph is unchanged.
            FailedPreconditionError: the graph is finalized.
        """
        self._check_usable()
        if not graph_def.node:
            return
        if self.is_finalized:
            raise FailedPreconditionError("Session has been finalized.")
        if self.options.optimize_for_static_graph and self._by_asked:
            raise FailedPreconditionError("Extend is not supported when `optimize_for_static_graph` is true")
        if self.graph is None:
            await self.create(graph_def)
            return
        with self.steps.scope():
            await self.in_planner(partial(extend_graph, self.graph, graph_def))

    def finalize(self) -> None:
        """Keep the existing plans, and refuse to make others.

        Raises:
            FailedPreconditionError: it was finalized before.
        """
        self._check_usable()
        if self.is_finalized:
            raise FailedPreconditionError("Session already finalized.")
        self.is_finalized = True

    def _check_usable(self) -> None:
        if not self.steps.life.is_open:
            raise closed_error()
        if self.init_error is not None:
            raise self.init_error

    def _checked_graph(self, verb: str) -> Graph:
        self._check_usable()
        if self.graph is None:
            raise InvalidArgumentError(f"Session was not created with a graph before {verb}!")
        return self.graph

    # Executors

    async def executor(self, signature: Signature) -> Executor | Reordered:
        """The executor of a signature, planned in the planner thread at its first use.

        Raises:
            OpError: the signature cannot be planned.
        """
        found = self._executors.get(signature)
        if found is not None:
            return found
        if self.init_error is not None:
            raise self.init_error
        asked = _asked(signature)
        while asked in self._planning:
            await self._planning[asked].wait()
        planned = self._by_asked.get(asked)
        if planned is None:
            planned = await self._make_executor(signature, asked)
        found = planned if planned.plan.signature == signature else Reordered(planned, signature)
        return self._executors.setdefault(signature, found)

    async def _make_executor(self, signature: Signature, asked: Asked) -> Executor:
        if self.is_finalized or (self.options.optimize_for_static_graph and self._by_asked):
            raise FailedPreconditionError(
                "Session has been finalized: what was planned can be run, and nothing else"
            )
        done = self._planning[asked] = asyncio.Event()
        try:
            made = await self.new_executor(await self.in_planner(partial(self._plan, signature)))
        finally:
            del self._planning[asked]
            done.set()
        return self._by_asked.setdefault(asked, made)

    async def new_executor(self, plan: Plan) -> Executor:
        """Make the executor of a plan."""
        return Executor(plan, self.engine)

    def _plan(self, signature: Signature) -> Plan:
        """Plan; in the planner thread, where the file system may be searched for BLAS before a kernel needs it."""
        assert self.graph is not None
        self.hold_blas()
        if self._planner is None:
            self._planner = self.new_planner(self.graph, self.bind)
        return self._planner.plan(signature)

    def forget_plans(self) -> None:
        """Discard all plans, so that signatures are planned anew for the present devices; active steps keep theirs."""
        self._planner = None
        for kept in (self._executors, self._by_asked, self._named):
            kept.clear()
        self._partial_runs.forget_plans()
        self._callables.forget_plans()

    # Steps

    async def run(
        self,
        options: Any,
        feeds: Sequence[tuple[str, Any]],
        output_names: Sequence[str],
        target_names: Sequence[str],
        metadata: Any = None,
    ) -> list[Any]:
        graph = self._checked_graph("Run()")
        step_options = StepOptions.from_proto(options)
        with self.scope_of(step_options) as scope:
            turn = await self.steps.turn()
            try:
                names = (tuple(name for name, _ in feeds), tuple(output_names), tuple(target_names))
                step = await self._step_of(graph, *names)
                return await step.run(self, [value for _, value in feeds], step_options, metadata, scope)
            finally:
                self.steps.leave(turn)

    async def _step_of(
        self, graph: Graph, feeds: tuple[str, ...], outputs: tuple[str, ...], targets: tuple[str, ...]
    ) -> NamedStep:
        step = self._named.get((feeds, outputs, targets))
        if step is None:
            signature = signature_of(graph, feeds, outputs, targets)
            step = NamedStep(await self.executor(signature), signature, outputs)
            self._named[feeds, outputs, targets] = step
        return step

    async def run_step(
        self, executor: Any, feeds: Sequence[Any], options: StepOptions, metadata: Any, scope: StepScope
    ) -> list[Any]:
        planned = executor.executor if isinstance(executor, Reordered) else executor
        report = self._reports.begin(planned, options, metadata)
        settings = StepSettings(scope.deadline, self.workers(options.inter_op_thread_pool), report.collector)
        began = perf_counter_ns()
        try:
            outputs: list[Any] = await executor.step(feeds, settings)
            if self._must_sync:
                await self.device_mgr.sync()
        except BaseException as error:
            reported = report.record_failure(error, perf_counter_ns() - began)
            if reported is error:
                raise
            raise reported from error
        report.record_success(feeds, outputs, perf_counter_ns() - began)
        if metadata is not None:
            await self.in_planner(report.write)
        return outputs

    def export_cost_models(self) -> list[CostModel]:
        """The measured costs of nodes: a model for each signature that ran often enough (`build_cost_model`)."""
        return self._reports.cost_models()

    @property
    def runs_nowait(self) -> bool:
        return super().runs_nowait and not self._reports.are_always_made and not self._must_sync

    async def partial_run_setup(
        self, feed_names: Sequence[str], output_names: Sequence[str], target_names: Sequence[str]
    ) -> str:
        graph = self._checked_graph("PRunSetup()")
        names = (tuple(feed_names), tuple(output_names), tuple(target_names))
        return self._partial_runs.open(names) or await self._partial_runs.setup(graph, names)

    def open_partial_run(
        self, feed_names: tuple[str, ...], output_names: tuple[str, ...], target_names: tuple[str, ...]
    ) -> str | None:
        return self._partial_runs.open((feed_names, output_names, target_names))

    async def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], output_names: Sequence[str]
    ) -> list[Any]:
        if not self._partial_runs.is_open(handle):
            self._check_usable()
        names, values = tuple([name for name, _ in feeds]), [value for _, value in feeds]
        return await self._partial_runs.run(handle, names, values, tuple(output_names))

    def begin_partial_run(
        self, handle: str, feed_names: tuple[str, ...], values: Sequence[Any], output_names: tuple[str, ...]
    ) -> list[Any] | Awaitable[list[Any]]:
        begun = self._partial_runs.begin(handle, feed_names, values, output_names)
        return super().begin_partial_run(handle, feed_names, values, output_names) if begun is None else begun

    async def make_callable(self, options: Any) -> int:
        graph = self._checked_graph("MakeCallable()")
        return await self._callables.make(graph, options)

    async def run_callable(self, handle: int, feeds: Sequence[Any], metadata: Any = None) -> list[Any]:
        self._check_usable()
        return await self._callables.run(handle, feeds, metadata)

    async def release_callable(self, handle: int) -> None:
        self._check_usable()
        self._callables.release(handle)

    def kept_tensor(self, handle: str) -> Any:
        return self._state_of(handle).find(handle)

    def forget_tensor(self, handle: str) -> None:
        self._state_of(handle).discard(handle)

    def _state_of(self, handle: str) -> SessionState:
        return session_state(self.device_mgr.lookup_device(device_of(handle)).resources)

    async def convert(self, call: Callable[[], Result]) -> Result:
        job: Job[Result] = self.engine.workers.submit(call)
        return await job.result()

    # The end

    async def reset(self, containers: Sequence[str]) -> None:
        """Drop the resources of these containers, on every device; an empty list means the default container."""
        self.device_mgr.clear_containers(containers)

    def about_to_close(self) -> None:
        """Let active runs end without waiting for compilers; the name and version may be used again."""
        super().about_to_close()
        self._forget(self)
        self.engine.stop_building()

    async def shut_down(self) -> None:
        await self._partial_runs.abandon()
        await self.release()
        self.forget_plans()


def _asked(signature: Signature) -> Asked:
    return (
        frozenset(signature.feeds),
        frozenset(signature.fetches),
        frozenset(signature.targets),
        signature.is_partial,
        frozenset(signature.connections),
    )
