"""`inference.GRPCInferenceService`: the Open Inference Protocol over gRPC.

ServerLive, ServerReady, ServerMetadata, ModelReady, ModelMetadata, ModelInfer
ModelStreamInfer    requests of one stream run at the same time; replies come in the order of the requests
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError, Message

from aioexec.distributed.transport.grpc.services import Send, Services, Unary, host_of
from aioexec.distributed.transport.transport import Call
from aioexec.errors import InvalidArgumentError, from_exception
from aioexec.formats.message_fields import delimited, delimited_key
from aioexec.serving.admission import Admission
from aioexec.serving.kserve import metadata
from aioexec.serving.kserve.grpc_messages import decode_request, encode_reply
from aioexec.serving.kserve.inference import infer
from aioexec.serving.protos import inference_pb2 as pb
from aioexec.serving.repository import Repository

SERVICE: Final = "inference.GRPCInferenceService"

_MOST_AT_ONCE: Final = 32
"""Requests of one stream that run at the same time; the next is read when the oldest reply is sent."""

_INFER_RESPONSE_KEY: Final = delimited_key(pb.ModelStreamInferResponse.INFER_RESPONSE_FIELD_NUMBER)

M = TypeVar("M", bound=Message)


def services(repository: Repository, admission: Admission) -> Services:
    """Return the methods of the service over the models of a repository; inferences need admission."""
    service = _Service(repository, admission)
    unary: dict[str, Unary] = {
        "ServerLive": _method(pb.ServerLiveRequest, service.server_live),
        "ServerReady": _method(pb.ServerReadyRequest, service.server_ready),
        "ServerMetadata": _method(pb.ServerMetadataRequest, service.server_metadata),
        "ModelReady": _method(pb.ModelReadyRequest, service.model_ready),
        "ModelMetadata": _method(pb.ModelMetadataRequest, service.model_metadata),
        "ModelInfer": service.model_infer,
    }
    return Services(
        {f"/{SERVICE}/{name}": method for name, method in unary.items()},
        {f"/{SERVICE}/ModelStreamInfer": service.model_stream_infer},
    )


def _method(kind: type[M], answer: Callable[[M], Message]) -> Unary:
    async def method(data: bytes, call: Call) -> bytes:
        try:
            request = kind.FromString(data)
        except DecodeError as error:
            raise InvalidArgumentError(f"expected a {kind.__name__}, got malformed bytes: {error}") from error
        return answer(request).SerializeToString()

    return method


class _Service:
    """The methods over one repository."""

    def __init__(self, repository: Repository, admission: Admission) -> None:
        self._repository = repository
        self._admission = admission

    def server_live(self, request: pb.ServerLiveRequest) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    def server_ready(self, request: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=not self._admission.is_draining and self._repository.is_ready())

    def server_metadata(self, request: pb.ServerMetadataRequest) -> pb.ServerMetadataResponse:
        return pb.ServerMetadataResponse(
            name=metadata.SERVER_NAME, version=metadata.SERVER_VERSION, extensions=metadata.EXTENSIONS
        )

    def model_ready(self, request: pb.ModelReadyRequest) -> pb.ModelReadyResponse:
        ready = metadata.is_model_ready(self._repository, request.name, request.version)
        return pb.ModelReadyResponse(ready=ready)

    def model_metadata(self, request: pb.ModelMetadataRequest) -> pb.ModelMetadataResponse:
        found = metadata.model_metadata(self._repository, request.name, request.version)
        return pb.ModelMetadataResponse(
            name=found.name,
            versions=found.versions,
            platform=metadata.PLATFORM,
            inputs=[_tensor(each) for each in found.inputs],
            outputs=[_tensor(each) for each in found.outputs],
        )

    async def model_infer(self, data: bytes, call: Call) -> bytes:
        with self._admission.admit(len(data)):
            request = await decode_request(data)
            return await encode_reply(await infer(self._repository, request, host_of(call)))

    async def model_stream_infer(self, requests: AsyncIterator[bytes], send: Send, call: Call) -> None:
        # Replies in order; None ends them. Both tasks end with the call.
        replies: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(_MOST_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_send_in_order(replies, send))
                async for data in requests:
                    await replies.put(group.create_task(self._stream_reply(data, host_of(call))))
                await replies.put(None)
        except ExceptionGroup as errors:  # a reply cannot be sent
            raise errors.exceptions[0] from None

    async def _stream_reply(self, data: bytes, caller: str) -> bytes:
        """The reply to one request of a stream; its failure does not end the stream."""
        request = None
        try:
            with self._admission.admit(len(data)):
                request = await decode_request(data)
                reply = await encode_reply(await infer(self._repository, request, caller))
            return b"".join(delimited(_INFER_RESPONSE_KEY, [reply]))
        except Exception as error:
            failed = pb.ModelStreamInferResponse(error_message=_message(error))
            failed.infer_response.id = "" if request is None else request.id
            return failed.SerializeToString()


def _message(error: Exception) -> str:
    return from_exception(error).message


async def _send_in_order(
    replies: asyncio.Queue[asyncio.Task[bytes] | None], send: Callable[[bytes], Awaitable[Any]]
) -> None:
    while (reply := await replies.get()) is not None:
        await send(await reply)


def _tensor(each: metadata.TensorMetadata) -> pb.ModelMetadataResponse.TensorMetadata:
    return pb.ModelMetadataResponse.TensorMetadata(name=each.name, datatype=each.datatype, shape=each.shape)
