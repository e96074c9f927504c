"""The examples work, also when a step is cancelled or a service fails."""

from __future__ import annotations

import asyncio

import aiohttp
import aiosqlite
import pytest
from aiohttp import web

import aioexec as ax
from aioexec.errors import NotFoundError, UnknownError
from aioexec.train.off_loop import off_loop
from examples import aiohttp_node, monitored_training, sqlite_node


async def test_a_basket_is_priced_from_a_database():
    assert await sqlite_node.main() == 4 * 2.5 + 2 * 0.75


async def test_what_the_database_does_not_know_fails_the_step_and_not_the_session():
    async with aiosqlite.connect(":memory:") as database:
        await sqlite_node.create_prices(database)
        with ax.Graph().as_default():
            articles, amounts, total = sqlite_node.build(database)
            async with ax.Session() as session:
                with pytest.raises(NotFoundError, match=r"no price for articles \[7\]"):
                    await session.run(total, {articles: [1, 7], amounts: [1, 1]})

                assert await session.run(total, {articles: [2], amounts: [3]}) == 30


@pytest.mark.network
async def test_two_requests_of_a_step_are_answered():
    assert await aiohttp_node.main() == [5, 10, 15]


@pytest.mark.network
async def test_requests_of_a_step_are_under_way_together():
    together = asyncio.Barrier(2)

    async def answer_when_both_have_come(request: web.Request) -> web.Response:
        await together.wait()
        return await aiohttp_node.scale(request)

    async with aiohttp_node.serving(answer_when_both_have_come) as url, aiohttp.ClientSession() as client:
        with ax.Graph().as_default():
            x, result = aiohttp_node.build(client, url)
            async with ax.Session() as session:
                assert (await session.run(result, {x: [1]})).tolist() == [5]


@pytest.mark.network
async def test_cancelling_a_step_ends_its_requests():
    asked, never = asyncio.Barrier(3), asyncio.Event()

    async def answer_never(request: web.Request) -> web.Response:
        await asked.wait()
        await never.wait()
        raise AssertionError

    async with aiohttp_node.serving(answer_never) as url, aiohttp.ClientSession() as client:
        with ax.Graph().as_default():
            x, result = aiohttp_node.build(client, url)
            async with ax.Session() as session:
                task = asyncio.create_task(session.run(result, {x: [1]}))
                await asked.wait()

                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await session.run(x * 2, {x: [1]})).tolist() == [2]
        never.set()


@pytest.mark.network
async def test_a_refusing_service_fails_the_step():
    async def refuse(request: web.Request) -> web.Response:
        raise web.HTTPServiceUnavailable

    async with aiohttp_node.serving(refuse) as url, aiohttp.ClientSession() as client:
        with ax.Graph().as_default():
            x, result = aiohttp_node.build(client, url)
            async with ax.Session() as session:
                with pytest.raises(UnknownError, match="503") as caught:
                    await session.run(result, {x: [1]})

    assert caught.value.node in ("double", "triple")


@pytest.mark.slow
@pytest.mark.parametrize("train", [monitored_training.train, monitored_training.train_with_hooks_of_ones_own])
async def test_training_goes_on_from_its_last_checkpoint(tmp_path, train):
    try:
        halfway = await train(str(tmp_path), 100)
        assert await off_loop(ax.train.latest_checkpoint, str(tmp_path)) == str(tmp_path / "model.ckpt-100")

        assert await train(str(tmp_path), 200) < halfway / 10
        assert await off_loop(ax.train.latest_checkpoint, str(tmp_path)) == str(tmp_path / "model.ckpt-200")
        assert list(tmp_path.glob("events.out.tfevents.*"))
    finally:
        await ax.summary.FileWriterCache.clear()
