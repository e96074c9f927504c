"""Steps defined by names of tensors and operations, as in the C++ interface and in callables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from aioexec.data_classes import dataclass
from aioexec.devices.device import Device
from aioexec.devices.device_set import DeviceMgr
from aioexec.devices.threads.workers import Workers
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.execution.executor import Executor
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation, Tensor
from aioexec.planning.subgraph import Signature
from aioexec.sessions.feeds import FeedConverter, convert_feeds
from aioexec.sessions.names import canonical, fed_tensor, find_operation, parse_tensor_name, signature_of
from aioexec.sessions.reordering import Reordered
from aioexec.sessions.run_options import StepOptions
from aioexec.sessions.steps import Steps, StepScope

Result = TypeVar("Result")


class LocalRuntime(Protocol):
    """The part of `DirectSession` with which named steps and partial runs are planned and run; the attributes are its own."""

    steps: Steps
    pools: list[Workers]
    device_mgr: DeviceMgr
    session_handle: str

    @property
    def client_device(self) -> Device: ...
    def scope_of(self, options: StepOptions) -> StepScope: ...
    async def executor(self, signature: Signature) -> Executor | Reordered: ...
    async def convert(self, call: Callable[[], Result]) -> Result: ...
    async def run_step(
        self, executor: Any, feeds: Sequence[Any], options: StepOptions, metadata: Any, scope: StepScope
    ) -> list[Any]: ...


class NamedStep:
    """A step defined by names: its executor, the converters of its feeds, and for each output its position in the results
    (`places`)."""

    __slots__ = ("converters", "executor", "places")

    def __init__(
        self, executor: Executor | Reordered, signature: Signature, output_names: Sequence[str]
    ) -> None:
        fetched = {tensor.name: place for place, tensor in enumerate(signature.fetches)}
        self.executor = executor
        self.converters = [FeedConverter(tensor) for tensor in signature.feeds]
        self.places = [fetched[canonical(name)] for name in output_names]

    async def run(
        self,
        session: LocalRuntime,
        feeds: Sequence[Any],
        options: StepOptions,
        metadata: Any,
        scope: StepScope,
    ) -> list[Any]:
        """Run the step; values are in the order of the names of feeds and outputs."""
        values = await convert_feeds(self.converters, feeds, session.convert)
        outputs = await session.run_step(self.executor, values, options, metadata, scope)
        return self.ordered(outputs)

    def ordered(self, outputs: Sequence[Any]) -> list[Any]:
        """The executor's outputs in the order of the outputs' names."""
        return [outputs[place] for place in self.places]


@dataclass(slots=True)
class _Callable:
    """The definition of a callable's step; `step` is None if it has to be planned again.

    `signature` is what it feeds and fetches, `outputs` the names of its results in order, `options` those of every run.
    """

    step: NamedStep | None
    signature: Signature
    outputs: Sequence[str]
    options: StepOptions


class Callables:
    """The prepared steps of a direct session, by handle; `_made` counts all, including those released."""

    def __init__(self, session: LocalRuntime) -> None:
        self._session = session
        self._steps: dict[int, _Callable] = {}
        self._made = 0

    async def make(self, graph: Graph, options: Any) -> int:
        """Prepare the step that a CallableOptions proto describes.

        Raises:
            OpError: there is no such step, or it has options that are not supported.
        """
        session = self._session
        step_options = StepOptions.from_proto(options.run_options)
        self._check_devices(options)
        signature = signature_of(graph, list(options.feed), list(options.fetch), list(options.target))
        signature = _connected(graph, signature, options.tensor_connection)
        with session.scope_of(step_options):
            step = NamedStep(await session.executor(signature), signature, list(options.fetch))
        handle = self._made
        self._made += 1
        self._steps[handle] = _Callable(step, signature, list(options.fetch), step_options)
        return handle

    def _check_devices(self, options: Any) -> None:
        """Check that feeds and fetches are in the memory of the client device."""
        client = self._session.client_device
        for name, device in (*options.feed_devices.items(), *options.fetch_devices.items()):
            if self._session.device_mgr.lookup_device(device) is not client:
                raise UnimplementedError(
                    f"CallableOptions: {name} cannot be fed from or fetched to {device}, only {client.name}"
                )

    async def run(self, handle: int, feeds: Sequence[Any], metadata: Any) -> list[Any]:
        """Run a prepared step.

        Raises:
            InvalidArgumentError: no step has this handle; another number of values than of feeds.
        """
        session = self._session
        self._check_made(handle)
        found = self._steps.get(handle)
        if found is None:
            raise InvalidArgumentError(f"Attempted to run callable after handle was released: {handle}")
        expected = len(found.signature.feeds)
        if len(feeds) != expected:
            raise InvalidArgumentError(f"Expected {expected} feed tensors, but got {len(feeds)}")
        with session.scope_of(found.options) as scope:
            turn = await session.steps.turn()
            try:
                step = found.step
                if step is None:
                    executor = await session.executor(found.signature)
                    step = found.step = NamedStep(executor, found.signature, found.outputs)
                return await step.run(session, feeds, found.options, metadata, scope)
            finally:
                session.steps.leave(turn)

    def forget_plans(self) -> None:
        """Discard all plans, so that every step is planned again at its next run."""
        for each in self._steps.values():
            each.step = None

    def release(self, handle: int) -> None:
        """Release a step; a second call does nothing.

        Raises:
            InvalidArgumentError: no step had this handle.
        """
        self._check_made(handle)
        self._steps.pop(handle, None)

    def _check_made(self, handle: int) -> None:
        if not 0 <= handle < self._made:
            raise InvalidArgumentError(f"No such callable handle: {handle}")


def _connected(graph: Graph, signature: Signature, connections: Iterable[Any]) -> Signature:
    """The signature with tensors connected to other tensors in their place, which count as fed.

    Raises:
        InvalidArgumentError: a source is unknown, a destination occurs twice, or the graph would have a cycle.
        NotFoundError: a destination is unknown.
    """
    made: list[tuple[Tensor, Tensor]] = []
    fed = set(signature.feeds)
    for connection in connections:
        source = _source(graph, connection.from_tensor)
        destination = fed_tensor(graph, connection.to_tensor)
        if destination in fed:
            raise InvalidArgumentError(f'Endpoint "{destination.name}" fed more than once.')
        if destination in signature.fetches:
            raise InvalidArgumentError(f"{destination.name} is both fed and fetched.")
        fed.add(destination)
        made.append((source, destination))
    sources = {destination: source for source, destination in made}
    for destination, source in sources.items():
        if _reaches(destination, source, set(signature.feeds), sources):
            raise InvalidArgumentError(
                f"Tensor connection from {source.name!r} to {destination.name!r} would create a cycle"
            )
    return Signature(signature.feeds, signature.fetches, signature.targets, signature.is_partial, tuple(made))


def _source(graph: Graph, name: str) -> Tensor:
    node, index = parse_tensor_name(name)
    op = find_operation(graph, node)
    if op is None:
        raise InvalidArgumentError(f"Tensor connection from unknown node: {name}")
    if index >= len(op.outputs):
        raise InvalidArgumentError(f"Tensor connection from unknown edge: {name}")
    return op.outputs[index]


def _reaches(destination: Tensor, source: Tensor, feeds: set[Tensor], sources: dict[Tensor, Tensor]) -> bool:
    """Whether `source` depends on a consumer of `destination`, with all connections made."""
    seen: set[Operation] = set()
    stack = [source.op]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if destination in op.inputs:
            return True
        wired = [sources.get(tensor, tensor) for tensor in op.inputs]
        stack.extend(tensor.op for tensor in wired if tensor not in feeds)
        stack.extend(op.control_inputs)
    return False
