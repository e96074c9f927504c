"""Functions that run one step again and again: of fetches and feeds, or as a CallableOptions proto describes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.sessions.options import own_message
from aioexec.sessions.runtime import SessionRuntime


class FetchCallable:
    """What `Session.make_callable` returns."""

    __slots__ = ("_accepts_options", "_feeds", "_fetches", "_run")

    def __init__(
        self, run: Callable[..., Any], fetches: Any, feeds: tuple[Any, ...], accepts_options: bool
    ) -> None:
        self._run = run
        self._fetches = fetches
        self._feeds = feeds
        self._accepts_options = accepts_options

    async def __call__(self, *values: Any, options: Any = None, run_metadata: Any = None) -> Any:
        """Run the step with these values for the feeds.

        Raises:
            GraphValueError: another number of values than of feeds.
            GraphTypeError: options for a callable that was made without `accept_options`.
        """
        if len(values) != len(self._feeds):
            raise GraphValueError(f"Expected {len(self._feeds)} feed tensors, but got {len(values)}")
        if not self._accepts_options and (options is not None or run_metadata is not None):
            raise GraphTypeError("make_callable: options are taken only with accept_options=True")
        return await self._run(
            self._fetches, dict(zip(self._feeds, values, strict=True)), options, run_metadata
        )


class SessionCallable:
    """What `Session._make_callable_from_options` returns: the runtime's handle of a prepared step."""

    def __init__(self, runtime: SessionRuntime, handle: int) -> None:
        self._runtime = runtime
        self._handle = handle
        self._is_released = False

    async def __call__(self, *values: Any, run_metadata: Any = None) -> list[Any]:
        """Run the step with values in the order of `CallableOptions.feed`; the fetches in their order.

        Raises:
            InvalidArgumentError: another number of values; the callable was released.
        """
        if self._is_released:
            raise InvalidArgumentError(f"Attempted to run callable after handle was released: {self._handle}")
        return await self._runtime.run_callable(self._handle, values, run_metadata)

    async def release(self) -> None:
        """Forget the step; releasing twice is fine. A session that closes forgets all of them."""
        if not self._is_released:
            self._is_released = True
            await self._runtime.release_callable(self._handle)


async def make_session_callable(runtime: SessionRuntime, callable_options: Any) -> SessionCallable:
    """Prepare the step a CallableOptions proto describes."""
    options = own_message(callable_options, "CallableOptions", "callable_options")
    return SessionCallable(runtime, await runtime.make_callable(options))
