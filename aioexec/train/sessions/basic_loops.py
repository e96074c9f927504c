"""The simplest training loop: calls one function until a stop is requested."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec.errors import AbortedError
from aioexec.train.callbacks import settle
from aioexec.train.sessions.supervisor import Supervisor


async def basic_train_loop(
    supervisor: Supervisor,
    train_step_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    master: str = "",
) -> None:
    """Call `train_step_fn(session, *args, **kwargs)`, plain or `async def`, until a stop is requested.

    After an AbortedError (a server was restarted) the loop continues with a new session.

    Raises:
        BaseException: the first error of a step or a service, unless it only ends the input.
    """
    while True:
        try:
            async with supervisor.managed_session(master) as sess:
                while not supervisor.should_stop():
                    await settle(train_step_fn(sess, *(args or ()), **(kwargs or {})))
                    await asyncio.sleep(0)  # yield to the services, as the step may not suspend
        except AbortedError:
            continue
        return
