"""The number of requests of 64 concurrent clients of the MLP (batch 1) that one loop serves per second.

In the second case aioexec joins the requests to batches of at most 64 rows.
"""

from asyncio import sleep, to_thread
from contextlib import AsyncExitStack
from typing import Any

from bench import mlp, sessions
from bench.workload import Case, Workload, measure_clients

QUESTION = __doc__.splitlines()[0]
MEASURES = "time per request, all clients together"
CASES = [Case("64 clients", size=1), Case("64 clients, batched", size=1, variant="batched")]
CLIENTS = 64
BATCH = 64


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    session, built = await sessions.aioexec_session(mlp.build_inference, case, stack)
    if case.variant == "batched":
        return await _batched(session, built, stack)
    fetches, feeds = [*built.outputs], dict(built.feeds)

    async def request() -> Any:
        return await session.run(fetches, feeds)

    return Workload(request, measure=lambda seconds: measure_clients(request, CLIENTS, seconds))


async def _batched(session: Any, built: sessions.Graphed, stack: AsyncExitStack) -> Workload:
    import aioexec as ax

    ((x, rows),) = built.feeds.items()
    signature = ax.saved_model.Signature("mlp", {"x": x}, {"y": built.outputs[0]}, session)
    batcher = ax.batching.Batcher(signature, max_batch_size=BATCH, max_delay=0, max_queue=CLIENTS)
    await stack.enter_async_context(batcher)

    async def request() -> Any:
        return await batcher(x=rows)

    async def outputs() -> Any:
        return [(await request())["y"]]

    return Workload(request, outputs, measure=lambda seconds: measure_clients(request, CLIENTS, seconds))


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
