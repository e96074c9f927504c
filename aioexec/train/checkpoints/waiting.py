"""Waits for checkpoints that another program, or another task, writes into a folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable

from aioexec.train.callbacks import settled
from aioexec.train.checkpoints.checkpoint_state import Path, latest_checkpoint
from aioexec.train.off_loop import off_loop

logger = logging.getLogger(__name__)


async def wait_for_new_checkpoint(
    checkpoint_dir: Path,
    last_checkpoint: str | None = None,
    seconds_to_sleep: float = 1,
    timeout: float | None = None,
) -> str | None:
    """Wait until the latest checkpoint of a folder is another one than `last_checkpoint`.

    Args:
        seconds_to_sleep: how long to wait before looking again.
        timeout: how many seconds to wait altogether; None for as long as it takes.

    Returns:
        The path of the checkpoint; None if there is none by then.
    """
    now = asyncio.get_running_loop().time
    end = None if timeout is None else now() + timeout
    logger.info("Waiting for new checkpoint at %s", checkpoint_dir)
    while True:
        path = await off_loop(latest_checkpoint, checkpoint_dir)
        if path is not None and path != last_checkpoint:
            logger.info("Found new checkpoint at %s", path)
            return path
        if end is not None and now() + seconds_to_sleep > end:
            return None
        await asyncio.sleep(seconds_to_sleep)


async def checkpoints_iterator(
    checkpoint_dir: Path,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool | Awaitable[bool]] | None = None,
) -> AsyncGenerator[str, None]:
    """The checkpoints that come into a folder, as they come; those in between are missed while the caller is busy.

    Args:
        min_interval_secs: the least time from one checkpoint to the next.
        timeout: how many seconds to wait for the next one; None for as long as it takes.
        timeout_fn: called when none has come; says whether there will be no more, otherwise the wait begins anew. Without it
            the iterator ends then.
    """
    now = asyncio.get_running_loop().time
    path: str | None = None
    while True:
        found = await wait_for_new_checkpoint(checkpoint_dir, path, timeout=timeout)
        if found is None:
            if timeout_fn is None or await settled(timeout_fn()):
                logger.info("No new checkpoint at %s: done", checkpoint_dir)
                return
            continue
        path = found
        begin = now()
        yield path
        await asyncio.sleep(max(0, begin + min_interval_secs - now()))
