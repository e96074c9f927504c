"""A SavedModel in a gRPC server of grpc.aio, with a service of one's own: a call for one tensor, and a stream of tensors.

    python -m examples.small_model /tmp/small
    python -m examples.serving_grpc /tmp/small

On SIGTERM the server accepts no further calls, answers those it has, and closes the model.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

import aioexec as ax
from aioexec.formats.protos import TensorProto
from examples import small_model

GRACE = 10.0
"""Seconds that calls under way may take at the end."""

SERVICE = "example.Classifier"


class Classifier:
    """The methods of the service: requests and replies are TensorProtos."""

    def __init__(self, model: ax.saved_model.LoadedModel) -> None:
        self._model = model

    async def classify(self, request: TensorProto, context: Any) -> TensorProto:
        """Rows in, a row of probabilities for each out; the client's deadline cancels the step."""
        try:
            outputs = await self._model(x=ax.make_ndarray(request))
        except ax.errors.OpError as error:
            await context.abort(status_of(error), error.message)
            raise
        return ax.make_tensor_proto(outputs["y"])

    async def classify_stream(
        self, requests: AsyncIterator[TensorProto], context: Any
    ) -> AsyncIterator[TensorProto]:
        """Answer each request of a stream while further ones arrive."""
        async for request in requests:
            yield await self.classify(request, context)

    def handler(self) -> Any:
        """The methods for gRPC. A program with .proto files of its own has a generated function for this."""
        codec = {
            "request_deserializer": TensorProto.FromString,
            "response_serializer": TensorProto.SerializeToString,
        }
        methods = {
            "Classify": grpc.unary_unary_rpc_method_handler(self.classify, **codec),
            "ClassifyStream": grpc.stream_stream_rpc_method_handler(self.classify_stream, **codec),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)


def status_of(error: ax.errors.OpError) -> grpc.StatusCode:
    """The gRPC status of an error: both have the same codes."""
    return next(status for status in grpc.StatusCode if status.value[0] == error.error_code)


@asynccontextmanager
async def serving(folder: str, port: int = 0) -> AsyncIterator[int]:
    """Serve the model in the block, on the port that it is given; at the end calls under way are answered."""
    async with await small_model.load(folder) as model:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([Classifier(model).handler()])
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        await server.start()
        try:
            yield bound
        finally:
            await server.stop(GRACE)


async def main(folder: str) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serving(folder, port=8081):
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
