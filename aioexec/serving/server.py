"""`serve`: serves models over HTTP within an `async with` block."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aiohttp import web

from aioexec.data_classes import dataclass
from aioexec.distributed.security.security import Security, is_loopback
from aioexec.in_thread import in_thread
from aioexec.serving.access import refuse_cross_site, refuse_other_hosts, token_check
from aioexec.serving.application import application
from aioexec.serving.application_keys import ADMISSION, REPOSITORY
from aioexec.serving.connections import GRACE_SECONDS, connections_of
from aioexec.serving.limits import Limits
from aioexec.serving.models.served_version import Model, Signature
from aioexec.serving.repository import Repository

_HANDSHAKE_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its URL, its repository, and its application."""

    url: str
    app: web.Application

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


@asynccontextmanager
async def serve(
    models: Repository | Mapping[str, Model | Signature],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    security: Security | None = None,
    limits: Limits | None = None,
    grace: float = GRACE_SECONDS,
) -> AsyncIterator[Server]:
    """Serve models over HTTP in the block; port 0 is any free one.

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
        yield Server(f"{'http' if context is None else 'https'}://{shown}:{bound_port}", app)


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
