"""A model whose steps are recorded and can be held back."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class RecordingModel:
    """Returns y = 2x; `steps` has the x of each step, `cancelled` the number of cancelled ones.

    Steps wait for `gate` and raise `error`, if it is set.
    """

    def __init__(self) -> None:
        self.steps: list[Array] = []
        self.cancelled = 0
        self.running = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.error: BaseException | None = None

    async def __call__(self, x: Array) -> dict[str, Array]:
        self.steps.append(x)
        self.running += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if self.error is not None:
            raise self.error
        return {"y": 2 * x}

    @property
    def sizes(self) -> list[int]:
        """The number of rows of each step."""
        return [len(x) for x in self.steps]


def rows(*values: float) -> Array:
    """Values as rows of one element."""
    return np.array(values, np.float32)[:, np.newaxis]
