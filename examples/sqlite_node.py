"""A graph whose node awaits a SQLite database: the price of a basket, with prices looked up during the step.

The session's loop continues while the database works; a cancelled step, or one past its deadline, cancels its query.

    python examples/sqlite_node.py          (needs: pip install aiosqlite)
"""

from __future__ import annotations

import asyncio
from typing import Any

import aiosqlite
import numpy as np

import aioexec as ax

PRICES = {1: 2.5, 2: 10.0, 3: 0.75}


async def create_prices(database: aiosqlite.Connection) -> None:
    await database.execute("CREATE TABLE prices (article INTEGER PRIMARY KEY, price REAL)")
    await database.executemany("INSERT INTO prices VALUES (?, ?)", PRICES.items())
    await database.commit()


def build(database: aiosqlite.Connection) -> tuple[ax.Tensor, ax.Tensor, ax.Tensor]:
    """Articles and amounts, to be fed, and what they cost."""

    async def look_up(articles: Any) -> Any:
        marks = ",".join("?" * len(articles))
        query = f"SELECT article, price FROM prices WHERE article IN ({marks})"
        async with database.execute(query, articles.tolist()) as rows:
            found = {article: price async for article, price in rows}
        unknown = [int(article) for article in articles if int(article) not in found]
        if unknown:
            raise ax.errors.NotFoundError(f"no price for articles {unknown}")
        return np.array([found[int(article)] for article in articles], np.float32)

    articles = ax.placeholder(ax.int64, [None], name="articles")
    amounts = ax.placeholder(ax.float32, [None], name="amounts")
    prices = ax.py_func(look_up, [articles], ax.float32, name="prices")
    return articles, amounts, ax.reduce_sum(prices * amounts)


async def main() -> float:
    async with aiosqlite.connect(":memory:") as database:
        await create_prices(database)
        with ax.Graph().as_default():
            articles, amounts, total = build(database)
            async with ax.Session() as session:
                cost = await session.run(total, {articles: [1, 3], amounts: [4, 2]})
    return float(cost)


if __name__ == "__main__":
    print(asyncio.run(main()))
