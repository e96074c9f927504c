"""Conversion of OpErrors to the status of a gRPC call and back, compatible with TensorFlow's servers.

Long messages are truncated; payloads are sent in the trailing metadata, as a GrpcPayloadContainer. Both together must fit into
the 8 KiB that gRPC allows for headers, otherwise the caller would get an error about the size instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

import grpc
from google.protobuf.message import DecodeError

from aioexec.distributed.transport.status import error_from, message_of
from aioexec.errors import UNKNOWN, CancelledError, OpError, UnavailableError
from aioexec.formats.protos import GrpcPayloadContainer

DETAILS_KEY: Final = "grpc-status-details-bin"

_LONGEST: Final = 3072
_CUT: Final = " ... [truncated]"
_MOST_ENCODED_BYTES: Final = (
    5 << 10
)  # of the encoded message, in which most characters except ASCII take three bytes per byte
_MOST_PAYLOAD_BYTES: Final = 1 << 10
_LOST: Final = (
    "Socket closed",
    "Connection reset",
    "Broken pipe",
    "recvmsg",
    "sendmsg",
    "GOAWAY",
    "Endpoint closing",
    "Stream removed",
)
"""Prefixes of gRPC's message for a failed connection, which does not name the peer."""

_RESET: Final = "CANCELLED"
"""gRPC's message for a call that the peer reset without a status; errors of handlers have other texts."""

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_AS_THEY_ARE: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

Status = tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]


def status_of(error: OpError) -> Status:
    """Code, message and trailing metadata of a call that fails with this error."""
    code = _CODES.get(error.error_code, _CODES[UNKNOWN])
    metadata: tuple[tuple[str, bytes], ...] = ()
    if error.payloads:
        payloads = GrpcPayloadContainer(payloads=error.payloads).SerializeToString()
        if len(payloads) <= _MOST_PAYLOAD_BYTES:
            metadata = ((DETAILS_KEY, payloads),)
    return code, truncated(message_of(error)), metadata


def truncated(message: str) -> str:
    """A message, truncated to TensorFlow's limit, which fits into the headers."""
    kept = message[:_LONGEST]
    while (size := len(quote(kept, safe=_AS_THEY_ARE, errors="replace"))) > _MOST_ENCODED_BYTES:
        kept = kept[: len(kept) * _MOST_ENCODED_BYTES // size]
    return kept if kept == message else kept + _CUT


def error_of(failed: grpc.aio.AioRpcError, address: str) -> OpError:
    """The error of a failed call."""
    code = failed.code()
    details = failed.details() or f"{code.name} from {address}"
    if code is grpc.StatusCode.CANCELLED and details == _RESET:
        return UnavailableError(f"{address} has ended the call: it is shutting down")
    if code is grpc.StatusCode.UNAVAILABLE and details.startswith(_LOST):
        details = f"the connection to {address} was lost: {details}"
    return error_from(code.value[0], details, _payloads(failed.trailing_metadata() or ()))


def _payloads(metadata: Iterable[tuple[str, str | bytes]]) -> Mapping[str, bytes]:
    for key, value in metadata:
        if key == DETAILS_KEY and isinstance(value, bytes):
            try:
                return dict(GrpcPayloadContainer.FromString(value).payloads)
            except DecodeError:
                return {}  # other details, which TensorFlow does not send
    return {}


def stopped_error() -> UnavailableError:
    """The error of calls to a stopped listener."""
    return UnavailableError("the server is shutting down")


def cancelled_error() -> CancelledError:
    """The error of calls whose handlers were cancelled by the listener."""
    return CancelledError("the call was cancelled")
