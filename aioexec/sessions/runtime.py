"""Session runtimes: the implementations behind `Session`, with TensorFlow's C++ Session interface as coroutines.

A runtime is made by a `SessionFactory`. A user-defined one overrides `create`, `extend` and `run`, and the other methods that
it supports; `Session` then works with it as with the built-in ones:

    class EchoSession(SessionRuntime):
        async def create(self, graph_def): ...
        async def run(self, options, feeds, output_names, target_names, metadata=None):
            return [value for _, value in feeds]

A runtime identifies feeds and fetches by name; values are ndarrays. A runtime that has the graph itself (the direct one)
overrides `attach` and `executor` as well.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from aioexec.errors import UnimplementedError
from aioexec.execution.begun import NowaitResult
from aioexec.graph.graph import Graph
from aioexec.in_thread import in_thread
from aioexec.planning.subgraph import Signature
from aioexec.sessions.lifecycle import State
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.run_options import StepOptions
from aioexec.sessions.steps import Steps, StepScope

if TYPE_CHECKING:
    from aioexec.devices.device import DeviceAttributes


class SignatureExecutor(Protocol):
    """Runs the steps of one signature; feeds and results are in the signature's order."""

    def run_nowait(self, feeds: Iterable[Any]) -> NowaitResult:
        """Begin a step: its results, if it need not wait; None: it cannot begin now, and nothing was run."""
        ...


