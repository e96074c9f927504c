"""A server: one task of a cluster, with its devices, its worker, its master, and its listeners.

    MADE ── start ──▶ SERVING ── stop ──▶ DRAINING ── steps over, or grace ──▶ STOPPED

The port is bound when the server is made, so that its target is known; calls are answered once it serves. A server belongs to
the loop it was made in. Clients in that loop call it without a socket (see `local`).
"""

from __future__ import annotations

import asyncio
import enum
import secrets
import sys
import warnings
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any

from aioexec.devices.device_set import DeviceMgr
from aioexec.devices.registry import DeviceFactory
from aioexec.distributed.cluster.cluster import addresses_of, make_server_def, own_address, task_name
from aioexec.distributed.master.master import Master
from aioexec.distributed.security.security import Security
from aioexec.distributed.server.draining import Draining
from aioexec.distributed.transport.liveness import Watched
from aioexec.distributed.transport.local import LocalListener
from aioexec.distributed.transport.loop_end import LoopEndGuard
from aioexec.distributed.transport.settings import Collection, Limits, Liveness
from aioexec.distributed.transport.transport import Listener, Transport
from aioexec.distributed.worker.worker import Worker
from aioexec.distributed.worker.worker_cache import WorkerCache
from aioexec.errors import FailedPreconditionError, NotFoundError
from aioexec.sessions.options import SessionOptions

PROTOCOLS = ("grpc",)


class State(enum.Enum):
    """The states of a server."""

    MADE = "made"
    SERVING = "serving"
    DRAINING = "draining"
    STOPPED = "stopped"


