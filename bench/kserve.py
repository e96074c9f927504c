"""The time of a KServe v2 inference over gRPC with 150 kB of input: tritonclient in one process, the server in another.

The model is the MLP; 48 images of 784 floats are 150,528 bytes.
"""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from typing import Any

from bench import mlp
from bench.kserve_servers import MODEL
from bench.workload import Case, Workload, measure_clients

QUESTION = __doc__.splitlines()[0]
MEASURES = "time per request, all clients together"
ROWS = 48
CASES = [Case("16 clients", size=16), Case("1 client", size=1)]


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await _workload("aioexec", case, stack)


async def onnxruntime_grpc(case: Case, stack: AsyncExitStack) -> Workload:
    return await _workload("grpc_aio", case, stack)


async def _workload(server: str, case: Case, stack: AsyncExitStack) -> Workload:
    """Requests of tritonclient to a server."""
    import tritonclient.grpc.aio as triton

    address = await _started(server, stack)
    client = await stack.enter_async_context(triton.InferenceServerClient(address))
    images = mlp.images(ROWS)
    x = triton.InferInput("x", images.shape, "FP32")
    x.set_data_from_numpy(images)
    outputs = [triton.InferRequestedOutput("y")]

    async def request() -> Any:
        result = await client.infer(MODEL, [x], outputs=outputs)
        return result.as_numpy("y")

    return Workload(request, measure=lambda seconds: measure_clients(request, case.size, seconds))


async def _started(server: str, stack: AsyncExitStack) -> str:
    """Start a server in another process, and return its address; it ends with the stack."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.kserve_servers",
        server,
        stdout=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    stack.push_async_callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError(f"the server {server!r} has ended before it served")
    return line.decode().strip()
