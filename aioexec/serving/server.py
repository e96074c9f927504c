"""`serve`: serves models over HTTP and gRPC within an `async with` block."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from aiohttp import web

from aioexec.data_classes import dataclass
from aioexec.distributed.security.security import Security, is_loopback
from aioexec.errors import FailedPreconditionError
from aioexec.in_thread import in_thread
from aioexec.serving.access import refuse_cross_site, refuse_other_hosts, token_check
from aioexec.serving.application import application
from aioexec.serving.application_keys import ADMISSION, REPOSITORY
from aioexec.serving.connections import GRACE_SECONDS, connections_of
from aioexec.serving.limits import Limits
from aioexec.serving.models.served_version import Model, Signature
from aioexec.serving.repository import Repository

if TYPE_CHECKING:
    from aioexec.distributed.transport.grpc.listener import GrpcListener

_HANDSHAKE_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its URL, its application, and its gRPC port if it has one."""

    url: str
    app: web.Application
    grpc: GrpcListener | None = None

    @property
    def grpc_address(self) -> str:
        """The address of the gRPC port, "host:port".

        Raises:
            FailedPreconditionError: the server has none.
        """
        if self.grpc is None:
            raise FailedPreconditionError("this server has no gRPC port: say serve(…, grpc_port=0)")
        return self.grpc.address

    @property
    def repository(self) -> Repository:
        """The models."""
        return self.app[REPOSITORY]

    def predict_url(self, name: str) -> str:
        """Return the URL for POST requests of {"instances": …} to a model."""
        return f"{self.url}/v1/models/{name}:predict"

    def drain(self) -> None:
        """Refuse further predictions with status 503, and say "not ready" to supervisors."""
        self.app[ADMISSION].is_draining = True
        if self.grpc is not None:
            self.grpc.drain()


@asynccontextmanager
async def serve(
    models: Repository | Mapping[str, Model | Signature],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    grpc_port: int | None = None,
    security: Security | None = None,
    limits: Limits | None = None,
    grace: float = GRACE_SECONDS,
) -> AsyncIterator[Server]:
    """Serve models over HTTP in the block, and over gRPC if it has a port; port 0 is any free one.

        async with serve({"digits": model}) as server:
            print(server.predict_url("digits"))

    A client that disconnects cancels its step. At the end of the block requests under way have `grace` seconds. The models are
    not closed. Cross-site requests by a browser are refused: their Origin is another site, or, on loopback without protection,
    their Host.

    Raises:
        FailedPreconditionError: `host` is not a loopback address, and `security` has neither a token, nor certificate and
            CA, nor `insecure`.
    """
    security = security or Security()
    await in_thread(security.check_listening, f"{host}:{port}")
    context = await in_thread(security.listening_context)
    app = application(models, limits=limits)
    await _protect(app, security, host)
    async with AsyncExitStack() as stack:
        connections = await stack.enter_async_context(connections_of(app, grace))
        listening = await asyncio.get_running_loop().create_server(
            connections,
            host,
            port,
            ssl=context,
            ssl_handshake_timeout=None if context is None else _HANDSHAKE_SECONDS,
        )
        stack.callback(listening.close)
        address, bound_port, *_ = listening.sockets[0].getsockname()
        shown = f"[{address}]" if ":" in address else address
        grpc = None
        if grpc_port is not None:
            grpc_listening = await in_thread(_import_grpc_listening)
            grpc = await stack.enter_async_context(
                grpc_listening(app, f"{shown}:{grpc_port}", security, grace)
            )
        yield Server(f"{'http' if context is None else 'https'}://{shown}:{bound_port}", app, grpc)


def _import_grpc_listening() -> Callable[..., AbstractAsyncContextManager[GrpcListener]]:
    """Import gRPC, which takes long, only for servers that use it."""
    from aioexec.serving.grpc_listening import grpc_listening

    return grpc_listening


async def _protect(app: web.Application, security: Security, host: str) -> None:
    """Add the checks of requests that `security` asks for."""
    is_local = await in_thread(is_loopback, f"{host}:0")
    app.middlewares.append(
        refuse_other_hosts if is_local and not security.trusts_all_users else refuse_cross_site
    )
    if security.token is not None:
        app.middlewares.append(token_check(security))
        if not is_local and not security.serves_tls:
            _log.warning("without TLS clients send their token in clear text")
