"""Hooks that feed each step, or run final ops after the last step."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from aioexec.errors import OutOfRangeError
from aioexec.train.errors import call_function
from aioexec.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook

if TYPE_CHECKING:
    from aioexec.sessions.session import Session

logger = logging.getLogger(__name__)

Feeds = Mapping[Any, Any] | None


class FeedFnHook(SessionRunHook):
    """Feeds each step the result of `feed_fn()`, which may be `async def`."""

    def __init__(self, feed_fn: Callable[[], Feeds | Awaitable[Feeds]]) -> None:
        self.feed_fn = feed_fn

    async def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return SessionRunArgs(fetches=None, feed_dict=await call_function(self.feed_fn))


class FinalOpsHook(SessionRunHook):
    """Runs `final_ops`, any structure of fetches, at the end, and stores the values in `final_ops_values`."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: Feeds = None) -> None:
        self._final_ops = final_ops
        self._final_ops_feed_dict = final_ops_feed_dict
        self._final_ops_values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """The results of the run at the end, None before it."""
        return self._final_ops_values

    async def end(self, session: Session) -> None:
        if self._final_ops is None:
            return
        try:
            self._final_ops_values = await session.run(self._final_ops, feed_dict=self._final_ops_feed_dict)
        except OutOfRangeError:
            logger.warning(
                "FinalOpsHook: the final ops read from an input that has ended. They should depend on variables only, as "
                "the value op of a metric does, not on another batch."
            )
            raise
