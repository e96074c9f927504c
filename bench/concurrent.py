"""The number of requests of 64 concurrent clients of the MLP (batch 1) that one loop serves per second."""

from asyncio import sleep, to_thread
from contextlib import AsyncExitStack
from typing import Any

from bench import mlp, sessions
from bench.workload import Case, Workload, measure_clients

QUESTION = __doc__
MEASURES = "time per request, all clients together"
CASES = [Case("64 clients", size=1)]
CLIENTS = 64


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    session, built = await sessions.aioexec_session(mlp.build_inference, case, stack)
    fetches, feeds = [*built.outputs], dict(built.feeds)

    async def request() -> Any:
        return await session.run(fetches, feeds)

    return Workload(request, measure=lambda seconds: measure_clients(request, CLIENTS, seconds))


def tensorflow_threads(case: Case) -> Workload:
    session, built = sessions.tensorflow_session(mlp.build_inference, case)
    fetches, feeds = [*built.outputs], dict(built.feeds)
    return _in_threads(lambda: session.run(fetches, feeds))


def onnxruntime_threads(case: Case) -> Workload:
    session = mlp.onnxruntime_session()
    feeds = {"x": mlp.images(case.size)}
    return _in_threads(lambda: session.run(None, feeds))


def numpy(case: Case) -> Workload:
    x, layers = mlp.images(case.size), mlp.weights()

    async def request() -> Any:
        result = mlp.numpy_forward(x, layers)
        await sleep(0)
        return result

    return Workload(request, measure=lambda seconds: measure_clients(request, CLIENTS, seconds))


def _in_threads(run: Any) -> Workload:
    async def request() -> Any:
        return await to_thread(run)

    return Workload(request, measure=lambda seconds: measure_clients(request, CLIENTS, seconds))
