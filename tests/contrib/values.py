"""Values for tests of `ax.contrib`: drawn arrays, initial values, and what a graph computes from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import aioexec as ax


def drawn(*shape: int, seed: int = 0) -> Any:
    """The same values each time."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def filled(value: Any) -> Any:
    return ax.constant_initializer(value)


def names(nodes: Iterable[Any]) -> list[str]:
    return [node.op.name for node in nodes]


async def evaluated(fetches: Any, *updates: Any, feeds: Any = None) -> Any:
    """The values of fetches after the initial values of all variables were set and the updates run."""
    async with ax.Session() as session:
        await session.run([ax.global_variables_initializer(), ax.local_variables_initializer()])
        for update in updates:
            await session.run(update, feeds)
        return await session.run(fetches, feeds)
