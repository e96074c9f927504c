"""A graph whose nodes await an HTTP service: two requests of one step are concurrent, and a deadline ends both.

python examples/aiohttp_node.py
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import numpy as np
from aiohttp import web

import aioexec as ax

Answer = Callable[[web.Request], Awaitable[web.Response]]


async def scale(request: web.Request) -> web.Response:
    """The service: the numbers of the request, times the number in its path."""
    factor = float(request.match_info["factor"])
    return web.json_response([factor * number for number in await request.json()])


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """The address of a server on the loopback interface."""
    application = web.Application()
    application.router.add_post("/scale/{factor}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def build(client: aiohttp.ClientSession, url: str) -> tuple[ax.Tensor, ax.Tensor]:
    """x, to be fed, and the sum of what the service makes of it in two requests."""

    async def ask(factor: Any, numbers: Any) -> Any:
        async with client.post(f"{url}/scale/{float(factor)}", json=numbers.tolist()) as response:
            response.raise_for_status()
            return np.array(await response.json(), np.float32)

    x = ax.placeholder(ax.float32, [None], name="x")
    double = ax.py_func(ask, [2.0, x], ax.float32, name="double")
    triple = ax.py_func(ask, [3.0, x], ax.float32, name="triple")
    return x, double + triple


async def main() -> list[float]:
    async with serving(scale) as url, aiohttp.ClientSession() as client:
        with ax.Graph().as_default():
            x, result = build(client, url)
            async with ax.Session() as session, asyncio.timeout(10):
                values: list[float] = (await session.run(result, {x: [1, 2, 3]})).tolist()
    return values


if __name__ == "__main__":
    print(asyncio.run(main()))
