"""An HTTP server in memory: connections whose bytes are written and read here, without sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from aioexec.serving import Repository, application
from aioexec.serving.connections import Connections, connections_of

_TURNS: Final = 5  # of the loop, within which a server's task takes its next step if it has one


class Answer(NamedTuple):
    """One answer of the server: its status, content type, and body."""

    status: int
    content_type: str
    body: bytes

    @property
    def json(self) -> Any:
        """The parsed body."""
        return json.loads(self.body)


class MemoryConnection(asyncio.Transport):
    """The client's end of a connection: what the server writes is in `written`, unless the client does not read."""

    def __init__(self, protocol: asyncio.Protocol, *, reads: bool = True) -> None:
        super().__init__()
        self.written = bytearray()
        self.lost = asyncio.get_running_loop().create_future()
        self._protocol = protocol
        self._reads = reads
        self._is_closing = False
        protocol.connection_made(self)

    def send(self, data: bytes) -> None:
        """Have the server receive bytes, unless it has closed the connection."""
        if not self._is_closing:
            self._protocol.data_received(data)

    def leave(self) -> None:
        """Close the connection from the client's side."""
        if not self._is_closing:
            self.abort()

    async def answers(self) -> list[Answer]:
        """Wait until the server has nothing more to do for what it received; return its answers so far."""
        idle = 0
        while not self.lost.done() and idle < _TURNS:
            await asyncio.sleep(0)
            idle = idle + 1 if _is_idle(self._protocol) else 0
        return parsed(bytes(self.written))

    # Called by the server

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, pieces: Any) -> None:
        for piece in pieces:
            self.written += piece

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True
        if self._reads:
            self.abort()

    def abort(self) -> None:
        self._is_closing = True
        if not self.lost.done():
            self.lost.set_result(None)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name in ("peername", "sockname") else default


def _is_idle(protocol: Any) -> bool:
    """Whether the server's task waits for the client: for a request, or for more of a body, answered or not."""
    if not protocol._request_in_progress:
        return True
    request = protocol._current_request
    return request is not None and getattr(request._payload, "_waiter", None) is not None


def parsed(data: bytes) -> list[Answer]:
    """Read HTTP answers as they follow each other; 100 Continue is left out.

    Each has a Content-Length. One to HEAD has no body: the next answer follows at once, or nothing.
    """
    found = []
    while data:
        head, separator, data = data.partition(b"\r\n\r\n")
        assert separator, head
        first, *lines = head.decode("ascii").split("\r\n")
        version, status, _ = first.split(" ", 2)
        assert version.startswith("HTTP/"), first
        if status == "100":
            continue
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", 0))
        if not data or data.startswith(b"HTTP/"):
            length = 0
        assert len(data) >= length, "an answer is written as a whole"
        found.append(Answer(int(status), headers.get("content-type", "").partition(";")[0], data[:length]))
        data = data[length:]
    return found


@asynccontextmanager
async def connections(models: Repository | Mapping[str, Any], **options: Any) -> AsyncIterator[Connections]:
    """The connections of a server of these models; a call is the protocol of a new one."""
    async with connections_of(application(models, **options)) as opened:
        yield opened


def post(path: str, body: bytes, *headers: str) -> bytes:
    """The bytes of a POST request."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode("utf-8", "surrogateescape") + body
