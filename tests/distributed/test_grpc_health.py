"""gRPC's health checking protocol, called as by any prober."""

import asyncio

import grpc
import pytest

from aioexec.distributed.security.security import Security
from aioexec.formats.protos import HealthCheckRequest, HealthCheckResponse
from tests.distributed.grpc_pairs import RUN_STEP, Pairs, Waiting, echo, step

pytestmark = pytest.mark.network

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


@pytest.fixture
async def pairs():
    async with Pairs() as pairs:
        yield pairs


async def check(channel, service=""):
    ask = channel.unary_unary("/grpc.health.v1.Health/Check")
    return HealthCheckResponse.FromString(
        await ask(HealthCheckRequest(service=service).SerializeToString())
    ).status


def watch(channel, service="", metadata=None):
    ask = channel.unary_stream("/grpc.health.v1.Health/Watch")
    return ask(HealthCheckRequest(service=service).SerializeToString(), metadata=metadata)


async def following(call):
    return HealthCheckResponse.FromString(await call.read()).status


@pytest.mark.parametrize("service", ["", "tensorflow.MasterService"])
async def test_a_listener_serves(pairs, service):
    listener = await pairs.listen({RUN_STEP: echo})

    assert await check(pairs.raw(listener.address), service) == SERVING


async def test_a_service_that_is_not_there_is_not_found(pairs):
    listener = await pairs.listen({RUN_STEP: echo})

    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await check(pairs.raw(listener.address), "tensorflow.WorkerService")

    assert failed.value.code() is grpc.StatusCode.NOT_FOUND


async def test_nonsense_is_an_internal_error(pairs):
    listener = await pairs.listen({})
    channel = pairs.raw(listener.address)

    for ask in (channel.unary_unary, channel.unary_stream):
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            call = ask(f"/grpc.health.v1.Health/{'Check' if ask == channel.unary_unary else 'Watch'}")(
                b"\xff"
            )
            await (call if ask == channel.unary_unary else call.read())
        assert failed.value.code() is grpc.StatusCode.INTERNAL


async def test_while_it_drains_a_listener_says_that_it_does_not_serve(pairs):
    handler = Waiting()
    listener, channel = await pairs.pair(handler)
    prober = pairs.raw(listener.address)
    watched = watch(prober)
    assert await following(watched) == SERVING
    under_way = asyncio.create_task(channel.call(RUN_STEP, step()))
    await handler.started.wait()

    stop = asyncio.create_task(listener.stop(30))

    assert await following(watched) == NOT_SERVING
    assert await check(prober) == NOT_SERVING
    handler.go_on.set()
    await asyncio.gather(stop, under_way)


async def test_a_watch_does_not_keep_a_listener_from_stopping(pairs):
    listener = await pairs.listen({})
    unknown, known = watch(pairs.raw(listener.address), "unknown"), watch(pairs.raw(listener.address))
    assert await following(unknown) == HealthCheckResponse.SERVICE_UNKNOWN
    assert await following(known) == SERVING

    await listener.stop(3600)

    assert await following(known) == NOT_SERVING


async def test_asking_once_needs_no_token_and_watching_does(pairs):
    security = Security(token="secret")
    listener = await pairs.listen({}, security=security)
    prober = pairs.raw(listener.address)

    assert await check(prober) == SERVING
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await following(watch(prober))
    assert failed.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert await following(watch(prober, metadata=(("authorization", "Bearer secret"),))) == SERVING
