"""A small SavedModel, y = softmax(x @ w): what the examples of serving load.

    python -m examples.small_model FOLDER

writes it. Any other SavedModel is loaded alike.
"""

from __future__ import annotations

import asyncio
import sys

import numpy as np

import aioexec as ax

WEIGHTS = np.array([[1, 0, -1], [0.5, 2, 0]], np.float32)


async def save(folder: str) -> None:
    """Write the model: x is float32 [n, 2], y float32 [n, 3]."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2], name="x")
        w = ax.get_variable("w", initializer=ax.constant(WEIGHTS))
        y = ax.nn.softmax(ax.matmul(x, w), name="y")
        async with ax.Session(graph=graph) as session:
            await session.run(ax.global_variables_initializer())
            await ax.saved_model.simple_save(session, folder, {"x": x}, {"y": y})


async def load(folder: str) -> ax.saved_model.LoadedModel:
    """Load the model and warm it up: a first step compiles its kernels, in threads, while the event loop goes on.

    Two steps, since the second one has a plan of its own: the first finds the shapes for it.
    """
    model = await ax.load(folder)
    for _ in range(2):
        await model(x=np.zeros([1, 2], np.float32))
    return model


if __name__ == "__main__":
    asyncio.run(save(sys.argv[1]))
