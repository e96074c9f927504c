"""Reads and decompresses request bodies, with limits on time and on bytes, before and after decompression."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final

from aiohttp import web

from aioexec.errors import InvalidArgumentError
from aioexec.in_thread import in_thread
from aioexec.serving.application_keys import DECOMPRESSES, LIMITS

_SECONDS: Final = 30.0
_SLOWEST_BYTES_A_SECOND: Final = 1 << 16

_ANY_HEADER: Final = 32 + zlib.MAX_WBITS  # of gzip and of zlib


async def read_json(request: web.Request) -> bytes:
    """Read a body of JSON.

    Raises:
        InvalidArgumentError: malformed chunks or compression.
        web.HTTPException: it is too large, or takes too long; its encoding is neither gzip nor deflate.
    """
    return await read(request, request.app[LIMITS].json_bytes)


async def read(request: web.Request, most: int) -> bytes:
    """Read a body of at most so many bytes; the timeout suffices for the largest one over a slow network.

    Raises:
        InvalidArgumentError: malformed chunks or compression.
        web.HTTPException: it is too large, or takes too long; its encoding is neither gzip nor deflate.
    """
    if (request.content_length or 0) > most:
        raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=request.content_length or 0)
    if request.content.is_eof():  # a short body arrives with its head
        body = request.content.read_nowait()
        _check_size(body, most)
    else:
        body = await _read_in_time(request, most)
    return await _decompressed(request, body, most) if request.app[DECOMPRESSES] else body


async def _read_in_time(request: web.Request, most: int) -> bytes:
    seconds = _SECONDS + most / _SLOWEST_BYTES_A_SECOND
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most)
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"expected the body within {seconds:g} s") from None
    except web.RequestPayloadError as error:
        raise InvalidArgumentError(f"the request's body is malformed: {error}") from error


async def _read(request: web.Request, most: int) -> bytes:
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        _check_size(body, most)
    return bytes(body)


def _check_size(body: bytes | bytearray, most: int) -> None:
    if len(body) > most:
        raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=len(body))


async def _decompressed(request: web.Request, body: bytes, most: int) -> bytes:
    """Decompress a body by its Content-Encoding.

    aiohttp would do so as the body arrives, and continue for seconds after a body exceeds the limit.
    """
    coding = request.headers.get("Content-Encoding", "identity").lower()
    if coding == "identity":
        return body
    if coding not in ("gzip", "deflate"):
        raise web.HTTPUnsupportedMediaType(text="expected a Content-Encoding of gzip, deflate or identity")
    decompressor = zlib.decompressobj(_ANY_HEADER)
    try:
        content = await in_thread(decompressor.decompress, body, most + 1)
    except zlib.error as error:
        raise InvalidArgumentError(f"the request's body is not {coding}: {error}") from error
    _check_size(content, most)
    if not decompressor.eof or decompressor.unused_data:
        raise InvalidArgumentError(f"the request's body is not {coding}: expected one complete stream")
    return content
