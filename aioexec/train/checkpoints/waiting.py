"""Waits for checkpoints that another program, or another task, writes to a folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable

from aioexec.train.callbacks import settle
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
        seconds_to_sleep: the polling interval.
        timeout: the most seconds to wait; None for no limit.

    Returns:
        The path of the checkpoint; None after the timeout.
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
    """Yield the latest checkpoint of a folder whenever it changes; those in between are skipped while the caller is busy.

    Args:
        min_interval_secs: the least time between two checkpoints.
        timeout: the most seconds to wait for the next one; None for no limit.
        timeout_fn: called after a timeout; true ends the iterator, false waits again. Without it the iterator ends.
    """
    now = asyncio.get_running_loop().time
    path: str | None = None
    while True:
        found = await wait_for_new_checkpoint(checkpoint_dir, path, timeout=timeout)
        if found is None:
            if timeout_fn is None or await settle(timeout_fn()):
                logger.info("No new checkpoint at %s: done", checkpoint_dir)
                return
            continue
        path = found
        begin = now()
        yield path
        await asyncio.sleep(max(0, begin + min_interval_secs - now()))
