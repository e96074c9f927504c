"""Reads and decompresses request bodies, with limits on time and on decompressed bytes."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from aiohttp import web

from aioexec.errors import InvalidArgumentError
from aioexec.in_thread import in_thread

_SECONDS: Final = 30.0
_SLOWEST_BYTES_A_SECOND: Final = 1 << 16

_ANY_HEADER: Final = 32 + zlib.MAX_WBITS  # of gzip and of zlib


async def read(request: web.Request) -> bytes:
    """Read the body; the timeout suffices for the largest one over a slow network.

    Raises:
        InvalidArgumentError: malformed chunks or compression.
        web.HTTPException: it is too large, or takes too long.
    """
    seconds = _SECONDS + request.client_max_size / _SLOWEST_BYTES_A_SECOND
    try:
        async with asyncio.timeout(seconds):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"expected the body within {seconds:g} s") from None
    except web.RequestPayloadError as error:
        raise InvalidArgumentError(f"the request's body is malformed: {error}") from error


async def decompress(request: web.Request, body: bytes) -> bytes:
    """Decompress a body by its Content-Encoding.

    aiohttp would do so as the body arrives, and continue for seconds after a body exceeds the limit.

    Raises:
        InvalidArgumentError: malformed compression.
        web.HTTPException: it is too large, or the encoding is neither gzip nor deflate.
    """
    coding = request.headers.get("Content-Encoding", "identity").lower()
    if coding == "identity":
        return body
    if coding not in ("gzip", "deflate"):
        raise web.HTTPUnsupportedMediaType(text="expected a Content-Encoding of gzip, deflate or identity")
    most = request.client_max_size
    decompressor = zlib.decompressobj(_ANY_HEADER)
    try:
        content = await in_thread(decompressor.decompress, body, most + 1)
    except zlib.error as error:
        raise InvalidArgumentError(f"the request's body is not {coding}: {error}") from error
    if len(content) > most:
        raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=len(content))
    if not decompressor.eof or decompressor.unused_data:
        raise InvalidArgumentError(f"the request's body is not {coding}: expected one complete stream")
    return content