class SessionRuntime:
    """The base class of session runtimes, in which every method is unimplemented.

    `options` are the session's; `steps` are the active steps; every method that runs something is called inside
    `steps.scope()`. `on_closing` is called when no more are accepted. `_graph` is the argument of `attach`, `_sent` the number
    of its nodes that were sent to the runtime, under the lock `_sending`; the lock `_shutting_down` is held during
    `shut_down`.
    """

    def __init__(self, options: SessionOptions) -> None:
        self.options = options
        self.steps = Steps(options.max_steps_in_flight, options.refuse_when_busy)
        self._graph: Graph | None = None
        self._sent = 0
        self._sending = asyncio.Lock()
        self._shutting_down = asyncio.Lock()
        self.on_closing: weakref.WeakMethod[Callable[[], None]] | None = None

    # The Session interface

    async def create(self, graph_def: Any) -> None:
        """Set the graph; once."""
        raise UnimplementedError(f"{type(self).__name__} does not implement create")

    async def extend(self, graph_def: Any) -> None:
        """Add nodes to the graph."""
        raise UnimplementedError(f"{type(self).__name__} does not implement extend")

    async def run(
        self,
        options: Any,
        feeds: Sequence[tuple[str, Any]],
        output_names: Sequence[str],
        target_names: Sequence[str],
        metadata: Any = None,
    ) -> list[Any]:
        """Run a step: RunOptions or None, (name, value) pairs, names of tensors, names of operations, RunMetadata or None."""
        raise UnimplementedError(f"{type(self).__name__} does not implement run")

    async def partial_run_setup(
        self, feed_names: Sequence[str], output_names: Sequence[str], target_names: Sequence[str]
    ) -> str:
        """Start a step that is fed and fetched in parts, and return its handle."""
        raise UnimplementedError(f"{type(self).__name__} does not implement partial_run_setup")

    def open_partial_run(
        self, feed_names: tuple[str, ...], output_names: tuple[str, ...], target_names: tuple[str, ...]
    ) -> str | None:
        """Do the same without suspending, if the same names were set up before; else return None."""
        return None

    async def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], output_names: Sequence[str]
    ) -> list[Any]:
        """Feed more of a partial run, and wait for some of its outputs."""
        raise UnimplementedError(f"{type(self).__name__} does not implement partial_run")

    def begin_partial_run(
        self, handle: str, feed_names: tuple[str, ...], values: Sequence[Any], output_names: tuple[str, ...]
    ) -> list[Any] | Awaitable[list[Any]]:
        """Begin the same without suspending: returns the outputs, or an awaitable of them, to be awaited at once."""
        return self.partial_run(handle, list(zip(feed_names, values, strict=True)), output_names)

    async def make_callable(self, options: Any) -> int:
        """Prepare a step described by CallableOptions, and return its handle."""
        raise UnimplementedError(f"{type(self).__name__} does not implement make_callable")

    async def run_callable(self, handle: int, feeds: Sequence[Any], metadata: Any = None) -> list[Any]:
        """Run a prepared step: values in the order of `CallableOptions.feed`."""
        raise UnimplementedError(f"{type(self).__name__} does not implement run_callable")

    async def release_callable(self, handle: int) -> None:
        """Release a prepared step."""
        raise UnimplementedError(f"{type(self).__name__} does not implement release_callable")

    async def list_devices(self) -> list[DeviceAttributes]:
        raise UnimplementedError(f"{type(self).__name__} does not implement list_devices")

    async def reset(self, containers: Sequence[str]) -> None:
        """Drop the resources of these containers; an empty list means the default container."""
        raise UnimplementedError(f"{type(self).__name__} does not implement reset")

    async def close(self, grace: float | None = None) -> None:
        """Refuse further steps, wait for active ones, and release everything. A second call does nothing.

        Args:
            grace: seconds after which steps that are still active are cancelled: 0: at once, None: never.
        """
        if self.steps.life.is_open:
            self.about_to_close()
        await self.steps.end(grace)
        async with self._shutting_down:
            if self.steps.life.state is not State.CLOSED:
                await self.shut_down()
                self.steps.life.mark_released()

    def about_to_close(self) -> None:
        """Called once, before the active steps are ended: stop waits that only delay them."""
        front = None if self.on_closing is None else self.on_closing()
        if front is not None:
            front()

    async def shut_down(self) -> None:
        """Release everything; called by `close` when no step is active, again if it was cancelled."""

    # For Session

    @property
    def runs_nowait(self) -> bool:
        """Whether `SignatureExecutor.run_nowait` may be used."""
        return not self.steps.is_bounded

    def attach(self, graph: Graph) -> None:
        """Set the graph whose parts will be run; nodes may be added to it later."""
        self._graph = graph

    def scope_of(self, options: StepOptions) -> StepScope:
        """A step with the deadline of its options or, if that is not positive, the session's."""
        own = options.timeout_in_ms
        return self.steps.scope(own if own > 0 else self.options.operation_timeout_in_ms)

    async def executor(self, signature: Signature) -> SignatureExecutor:
        """The executor of a signature; by default one that calls `run` by name, after new nodes were sent by `extend`."""
        await self._send_graph()
        return RunByName(signature)

    async def run_step(
        self, executor: Any, feeds: Sequence[Any], options: StepOptions, metadata: Any, scope: StepScope
    ) -> list[Any]:
        """Run a step of an executor of this runtime."""
        assert isinstance(executor, RunByName)
        feeds_by_name = list(zip(executor.feeds, feeds, strict=True))
        return await self.run(options.proto, feeds_by_name, executor.outputs, executor.targets, metadata)

    def kept_tensor(self, handle: str) -> Any:
        """The value that a step stored in the session under this handle."""
        raise UnimplementedError(f"{type(self).__name__} does not implement session handles")

    def forget_tensor(self, handle: str) -> None:
        """Delete the value of a handle that is no longer referenced; from any thread."""

    async def convert(self, call: Any) -> Any:
        """Make a call that would block the loop in another thread; by default one of the loop's default executor."""
        return await in_thread(call)

    async def _send_graph(self) -> None:
        async with self._sending:
            graph = self._graph
            if graph is None or graph.version == self._sent:
                return
            version, send = graph.version, self.extend if self._sent else self.create
            await send(graph.as_graph_def(from_version=self._sent))
            self._sent = version


class RunByName:
    """An executor that passes names to `SessionRuntime.run`, for runtimes without executors.

    `feeds`, `outputs` and `targets` are the names of a signature, in its order.
    """

    __slots__ = ("feeds", "outputs", "targets")

    def __init__(self, signature: Signature) -> None:
        self.feeds = tuple(tensor.name for tensor in signature.feeds)
        self.outputs = tuple(tensor.name for tensor in signature.fetches)
        self.targets = tuple(op.name for op in signature.targets)

    def run_nowait(self, feeds: Iterable[Any]) -> list[Any] | None:
        return None
