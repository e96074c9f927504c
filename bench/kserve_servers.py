"""Servers of the MLP for `bench.kserve`: `python -m bench.kserve_servers aioexec|grpc_aio` prints its address, and serves.

`grpc_aio` is what a program writes by hand: a servicer of `grpc.aio` that runs onnxruntime.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import mlp, sessions
from bench.workload import Case

MODEL = "mlp"


async def aioexec() -> None:
    """Serve with aioexec."""
    from aioexec.saved_model.signature import Signature
    from aioexec.serving import serve

    async with AsyncExitStack() as stack:
        session, built = await sessions.aioexec_session(mlp.build_inference, Case("", size=1), stack)
        (x,), (y,) = built.feeds, built.outputs
        signature = Signature("serving_default", {"x": x}, {"y": y}, session)
        server = await stack.enter_async_context(serve({MODEL: signature}, grpc_port=0))
        print(server.grpc_address, flush=True)
        await asyncio.Event().wait()


async def grpc_aio() -> None:
    """Serve with `grpc.aio` and onnxruntime."""
    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    session = mlp.onnxruntime_session()

    class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):
        async def ModelInfer(self, request: Any, context: Any) -> Any:
            shape = tuple(request.inputs[0].shape)
            x = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(shape)
            (y,) = session.run(None, {"x": x})
            response = service_pb2.ModelInferResponse(model_name=MODEL, model_version="1", id=request.id)
            response.outputs.add(name="y", datatype="FP32", shape=y.shape)
            response.raw_output_contents.append(y.tobytes())
            return response

    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def main(name: str) -> None:
    """Run one of the servers."""
    if name == "aioexec":
        import uvloop  # as `aioexec serve` does

        uvloop.run(aioexec())
    else:
        asyncio.run(grpc_aio())


if __name__ == "__main__":
    main(sys.argv[1])
