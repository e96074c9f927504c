"""The time of a call to another process, and the rate of a transfer of a 64 MiB tensor.

Only the transport, without session and step: a call of the size of a small step, and a tensor held by another process. The fast
path is compared with gRPC as aioexec uses it with TensorFlow, and with TensorFlow, whose server transfers the tensor between
two tasks in a step that does nothing else.
"""

import os
import sys
from asyncio import create_subprocess_exec, subprocess, to_thread
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import numpy as np

from bench.clusters import servers
from bench.workload import Case, Sample, Workload, call, measure_lag

QUESTION = __doc__.splitlines()[0]
MEASURES = "time of a call; in rows of lag, the 99th percentile of the caller's lag"
MIB = 1 << 20
CASES = [
    Case("call, 2 small tensors in, 1 out", variant="call"),
    Case("64 MiB", size=64, variant="tensor"),
    Case("lag at 64 MiB", size=64, variant="tensor lag"),
]
FAST, GRPC = "transport.negotiated_transport NegotiatedTransport", "transport.grpc GrpcTransport"

_HOLDER = """
import asyncio, importlib, sys
import numpy as np, uvloop
from aioexec.distributed.transport.transport import Payload
from aioexec.formats.protos import RecvTensorResponse, RunStepResponse
from aioexec.observability.loop_lag import LoopLagProbe

async def main(module, kind, mib):
    held = np.arange(mib << 18, dtype=np.float32)
    module = importlib.import_module(f"aioexec.distributed.{module}")
    probe = LoopLagProbe()
    await probe.__aenter__()

    async def step(request, call):
        nonlocal probe
        answer = request.tensors[0]
        if request.message.target:  # how late this loop was since it was asked last
            answer = np.float32(probe.result().p99_ms)
            await probe.__aexit__(None, None, None)
            probe = LoopLagProbe()
            await probe.__aenter__()
        reply = RunStepResponse()
        reply.tensor.add(name="sum:0")
        return Payload(reply, [answer])

    async def receive(request, call):
        return Payload(RecvTensorResponse(), [held])

    handlers = {"MasterService/RunStep": step, "WorkerService/RecvTensor": receive}
    listener = getattr(module, kind)().listener("127.0.0.1:0", handlers)
    await listener.start()
    print(listener.address, flush=True)
    await asyncio.Event().wait()

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main(*sys.argv[1:3], int(sys.argv[3])))
"""


async def held_elsewhere(transport: str, case: Case, stack: AsyncExitStack) -> Any:
    """A channel to a process that holds a tensor."""
    from importlib import import_module

    process = await create_subprocess_exec(
        sys.executable, "-c", _HOLDER, *transport.split(), str(case.size), stdout=subprocess.PIPE
    )
    stack.push_async_callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    address = (await process.stdout.readline()).decode().strip()
    module, kind = transport.split()
    channel = getattr(import_module(f"aioexec.distributed.{module}"), kind)().channel(address)
    stack.push_async_callback(channel.close)
    return channel


async def over(transport: str, case: Case, stack: AsyncExitStack) -> Workload:
    """The workload by one of our transports."""
    from aioexec.distributed.transport.transport import Payload
    from aioexec.formats.protos import RecvTensorRequest, RunStepRequest

    channel = await held_elsewhere(transport, case, stack)
    small = [np.array(3, np.float32), np.ones(4, np.float32)]

    async def step(*target: str) -> Any:
        request = RunStepRequest(session_handle="0123456789abcdef", fetch=["sum:0"], target=target)
        for name in ("x:0", "y:0"):
            request.feed.add(name=name)
        return (await channel.call("MasterService/RunStep", Payload(request, small))).tensors[0]

    async def receive() -> Any:
        request = RecvTensorRequest(step_id=1, rendezvous_key="key")
        return (await channel.call("WorkerService/RecvTensor", Payload(request))).tensors[0][-1]

    async def lag(seconds: float) -> Sample:
        await step("lag")
        sample = await measure_lag(receive, seconds)
        sample.notes["holder's lag p99 ms"] = float(await step("lag"))
        return sample

    if case.variant == "call":
        return Workload(step)
    return Workload(receive, measure=lag if case.variant.endswith("lag") else None)


aioexec = partial(over, FAST)
aioexec_grpc = partial(over, GRPC)


async def tensorflow(case: Case, stack: AsyncExitStack) -> Workload | None:
    """Servers of TensorFlow, the variable on one of them, the reader of it on the other."""
    if case.variant == "call":
        return None
    targets = await servers("tensorflow", 2, stack)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as lib

    with lib.Graph().as_default() as graph:
        with lib.device("/job:worker/task:1"):
            held = lib.Variable(lib.range(0.0, float(case.size << 18)), use_resource=False)
        with lib.device("/job:worker/task:0"):
            last = held.value()[-1]
    session = stack.enter_context(lib.Session(targets[0], graph=graph))
    session.run(held.initializer)
    step = partial(session.run, last)
    lag = partial(measure_lag, partial(to_thread, step))
    return Workload(partial(call, step), measure=lag if case.variant.endswith("lag") else None)
