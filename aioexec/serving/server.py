"""`serve`: serves one model over HTTP within an `async with` block."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from aioexec.data_classes import dataclass
from aioexec.errors import PermissionDeniedError
from aioexec.graph.node import Tensor
from aioexec.serving.application import LARGEST_REQUEST, application
from aioexec.serving.connections import connections_of
from aioexec.serving.model import Model, Runner


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its address, and the model's name."""

    url: str
    name: str

    @property
    def predict_url(self) -> str:
        """The URL for POST requests of {"instances": …}."""
        return f"{self.url}/v1/models/{self.name}:predict"


@asynccontextmanager
async def serve(
    session: Runner,
    inputs: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    *,
    name: str = "default",
    host: str = "127.0.0.1",
    port: int = 0,
    largest_request: int = LARGEST_REQUEST,
) -> AsyncIterator[Server]:
    """Serve a session's graph over HTTP in the block; port 0 is any free one.

        async with ax.Session() as session:
            async with serve(session, {"images": images}, {"classes": classes}, name="digits") as server:
                print(server.predict_url)

    Cross-site requests by a browser on this machine are refused: their Host or Origin names another host. A client that
    disconnects cancels its step. The session is not closed at the end.

    Raises:
        PermissionDeniedError: `host` is not a loopback address.
    """
    _check_loopback(host)
    models = {name: Model(session, inputs, outputs)}
    app = application(models, largest_request=largest_request)
    app.middlewares.append(_refuse_cross_site)
    try:
        async with connections_of(app) as connections:
            listening = await asyncio.get_running_loop().create_server(connections, host, port)
            try:
                address, bound_port, *_ = listening.sockets[0].getsockname()
                shown = f"[{address}]" if ":" in address else address
                yield Server(f"http://{shown}:{bound_port}", name)
            finally:
                listening.close()
    finally:
        models.clear()


@web.middleware
async def _refuse_cross_site(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests whose Host (DNS rebinding) or Origin (a page of another site) is not this machine."""
    for header, value in (("Host", f"//{request.host}"), ("Origin", request.headers.get("Origin"))):
        if value is not None and not _is_loopback(_host_of(value)):
            raise PermissionDeniedError(f"expected {header} to name this machine, got {value!r}")
    return await handler(request)


def _host_of(url: str) -> str:
    """The host of a URL; "" if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_loopback(host: str) -> None:
    if not _is_loopback(host):
        raise PermissionDeniedError(
            f"serve: host must be a loopback address, got {host!r}: there is neither TLS nor a token yet"
        )
