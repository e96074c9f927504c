"""Functions that run one step repeatedly: defined by fetches and feeds, or by a CallableOptions proto."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.sessions.fetches import remembered_by
from aioexec.sessions.options import own_message
from aioexec.sessions.runtime import SessionRuntime


class CallableSession(Protocol):
    """The part of `Session` that a `FetchCallable` uses."""

    @property
    def prepared(self) -> Mapping[Any, Any]: ...
    def begin(self, prepared: Any, feeds: Any) -> Any: ...
    def finish(self, begun: Any) -> Awaitable[list[Any]]: ...
    def run(
        self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None
    ) -> Awaitable[Any]: ...


class FetchCallable:
    """The result of `Session.make_callable`.

    Constant: `_fetches`, their structure; `_feeds`, the tensors whose values a call takes, in order; `_accepts_options`,
    whether calls may pass options and metadata; `_key`, the key of the step in the session's cache, once it has been run.
    """

    __slots__ = ("_accepts_options", "_feeds", "_fetches", "_key", "_session")

    def __init__(
        self, session: CallableSession, fetches: Any, feeds: tuple[Any, ...], accepts_options: bool
    ) -> None:
        self._session = session
        self._fetches = fetches
        self._feeds = feeds
        self._key = remembered_by(fetches, feeds)
        self._accepts_options = accepts_options

    async def __call__(self, *values: Any, options: Any = None, run_metadata: Any = None) -> Any:
        """Run the step with these values for the feeds.

        Raises:
            GraphValueError: another number of values than of feeds.
            GraphTypeError: options for a callable that was made without `accept_options`.
        """
        if len(values) != len(self._feeds):
            raise GraphValueError(f"Expected {len(self._feeds)} feed tensors, but got {len(values)}")
        session = self._session
        if options is None and run_metadata is None:
            prepared = session.prepared.get(self._key)
            outputs = None if prepared is None else session.begin(prepared, values)
            if prepared is not None and outputs is not None:
                return prepared.build(outputs if isinstance(outputs, list) else await session.finish(outputs))
        elif not self._accepts_options:
            raise GraphTypeError("make_callable: options are taken only with accept_options=True")
        feeds = dict(zip(self._feeds, values, strict=True))
        return await session.run(self._fetches, feeds, options, run_metadata)


class SessionCallable:
    """The result of `Session._make_callable_from_options`: holds the runtime's handle of a prepared step."""

    def __init__(self, runtime: SessionRuntime, handle: int) -> None:
        self._runtime = runtime
        self._handle = handle
        self._is_released = False  # the handle is not valid any more

    async def __call__(self, *values: Any, run_metadata: Any = None) -> list[Any]:
        """Run the step with values in the order of `CallableOptions.feed`; the fetches in their order.

        Raises:
            InvalidArgumentError: another number of values; the callable was released.
        """
        if self._is_released:
            raise InvalidArgumentError(f"Attempted to run callable after handle was released: {self._handle}")
        return await self._runtime.run_callable(self._handle, values, run_metadata)

    async def release(self) -> None:
        """Release the step; a second call does nothing. A session that closes releases all of them."""
        if not self._is_released:
            self._is_released = True
            await self._runtime.release_callable(self._handle)


async def make_session_callable(runtime: SessionRuntime, callable_options: Any) -> SessionCallable:
    """Prepare the step a CallableOptions proto describes."""
    options = own_message(callable_options, "CallableOptions", "callable_options")
    return SessionCallable(runtime, await runtime.make_callable(options))
