"""Parses the bytes of one HTTP/1.1 response, as aiohttp's server writes it, into ASGI messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aioexec.serving.asgi.messages import Message

_DROPPED: Final = frozenset({b"connection", b"transfer-encoding"})
_BODILESS: Final = frozenset({204, 304})


class ResponseParser:
    """Takes bytes in pieces of any size and yields the messages that they complete.

    Constant: `_method` of the request. Changing: `_unread`, the bytes not parsed yet; `_left`, the bytes that the body or its
    current chunk still has, None before the head and between chunks; `_chunked`.
    """

    def __init__(self, method: str) -> None:
        self.has_started = False
        self.is_complete = False
        self._method = method
        self._unread = bytearray()
        self._left: int | None = None
        self._chunked = False

    def feed(self, data: bytes) -> Iterator[Message]:
        """Parse a further piece."""
        self._unread += data
        if not self.has_started:
            head, end, rest = bytes(self._unread).partition(b"\r\n\r\n")
            if not end:
                return
            self._unread[:] = rest
            yield self._start(head)
        body = b"".join(self._body())
        if body or self.is_complete:
            yield {"type": "http.response.body", "body": body, "more_body": not self.is_complete}

    def _start(self, head: bytes) -> Message:
        status_line, *lines = head.split(b"\r\n")
        status = int(status_line.split(b" ")[1])
        headers = [
            (name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)
        ]
        found = dict(headers)
        self.has_started = True
        self._chunked = b"transfer-encoding" in found
        if self._method == "HEAD" or status in _BODILESS:
            self.is_complete = True
        elif not self._chunked:
            self._left = int(found[b"content-length"])
        kept = [header for header in headers if header[0] not in _DROPPED]
        return {"type": "http.response.start", "status": status, "headers": kept}

    def _body(self) -> Iterator[bytes]:
        while not self.is_complete:
            if self._left is None and not self._begin_chunk():
                return
            assert self._left is not None
            piece = bytes(self._unread[: self._left])
            del self._unread[: len(piece)]
            self._left -= len(piece)
            yield piece
            if self._left:
                return
            if self._chunked:
                self._left = None
            else:
                self.is_complete = True

    def _begin_chunk(self) -> bool:
        """Read the size of the next chunk, if it is there; the one of size 0 ends the body."""
        start = 2 if self._unread.startswith(b"\r\n") else 0  # the end of the chunk before
        end = self._unread.find(b"\r\n", start)
        if end < 0:
            return False
        self._left = int(self._unread[start:end], 16)
        del self._unread[: end + 2]
        self.is_complete = self._left == 0
        return not self.is_complete
