"""The gRPC port of a server: PredictionService, ModelService and GRPCInferenceService over one repository."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from aiohttp import web

from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.transport.grpc.listener import GrpcListener
from aioexec.distributed.transport.grpc.services import Services, Unary
from aioexec.distributed.transport.settings import Limits as TransportLimits
from aioexec.distributed.transport.transport import Call
from aioexec.errors import OK
from aioexec.formats.protos.error_codes_pb2 import Code
from aioexec.serving.application_keys import ADMISSION, LIMITS, METRICS, REPOSITORY
from aioexec.serving.kserve import grpc_service
from aioexec.serving.models.run_listeners import code_of
from aioexec.serving.prediction_service import model_service, prediction_service
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
    return Services(
        {
            path: _recorded(path, method, app[METRICS])
            for each in every
            for path, method in each.unary.items()
        },
        {path: method for each in every for path, method in each.streaming.items()},
    )


def _recorded(path: str, method: Unary, metrics: Metrics) -> Unary:
    """The method with metrics of its calls."""

    async def answer(data: bytes, call: Call) -> bytes:
        started, code = perf_counter(), OK
        try:
            return await method(data, call)
        except BaseException as error:
            code = code_of(error)
            raise
        finally:
            metrics.on_request("grpc", path, Code.Name(code), perf_counter() - started)

    return answer
