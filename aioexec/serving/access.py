"""Which HTTP requests a server accepts: those with the token, and none that another site's page makes a browser send."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from aioexec.distributed.security.security import Security
from aioexec.errors import PermissionDeniedError, UnauthenticatedError
from aioexec.serving.page.static_files import is_static

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})
"""What a supervisor polls without a token."""


def token_check(security: Security) -> Middleware:
    """Return a middleware that refuses requests without the token."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_open = request.path in OPEN_PATHS or is_static(request.path)
        if not is_open and not security.is_token_of(request.headers.get("Authorization", "")):
            raise UnauthenticatedError(
                "expected the header 'Authorization: Bearer TOKEN' with the server's token"
            )
        return await handler(request)

    return check


@web.middleware
async def refuse_other_hosts(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests whose Host (DNS rebinding) or Origin (a page of another site) is not this machine."""
    for header, value in (("Host", f"//{request.host}"), ("Origin", request.headers.get("Origin"))):
        if value is not None and not _is_this_machine(value):
            raise PermissionDeniedError(f"expected {header} to name this machine, got {value!r}")
    return await handler(request)


@web.middleware
async def refuse_cross_site(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests whose Origin is another site than their Host."""
    origin = request.headers.get("Origin")
    if origin is not None and _parts(origin) != _parts(f"//{request.host}"):
        raise PermissionDeniedError(f"expected Origin to name the server, got {origin!r}")
    return await handler(request)


@lru_cache(maxsize=64)
def _is_this_machine(url: str) -> bool:
    """Whether the host of a URL is a loopback address; clients repeat few of them, and parsing takes 10 µs."""
    return _is_loopback(_parts(url)[0])


def _parts(url: str) -> tuple[str, int | None]:
    """The host and port of a URL; "" without a host."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
