"""The gRPC port of a server: PredictionService, ModelService and GRPCInferenceService over one repository."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from time import perf_counter
from typing import Any

from aiohttp import web

from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.transport.grpc.listener import GrpcListener
from aioexec.distributed.transport.grpc.services import Send, Services, Streaming, Unary
from aioexec.distributed.transport.settings import Limits as TransportLimits
from aioexec.distributed.transport.transport import Call
from aioexec.errors import OK
from aioexec.formats.protos.error_codes_pb2 import Code
from aioexec.serving.application_keys import ADMISSION, LIMITS, METRICS, REPOSITORY
from aioexec.serving.kserve import grpc_service
from aioexec.serving.models.run_listeners import code_of
from aioexec.serving.prediction_service import model_service, prediction_service
from aioexec.serving.telemetry import tracing
from aioexec.serving.telemetry.metrics import Metrics


@asynccontextmanager
async def grpc_listening(
    app: web.Application, address: str, security: Security, grace: float
) -> AsyncIterator[GrpcListener]:
    """Listen at an address in the block, for the models of an application, with its limits and admission.

    A caller's deadline, and its disconnection, cancel its step.

    Raises:
        UnavailableError: cannot listen there.
        FailedPreconditionError: `security` is too weak for the address.
    """
    limits = TransportLimits(message_bytes=app[LIMITS].request_bytes)
    listener = GrpcTransport(security, limits).service_listener(address, _services(app, security))
    try:
        await listener.start()
        yield listener
    finally:
        await listener.stop(grace)


def _services(app: web.Application, security: Security) -> Services:
    repository, admission = app[REPOSITORY], app[ADMISSION]
    every = (
        prediction_service.services(repository, admission, app[LIMITS]),
        model_service.services(repository, may_reload=security.trusts_all_users),
        grpc_service.services(repository, admission),
    )
    metrics = app[METRICS]
    return Services(
        {path: _unary(path, method, metrics) for each in every for path, method in each.unary.items()},
        {path: _stream(path, method, metrics) for each in every for path, method in each.streaming.items()},
    )


def _unary(path: str, method: Unary, metrics: Metrics) -> Unary:
    """The method with metrics and spans of its calls."""

    async def answer(data: bytes, call: Call) -> bytes:
        with _recorded(path, call, metrics):
            return await method(data, call)

    return answer


def _stream(path: str, method: Streaming, metrics: Metrics) -> Streaming:
    """The method with metrics and spans of its calls, each a whole stream."""

    async def answer(requests: AsyncIterator[bytes], send: Send, call: Call) -> None:
        with _recorded(path, call, metrics):
            await method(requests, send, call)

    return answer


@contextmanager
def _recorded(path: str, call: Call, metrics: Metrics) -> Iterator[None]:
    """Record the call in the block."""
    started, code = perf_counter(), OK
    with _span(path, call) as span:
        try:
            yield
        except BaseException as error:
            code = code_of(error)
            raise
        finally:
            metrics.on_request("grpc", path, Code.Name(code), perf_counter() - started)
            if span is not None:
                tracing.set_code(span, code)


def _span(path: str, call: Call) -> AbstractContextManager[Any]:
    """The span of a call, a child of the one in its metadata; None if the program does not trace."""
    if not tracing.is_traced():
        return nullcontext()
    return tracing.request_span(
        path.lstrip("/"), {key: value for key, value in call.metadata if isinstance(value, str)}
    )
