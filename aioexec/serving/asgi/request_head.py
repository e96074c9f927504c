"""The head of an HTTP/1.1 request, from an ASGI scope."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from aioexec.errors import InvalidArgumentError
from aioexec.serving.asgi.messages import Scope

_CONNECTION_HEADERS: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding", b"upgrade", b"expect"}
)
"""What concerns the connection of the ASGI server with its client only."""

_WITHOUT_BODY: Final = ("GET", "HEAD", "OPTIONS")


def sends_chunks(scope: Scope) -> bool:
    """Whether the request has a body of unknown length, which is then sent in chunks."""
    names = {name.lower() for name, _ in scope["headers"]}
    if b"content-length" in names:
        return False
    return b"transfer-encoding" in names or scope["method"] not in _WITHOUT_BODY


def encode_head(scope: Scope) -> bytes:
    """Return the head of the request that a scope describes; its path is the one below the mount point.

    Raises:
        InvalidArgumentError: a line break in a part would begin another line. ASGI servers refuse such requests.
    """
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _CONNECTION_HEADERS]
    headers.append((b"connection", b"close"))
    if sends_chunks(scope):
        headers.append((b"transfer-encoding", b"chunked"))
    lines = [b"%s %s HTTP/1.1" % (scope["method"].encode(), _target(scope))]
    lines += [b"%s: %s" % header for header in headers]
    if any(byte in line for line in lines for byte in (b"\r", b"\n", b"\0")):
        raise InvalidArgumentError("the request's head contains a line break")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _target(scope: Scope) -> bytes:
    path = (scope.get("raw_path") or quote(scope["path"]).encode()).partition(b"?")[0]
    path = path.removeprefix(quote(scope.get("root_path", "")).encode().rstrip(b"/"))
    if not path.startswith(b"/"):
        path = b"/" + path
    query: bytes = scope.get("query_string", b"")
    return path + b"?" + query if query else path
