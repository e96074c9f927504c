"""A session on a server, TensorFlow's or ours: `Session("grpc://host:port")`.

The first run sends the graph, later runs send the nodes added since, with the graph version of the server's last reply. Steps
refer to nodes by name. The server places, prunes and partitions the graph and holds the variables, which outlive the session.

Creation of the session waits for an unreachable server, until the operation's deadline. If the server is lost afterwards, steps
under way raise UnavailableError; if it was restarted, every later step raises AbortedError, since the session does not exist
any more.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from aioexec.devices.device import DeviceAttributes
from aioexec.distributed.client.client_errors import located
from aioexec.distributed.client.master_client import MasterClient
from aioexec.distributed.client.named_requests import NamedRequest, PreparedStep
from aioexec.distributed.client.step_requests import StepRequest
from aioexec.distributed.transport.status import error_from
from aioexec.distributed.transport.transport import Channel, Payload
from aioexec.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    UnimplementedError,
)
from aioexec.execution.budget import budget_of
from aioexec.formats.protos import (
    CloseSessionRequest,
    CreateSessionRequest,
    ExtendSessionRequest,
    ListDevicesRequest,
    MakeCallableRequest,
    PartialRunSetupRequest,
    ReleaseCallableRequest,
    RunCallableRequest,
)
from aioexec.in_thread import in_thread
from aioexec.planning.subgraph import Signature
from aioexec.sessions.names import canonical
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.reports import check_metadata, count_failure, count_success, give
from aioexec.sessions.run_options import DEFAULT, StepOptions
from aioexec.sessions.runtime import SessionRuntime
from aioexec.sessions.steps import StepScope

logger = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0
"""Seconds that `close` waits for the server's reply if `operation_timeout_in_ms` is not set."""

_MANY_NODES = 500
"""The most nodes that are exported on the event loop."""

_MOST_NAMED = 4096


