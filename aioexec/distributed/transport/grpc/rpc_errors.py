"""OpErrors as the status of a call and back, as TensorFlow's servers have them.

Long messages are cut; payloads are sent in the trailing metadata, as a GrpcPayloadContainer. Both together must fit into the
8 KiB that gRPC allows for headers, else the caller would get an error about the size instead.
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
)  # of the message as it travels, where most characters but ASCII take three for a byte
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
"""The start of gRPC's message when a connection failed; it does not say which one."""

_RESET: Final = "CANCELLED"
"""gRPC's message for a call that the other side has reset without a status; errors of handlers have other texts."""

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}
_AS_THEY_ARE: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")

Status = tuple[grpc.StatusCode, str, tuple[tuple[str, bytes], ...]]


def status_of(error: OpError) -> Status:
    """Code, message and trailing metadata of a call that fails with this."""
    code = _CODES.get(error.error_code, _CODES[UNKNOWN])
    metadata: tuple[tuple[str, bytes], ...] = ()
    if error.payloads:
        payloads = GrpcPayloadContainer(payloads=error.payloads).SerializeToString()
        if len(payloads) <= _MOST_PAYLOAD_BYTES:
            metadata = ((DETAILS_KEY, payloads),)
    return code, truncated(message_of(error)), metadata


def truncated(message: str) -> str:
    """A message, cut to the length that TensorFlow sends and that fits into the headers."""
    kept = message[:_LONGEST]
    while (size := len(quote(kept, safe=_AS_THEY_ARE, errors="replace"))) > _MOST_ENCODED_BYTES:
        kept = kept[: len(kept) * _MOST_ENCODED_BYTES // size]
    return kept if kept == message else kept + _CUT


def error_of(failed: grpc.aio.AioRpcError, address: str) -> OpError:
    """The error that a call has ended with."""
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
                return {}  # another kind of details, which TensorFlow does not send
    return {}


def stopped() -> UnavailableError:
    """The error of calls to a listener that has stopped taking calls."""
    return UnavailableError("the server is shutting down")


def cancelled() -> CancelledError:
    """The error of calls whose handlers were cancelled, but not by their callers."""
    return CancelledError("the call was cancelled")
