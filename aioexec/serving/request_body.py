"""The body of a request: read within a time, and decompressed to no more bytes than a body may have."""

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
    """Read the body, in a time that allows for the longest one over a slow network.

    Raises:
        InvalidArgumentError: the chunks or the compression of it are malformed.
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
    """Undo the Content-Encoding of a body.

    aiohttp would do so as the body arrives, and continues for seconds after a body has turned out to be too large.

    Raises:
        InvalidArgumentError: the compression of it is malformed.
        web.HTTPException: it is too large, or of another compression than gzip and deflate.
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
        raise InvalidArgumentError(f"the request's body is not {coding}: expected one stream, and all of it")
    return content