class Server:
    """One task of a cluster, in this process. Servers are made in a running loop.

    Constant: `server_def`, `task` (its name), `address`, `devices`, `worker`, `master`, `draining`. Changing: `_state`;
    `_starting`, the task that starts the listeners, while it runs; `_guard`, from `start` on.

    Args:
        server_or_cluster_def: a ServerDef, or an argument of ClusterSpec. Port 0 means any free one.
        job_name, task_index: the task; optional if there is only one.
        protocol: "grpc".
        config: ConfigProto of its devices, and the defaults of its sessions.
        start: serve at once.
        listen: the host to listen at, if not that of its address: "0.0.0.0" for all interfaces.
        security: certificates and a token; None: from the environment.
        insecure: listen beyond loopback without either.
        transport: replaces the default transport; `security`, `insecure` and `limits` are then unused.
        limits: bounds on received messages.
        liveness: when another task counts as lost.
        collection: when to close sessions that were left open.
        bits: the source of random numbers.

    Raises:
        GraphTypeError, GraphValueError: the task or cluster is malformed or ambiguous.
        InternalError: the cluster has no such task.
        InvalidArgumentError: a malformed address.
        NotFoundError: another protocol.
        UnavailableError: cannot listen at the address.
        FailedPreconditionError: listening there would be insecure; no loop runs.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
        *,
        listen: str | None = None,
        security: Security | None = None,
        insecure: bool = False,
        transport: Transport | None = None,
        limits: Limits | None = None,
        liveness: Liveness | None = None,
        collection: Collection | None = None,
        bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self._state = State.STOPPED  # until the constructor is done
        self._made_at = _caller()  # for the warning that it was never stopped
        _check_loop_runs()
        self.server_def = make_server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        _check_protocol(self.server_def.protocol)
        address = own_address(self.server_def)
        self.task = task_name(self.server_def.job_name, self.server_def.task_index)
        carrier = transport or _usual_transport(security, limits, insecure)
        options = SessionOptions.from_config("", self.server_def.default_session_config)
        self.devices = _make_devices(options, self.task, bits)
        # Channels to all tasks of the cluster.
        self.workers = WorkerCache(addresses_of(self.server_def), Watched(carrier, liveness or Liveness()))
        self.worker = Worker(self.task, self.devices, self.workers, options, bits)
        self.master = Master(self.task, self.worker, self.workers, options, bits, collection)
        self._listen(carrier, address, listen, serves_locally=transport is None)
        self._starting: asyncio.Task[None] | None = None
        self._guard: LoopEndGuard | None = None
        self._stopped = asyncio.Event()  # set when the state is STOPPED
        self._state = State.MADE
        if start:
            self.start()

    def _listen(self, carrier: Transport, address: str, host: str | None, serves_locally: bool) -> None:
        """Make the listeners: at the port of `address`, on `host` if given, and for clients in this loop."""
        self.draining = Draining(f"{self.task} at {address}")
        handlers = self.draining.wrap({**self.worker.handlers(), **self.master.handlers()})
        own_host, _, port = address.rpartition(":")
        try:
            listen_at = f"{host or own_host}:{port}"
            self._listener: Listener = carrier.listener(listen_at, handlers, self.master.on_peer_gone)
        except BaseException:
            self.devices.dismiss()
            raise
        self.address = f"{own_host}:{self._listener.address.rpartition(':')[2]}"
        self.workers.locate(self.task, self.address)
        self._local_listener = (
            LocalListener(self.address, handlers, self.master.on_peer_gone) if serves_locally else None
        )

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """A server that is a cluster of its own, at a free loopback port."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    @property
    def target(self) -> str:
        """The target for sessions on this server."""
        return f"grpc://{self.address}"

    def __repr__(self) -> str:
        return f"<Server {self.task} at {self.address}, {self._state.value}>"

    def start(self) -> None:
        """Serve from the loop's next iteration on; repeated calls have no effect.

        Raises:
            FailedPreconditionError: the server was stopped.
        """
        if self._state in (State.DRAINING, State.STOPPED):
            raise FailedPreconditionError(f"{self!r} cannot be started again: make another")
        if self._state is State.MADE:
            self._state = State.SERVING
            if self._local_listener is not None:
                self._local_listener.serve()
            self._starting = asyncio.ensure_future(self._listener.start())
            self._guard = LoopEndGuard(self._stop_at_loop_end, f"guard of {self.task}")

    async def _stop_at_loop_end(self) -> None:
        """Stop, and warn if no call of `stop` was under way. The warning comes last: a filter may turn it into an exception."""
        warning = self._unstopped_warning() if self._state is State.SERVING else None
        await self.stop()
        if warning is not None:
            warnings.warn(warning, ResourceWarning, stacklevel=1)

    async def serve(self) -> None:
        """Start, unless started, and wait until the server serves.

        Raises:
            FailedPreconditionError: the server was stopped.
            UnavailableError: the server cannot listen.
        """
        self.start()
        assert self._starting is not None
        await asyncio.shield(self._starting)

    async def join(self) -> None:
        """Wait until the server is stopped.

        Raises:
            UnavailableError: the server could not begin to serve.
        """
        if self._starting is not None:
            await asyncio.shield(self._starting)
        await self._stopped.wait()

    async def stop(self, grace: float | None = None) -> None:
        """Stop serving, and release devices, sessions and the port. Unlike TensorFlow's servers, this one can be stopped.

        New sessions are refused at once. Steps may go on for `grace` seconds (None: none), then they are cancelled.
        """
        if self._state in (State.DRAINING, State.STOPPED):
            await self._stopped.wait()
            return
        self._state = State.DRAINING
        try:
            async with AsyncExitStack() as ends:
                ends.push_async_callback(self.devices.close)
                ends.push_async_callback(self.workers.close)
                ends.push_async_callback(self.worker.close)
                ends.push_async_callback(self._stop_listeners)
                ends.push_async_callback(self.master.close, 0.0)
                await self._drain(grace)
        finally:
            self._state = State.STOPPED
            self._stopped.set()
            if self._guard is not None:
                await self._guard.end()

    async def _drain(self, grace: float | None) -> None:
        """Let the steps of sessions here end, and the parts of steps of other masters; meanwhile their calls are answered."""
        self.draining.drain()
        self._listener.drain()
        if self._starting is not None:
            await asyncio.wait([self._starting])
        if not grace:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self.master.close(grace)
                await self.draining.wait_until_quiet()

    async def _stop_listeners(self) -> None:
        """Stop taking calls, and end those under way."""
        async with AsyncExitStack() as ends:
            ends.push_async_callback(self._listener.stop)
            if self._local_listener is not None:
                await self._local_listener.stop()

    async def __aenter__(self) -> Server:
        try:
            await self.serve()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def __del__(self) -> None:
        if getattr(self, "_state", State.STOPPED) is not State.STOPPED:
            warnings.warn(self._unstopped_warning(), ResourceWarning, stacklevel=1)

    def _unstopped_warning(self) -> str:
        return f"{self!r}, {self._made_at}, was never stopped: stop it, or use `async with`"


def _caller() -> str:
    """The nearest caller outside this package, as "made at file:line"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("aioexec."):
        frame = frame.f_back
    if frame is None:
        return "made at an unknown place"
    return f"made at {frame.f_code.co_filename}:{frame.f_lineno}"


def _check_loop_runs() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise FailedPreconditionError(
            "a server belongs to an event loop: make it in a coroutine of that loop"
        ) from None


def _check_protocol(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise NotFoundError(
            f"No server factory registered for the given ServerDef: expected a protocol of {PROTOCOLS}, got {protocol!r}"
        )


def _make_devices(options: SessionOptions, task: str, bits: Callable[[int], int]) -> DeviceMgr:
    devices = DeviceFactory.add_devices(options, task)
    for device in devices:
        device.attributes = replace(device.attributes, incarnation=bits(64) or 1)
    return DeviceMgr(devices)


def _usual_transport(security: Security | None, limits: Limits | None, insecure: bool) -> Transport:
    from aioexec.distributed.transport.negotiated_transport import NegotiatedTransport  # loads grpc

    security = security or Security.from_environment()
    return NegotiatedTransport(replace(security, insecure=security.insecure or insecure), limits)
