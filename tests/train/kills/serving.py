"""A process that serves a checkpoint: the response to x is x plus the saved step."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import aioexec as ax
from aioexec.saved_model.signature import Signature
from aioexec.serving import serve
from aioexec.train.checkpoints.checkpoint_state import latest_checkpoint
from aioexec.train.off_loop import off_loop
from tests.train.kills.model import model


async def serve_checkpoint(folder: str, say: Callable[..., None]) -> None:
    """Serve until the process is killed; print the address and the process id."""
    served = model("numbered")
    with served.graph.as_default():
        x = ax.placeholder(ax.float32, [None, 40], name="x")
        y = x + served.variables[1]
    async with served.session() as session:
        latest = await off_loop(latest_checkpoint, folder)
        assert latest is not None, "there is a checkpoint to serve"
        await served.saver.restore(session, latest)
        async with serve({"model": Signature("serving_default", {"x": x}, {"y": y}, session)}) as server:
            say(url=server.predict_url("model"), pid=os.getpid())
            await asyncio.Event().wait()
