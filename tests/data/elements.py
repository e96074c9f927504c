"""Elements of datasets as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

import aioexec as ax
from aioexec.errors import OutOfRangeError


def plain(value: Any) -> Any:
    """An element with lists, numbers and bytes instead of arrays."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


async def rest(session: ax.Session, element: Any) -> list[Any]:
    """The elements until the end."""
    found = []
    try:
        while True:
            found.append(plain(await session.run(element)))
    except OutOfRangeError:
        return found


async def elements(dataset: ax.data.Dataset) -> list[Any]:
    """All elements of a dataset of the default graph."""
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    async with ax.Session() as session:
        await session.run(iterator.initializer)
        return await rest(session, element)
