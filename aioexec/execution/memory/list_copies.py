"""Copies lists of tensors to main memory, when they leave the device that has their elements."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import numpy as np

from aioexec.execution.memory.device_work import DeviceWork
from aioexec.planning.subgraph import Node
from aioexec.resources.tensor_list import TensorList, boxed


def copy_list_out(value: Any, work: DeviceWork, node: Node) -> Coroutine[Any, Any, Any] | None:
    """A list with the same elements in main memory; None if the value has no others.

    Args:
        node: the one that sends it.
    """
    content = value.item() if isinstance(value, np.ndarray) and value.size == 1 else None
    if not isinstance(content, TensorList):
        return None
    places = [(k, each) for k, each in content.items.present() if not isinstance(each, np.ndarray)]
    copies = [work.launcher(node).copy_out(each) for _, each in places]
    if not copies:
        return None

    async def copied() -> Any:
        found = content
        for (place, _), array in zip(places, await asyncio.gather(*copies), strict=True):
            found = found.replaced(place, array)
        return boxed(found)

    return copied()