class GrpcSession(SessionRuntime):
    """A session on the server behind a channel; belongs to one event loop, and closes the channel.

    Changing: `_handle`, the server's name for the session, "" before it is created; `_graph_version`, from the server's last
    reply; `_update`, the task that sends new nodes, if one runs: runs that await it may be cancelled; `_named`, requests by
    names; `_callables`, prepared steps by the server's handles; `_refused`, the server's error reply to the close.
    """

    def __init__(
        self, options: SessionOptions, channel: Channel, bits: Callable[[int], int] = secrets.randbits
    ) -> None:
        super().__init__(options)
        self._master = MasterClient(channel, bits)  # the server's master
        self._handle = ""
        self._graph_version = 0
        self._update: asyncio.Task[None] | None = None
        self._named: dict[Any, NamedRequest] = {}
        self._callables: dict[int, PreparedStep] = {}
        self._refused: OpError | None = None

    @property
    def runs_nowait(self) -> bool:
        return False

    def scope_of(self, options: StepOptions) -> StepScope:
        return self.steps.scope(self._timeout_in_ms(options))

    def _timeout_in_ms(self, options: StepOptions) -> int:
        """The lesser of the step's timeout and the session's; 0 for none."""
        own, session = options.timeout_in_ms, self.options.operation_timeout_in_ms
        if own > 0 and session > 0:
            return min(own, session)
        return max(own, session, 0)

    # The graph

    async def create(self, graph_def: Any) -> None:
        """Set the graph; for a session without one.

        Raises:
            AlreadyExistsError: there is one.
        """
        if self._handle:
            raise AlreadyExistsError("A Graph has already been created for this session.")
        await self._create(self._creation(graph_def))

    async def extend(self, graph_def: Any) -> None:
        """Add nodes to the graph.

        Raises:
            InvalidArgumentError: a node exists already, or does not fit; the graph is unchanged.
        """
        if self._handle:
            await self._extend(self._extension(graph_def))
        else:
            await self.create(graph_def)

    def _creation(self, graph_def: Any) -> CreateSessionRequest:
        options = self.options
        return CreateSessionRequest(graph_def=graph_def, config=options.config, target=options.target)

    def _extension(self, graph_def: Any) -> ExtendSessionRequest:
        return ExtendSessionRequest(
            session_handle=self._handle, graph_def=graph_def, current_graph_version=self._graph_version
        )

    async def _create(self, message: CreateSessionRequest) -> None:
        reply = await self._master.call_when_ready(
            "CreateSession", message, self.options.operation_timeout_in_ms
        )
        if not reply.session_handle:
            raise InternalError("CreateSession: expected a session handle from the server, got none")
        self._handle, self._graph_version = reply.session_handle, reply.graph_version

    async def _extend(self, message: ExtendSessionRequest) -> None:
        reply = await self._master.call("ExtendSession", message, (), self._deadline())
        self._graph_version = reply.message.new_graph_version

    async def _wait_until_ready(self, *, with_graph: bool = True) -> None:
        """Wait until the server has the session and, with `with_graph`, all nodes that exist now."""
        while not self._handle or (
            with_graph and self._graph is not None and self._graph.version != self._sent
        ):
            if self._graph is None and with_graph:
                raise InvalidArgumentError("Session was not created with a graph before Run()!")
            if self._update is None:
                self._update = asyncio.ensure_future(self._send_update(with_graph))
                self._update.add_done_callback(self._on_update_done)
            await asyncio.shield(self._update)

    async def _send_update(self, with_graph: bool) -> None:
        graph, sent = self._graph, self._sent
        if graph is None or not with_graph:
            await self._create(self._creation(None))
            return
        make = self._extension if self._handle else self._creation

        def export() -> Any:
            return make(graph.as_graph_def(from_version=sent))

        if graph.version - sent > _MANY_NODES:
            message = await in_thread(export)
        else:
            budget = budget_of(asyncio.get_running_loop())
            await budget.wait_for_turn()  # many sessions may be created at once
            began = perf_counter_ns()
            message = export()
            budget.charge(began, perf_counter_ns())
        await (self._extend(message) if self._handle else self._create(message))
        self._sent = sent + len(message.graph_def.node)

    def _on_update_done(self, task: asyncio.Task[None]) -> None:
        self._update = None
        if not task.cancelled():
            task.exception()  # retrieved, because all waiters may have been cancelled

    def _deadline(self) -> float | None:
        """The deadline of a call that is not a step."""
        timeout = self.options.operation_timeout_in_ms
        return asyncio.get_running_loop().time() + timeout / 1000 if timeout > 0 else None

    # Steps

    async def executor(self, signature: Signature) -> StepRequest:
        """Make the request for a signature, once the server has its nodes."""
        await self._wait_until_ready()
        return StepRequest.of_signature(self._handle, signature)

    async def run_step(
        self, executor: Any, feeds: Sequence[Any], options: StepOptions, metadata: Any, scope: StepScope
    ) -> list[Any]:
        assert isinstance(executor, StepRequest)
        check_metadata(metadata)
        if executor.is_local:
            return executor.echoed(feeds)
        message = executor.message(self._master.new_request_id(), options, self._timeout_in_ms(options))
        return await self._send_step(executor, message, feeds, metadata, scope)

    async def _send_step(
        self, request: StepRequest, message: Any, feeds: Sequence[Any], metadata: Any, scope: StepScope
    ) -> list[Any]:
        """Send the request of a step and wait for its results."""
        began = perf_counter_ns()
        try:
            reply = await self._master.call(
                "RunStep", message, request.place_tensors(message, feeds), scope.deadline
            )
            code = reply.message.status_code
            if code:
                raise error_from(code, reply.message.status_error_message)
            outputs = request.results(reply.message, reply.tensors, feeds)
        except BaseException as error:
            count_failure(error, perf_counter_ns() - began)
            if not isinstance(error, OpError):
                raise
            raise located(error, self._graph) from error.__cause__
        count_success(feeds, outputs, perf_counter_ns() - began)
        if metadata is not None:
            give(reply.message.metadata, metadata)
        return outputs

    async def run(
        self,
        options: Any,
        feeds: Sequence[tuple[str, Any]],
        output_names: Sequence[str],
        target_names: Sequence[str],
        metadata: Any = None,
    ) -> list[Any]:
        step_options = StepOptions.from_proto(options)
        check_metadata(metadata)
        with self.scope_of(step_options) as scope:
            turn = await self.steps.turn()
            try:
                await self._wait_until_ready()
                request = self._request(
                    [name for name, _ in feeds], [canonical(name) for name in output_names], target_names
                )
                values = await request.convert(feeds, self.convert)
                number = self._master.new_request_id()
                message = request.step.message(number, step_options, self._timeout_in_ms(step_options))
                return await self._send_step(request.step, message, values, metadata, scope)
            finally:
                self.steps.leave(turn)

    def _request(self, feeds: Sequence[str], outputs: Sequence[str], targets: Sequence[str]) -> NamedRequest:
        key = (*feeds, None, *outputs, None, *targets)
        found = self._named.get(key)
        if found is None:
            if len(self._named) >= _MOST_NAMED:
                self._named.clear()
            found = self._named[key] = NamedRequest(self._handle, self._graph, feeds, outputs, targets)
        return found

    # Partial runs

    async def partial_run_setup(
        self, feed_names: Sequence[str], output_names: Sequence[str], target_names: Sequence[str]
    ) -> str:
        with self.scope_of(DEFAULT) as scope:
            await self._wait_until_ready()
            message = PartialRunSetupRequest(
                session_handle=self._handle,
                feed=map(canonical, feed_names),
                fetch=map(canonical, output_names),
                target=target_names,
                request_id=self._master.new_request_id(),
            )
            reply = await self._call("PartialRunSetup", message, scope)
        handle: str = reply.message.partial_run_handle
        return handle

    async def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], output_names: Sequence[str]
    ) -> list[Any]:
        """Feed more of a partial run; names without a port are operations, whose value is None."""
        with self.scope_of(DEFAULT) as scope:
            tensors = [name for name in output_names if ":" in name]
            targets = [name for name in output_names if ":" not in name]
            request = self._request([name for name, _ in feeds], tensors, targets)
            values = await request.convert(feeds, self.convert)
            message = request.step.message(
                self._master.new_request_id(), DEFAULT, self._timeout_in_ms(DEFAULT)
            )
            message.partial_run_handle = handle
            outputs = await self._send_step(request.step, message, values, None, scope)
        by_name = dict(zip(tensors, outputs, strict=True))
        return [by_name.get(name) for name in output_names]

    # Callables

    async def make_callable(self, options: Any) -> int:
        """Prepare the step that a CallableOptions proto describes.

        Raises:
            UnimplementedError: the options name devices, or connect tensors; TensorFlow's servers ignore both silently.
            OpError: the server cannot prepare the step.
        """
        step_options = StepOptions.from_proto(options.run_options)
        for field in ("tensor_connection", "feed_devices", "fetch_devices"):
            if getattr(options, field):
                raise UnimplementedError(f"CallableOptions.{field} is not supported by sessions on a server")
        with self.scope_of(step_options) as scope:
            await self._wait_until_ready()
            message = MakeCallableRequest(
                session_handle=self._handle, options=options, request_id=self._master.new_request_id()
            )
            fetches = [canonical(name) for name in options.fetch]
            message.options.feed[:] = map(canonical, options.feed)
            message.options.fetch[:] = dict.fromkeys(fetches)  # TensorFlow's servers drop a repeated fetch
            reply = await self._call("MakeCallable", message, scope)
        handle: int = reply.message.handle
        self._callables[handle] = PreparedStep(self._graph, list(options.feed), fetches, step_options)
        return handle

    async def run_callable(self, handle: int, feeds: Sequence[Any], metadata: Any = None) -> list[Any]:
        """Run a prepared step.

        Raises:
            InvalidArgumentError: no step has this handle; or a wrong number of values, which would crash a TensorFlow server.
        """
        check_metadata(metadata)
        step = self._find_prepared(handle)
        with self.scope_of(step.options) as scope:
            turn = await self.steps.turn()
            try:
                values = await step.convert(feeds, self.convert)
                message = RunCallableRequest(
                    session_handle=self._handle, handle=handle, request_id=self._master.new_request_id()
                )
                reply = await self._call("RunCallable", message, scope, values)
            finally:
                self.steps.leave(turn)
        if metadata is not None:
            give(reply.message.metadata, metadata)
        return step.results(reply.tensors)

    async def release_callable(self, handle: int) -> None:
        self._find_prepared(handle)
        del self._callables[handle]
        with self.scope_of(DEFAULT) as scope:
            message = ReleaseCallableRequest(session_handle=self._handle, handle=handle)
            await self._call("ReleaseCallable", message, scope)

    def _find_prepared(self, handle: int) -> PreparedStep:
        step = self._callables.get(handle)
        if step is None:
            raise InvalidArgumentError(f"No such callable handle: {handle}")
        return step

    async def _call(self, name: str, message: Any, scope: StepScope, tensors: Sequence[Any] = ()) -> Payload:
        try:
            return await self._master.call(name, message, tensors, scope.deadline)
        except OpError as error:
            raise located(error, self._graph) from error.__cause__

    # Other calls

    def kept_tensor(self, handle: str) -> Any:
        """Refuse: the value is not in this process, and TensorFlow's servers keep none.

        Raises:
            UnimplementedError: always.
        """
        raise UnimplementedError(
            f"the tensor of {handle!r} is on the server: await `handle.eval()`, or feed `handle.handle` to what "
            f"`get_session_tensor` gives"
        )

    async def list_devices(self) -> list[DeviceAttributes]:
        with self.scope_of(DEFAULT) as scope:
            await self._wait_until_ready(with_graph=False)
            reply = await self._call("ListDevices", ListDevicesRequest(session_handle=self._handle), scope)
        found = (*reply.message.local_device, *reply.message.remote_device)
        return [DeviceAttributes.from_proto(each) for each in found]

    async def reset(self, containers: Sequence[str]) -> None:
        """Close all sessions of the server, including this one, and clear these containers, by default the default one."""
        await self._master.reset(self.options, containers)

    async def close(self, grace: float | None = None) -> None:
        """Close the session here and on the server.

        Raises:
            AbortedError: the server does not have the session any more.
        """
        await super().close(grace)
        refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    async def shut_down(self) -> None:
        if self._update is not None:
            self._update.cancel()
            await asyncio.wait([self._update])
        handle, self._handle = self._handle, ""
        try:
            if handle:
                await self._close_on_server(CloseSessionRequest(session_handle=handle))
        finally:
            await self._master.channel.close()

    async def _close_on_server(self, message: CloseSessionRequest) -> None:
        timeout = self.options.operation_timeout_in_ms / 1000
        seconds = timeout if timeout > 0 else CLOSE_SECONDS
        try:
            await self._master.channel.call("MasterService/CloseSession", Payload(message), seconds)
        except (UnavailableError, DeadlineExceededError) as error:
            logger.warning("%s was not notified that a session was closed: %s", self.options.target, error)
        except OpError as error:
            self._refused = error
